//! Makes one hybrid image with xorriso. It boots from a CD (El Torito) and from a
//! USB stick, under BIOS (x86 only) and under UEFI.
//!
//! The EFI system partition is in the image only once: the CD's boot catalogue and the
//! stick's partition table point to the same blocks. It is a file near the start of the
//! image, so the loader of a truncated ISO still starts and can report the fault.

use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use landfall_initramfs::arch::Arch;
use landfall_media_formats::layout::{KERNEL, RAMDISK};
use landfall_media_formats::{coreos_image, fat};

use crate::areas;
use crate::boot_parts::{self, Loaders, Part};
use crate::coreos_image::PlacedImage;
use crate::external_program::run;
use crate::grub_core::GrubCore;
use crate::kernel_args::KernelArgs;
use crate::medium_identity::MediumIdentity;
use crate::{checksums, coreos_layout, grub_cfg};

/// The label of the volume: at most 32 characters of A-Z, 0-9 and `_`.
pub(crate) const VOLUME_LABEL: &str = "LANDFALL";
const BIOS_LOADER: &str = "boot/grub/eltorito.img";
const EFI_PARTITION: &str = "boot/grub/efi.img";

#[derive(Debug)]
pub(crate) struct Medium<'a> {
    pub(crate) loaders: &'a Loaders,
    pub(crate) kernel: &'a Path,
    pub(crate) ramdisk: &'a Path,
    pub(crate) kernel_args: &'a KernelArgs,
    pub(crate) identity: &'a MediumIdentity,
    pub(crate) secure_boot: bool,
    /// In bytes: the size of the embed area, and also of the Ignition area.
    pub(crate) embed_size: usize,
    pub(crate) epoch: u32,
    pub(crate) coreos_image: Option<&'a PlacedImage>,
}

/// The files of Debian packages that [`write()`] needs.
pub(crate) fn required_parts(loaders: &Loaders, secure_boot: bool) -> Vec<Part> {
    let mut parts = vec![boot_parts::XORRISO];
    if loaders.arch.has_bios() || !secure_boot {
        parts.push(boot_parts::GRUB_MKIMAGE);
    }
    if loaders.arch.has_bios() {
        parts.extend([
            boot_parts::BIOS_MODULES,
            boot_parts::BIOS_CD_BOOT,
            boot_parts::BIOS_HYBRID_MBR,
        ]);
    }
    let efi = loaders.efi();
    if secure_boot {
        parts.extend([efi.shim, efi.signed_grub_cd]);
    } else {
        parts.push(efi.grub_modules);
    }
    parts
}

/// Writes the image to `output`. The directory `work` is for temporary files.
pub(crate) fn write(medium: &Medium<'_>, work: &Path, output: &Path) -> Result<()> {
    let tree = work.join("tree");
    fill(medium, work, &Tree(&tree))?;
    set_times(&tree, medium.epoch)
        .with_context(|| format!("cannot set the times in {}", tree.display()))?;
    let image_order: &[&str] = match medium.coreos_image {
        Some(_) => &["--sort-weight", "-2", "/landfall"],
        None => &[],
    };
    let mut command = Command::new("xorriso");
    command
        .env("SOURCE_DATE_EPOCH", medium.epoch.to_string())
        // Level 3 allows a file of 4 GiB or more, in several pieces.
        .args(["-as", "mkisofs", "-quiet", "-iso-level", "3"])
        .args(["-R", "-r", "-V", VOLUME_LABEL])
        .arg(format!(
            "--modification-date={}",
            medium.identity.modification_date
        ))
        .args(["--set_all_file_dates", "set_to_mtime"]);
    if medium.loaders.arch.has_bios() {
        command
            .args(["-b", BIOS_LOADER, "-no-emul-boot"])
            .args(["-boot-load-size", "4", "-boot-info-table"])
            .args(["--grub2-boot-info", "--grub2-mbr"])
            .arg(medium.loaders.path(boot_parts::BIOS_HYBRID_MBR));
    }
    run(command
        .args(["--protective-msdos-label", "-partition_offset", "16"])
        .args(["--gpt_disk_guid", &medium.identity.disk_guid])
        .args(["--efi-boot", EFI_PARTITION])
        .args(["-efi-boot-part", "--efi-boot-image"])
        // Small files first, then the ramdisk, and a disk image of gigabytes last:
        // image-customization-controller cannot overwrite anything beyond the first 4
        // GiB.
        .args(["--sort-weight", "-1", &format!("/{RAMDISK}")])
        .args(["--sort-weight", "-1"])
        .arg(format!("/{}", coreos_layout::RAMDISK))
        .args(image_order)
        .arg("-o")
        .args([output, &tree]))?;
    checksums::write(output)
}

/// The directory that becomes the content of the ISO.
struct Tree<'a>(&'a Path);

impl Tree<'_> {
    fn path(&self, path: &str) -> Result<PathBuf> {
        let full = self.0.join(path);
        if let Some(parent) = full.parent() {
            fs::create_dir_all(parent)
                .with_context(|| format!("cannot make {}", parent.display()))?;
        }
        Ok(full)
    }

    fn put(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let full = self.path(path)?;
        fs::write(&full, bytes).with_context(|| format!("cannot write {}", full.display()))
    }

    fn copy(&self, path: &str, from: &Path) -> Result<()> {
        let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        self.put(path, &bytes)
    }

    /// Gives a file a second path. xorriso stores the content once.
    fn link(&self, path: &str, to: &str) -> Result<()> {
        let full = self.path(path)?;
        fs::hard_link(self.0.join(to), &full)
            .with_context(|| format!("cannot link {} to {to}", full.display()))
    }
}

fn fill(medium: &Medium<'_>, work: &Path, tree: &Tree<'_>) -> Result<()> {
    tree.copy(KERNEL, medium.kernel)?;
    tree.copy(RAMDISK, medium.ramdisk)?;
    fill_areas(medium, tree)?;
    tree.link(coreos_layout::KERNEL, KERNEL)?;
    tree.link(coreos_layout::RAMDISK, RAMDISK)?;
    tree.put(coreos_layout::ROOTFS, &coreos_layout::empty_ramdisk())?;
    tree.put(EFI_PARTITION, &efi_partition(medium, work)?)?;
    tree.put(checksums::PATH, &vec![b'#'; checksums::SIZE])?;
    let menu = grub_cfg::medium_menu(&medium.identity.volume_uuid);
    tree.put("boot/grub/grub.cfg", menu.as_bytes())?;
    if let Some(placed) = medium.coreos_image {
        tree.put(coreos_image::DESCRIPTION, placed.image.to_json().as_bytes())?;
        let place = tree.path(coreos_image::FILE)?;
        let (from, to) = (placed.copy.display(), place.display());
        fs::rename(&placed.copy, &place).with_context(|| format!("cannot move {from} to {to}"))?;
    }
    if !medium.loaders.arch.has_bios() {
        return Ok(());
    }
    let mut bios_loader = medium.loaders.read(boot_parts::BIOS_CD_BOOT)?;
    bios_loader.extend(bios_core(medium, work)?);
    tree.put(BIOS_LOADER, &bios_loader)
}

/// Puts the areas for kernel arguments and for further ramdisks into the tree, with their
/// descriptions for Landfall's own programs and for coreos-installer.
fn fill_areas(medium: &Medium<'_>, tree: &Tree<'_>) -> Result<()> {
    let areas = areas::areas(medium.kernel_args, medium.embed_size);
    let kargs = areas.kargs.file(medium.kernel_args.as_str())?;
    tree.put(&areas.kargs.path, &kargs)?;
    for path in [areas::EMBED_PATH, areas::IGNITION_PATH] {
        tree.put(path, &vec![0; medium.embed_size])?;
    }
    let json = serde_json::to_string_pretty(&areas)? + "\n";
    tree.put(areas::DESCRIPTION_PATH, json.as_bytes())?;
    for description in coreos_layout::descriptions(&areas.kargs)? {
        tree.put(description.path, description.json.as_bytes())?;
        tree.link(description.short_path, description.path)?;
    }
    Ok(())
}

fn bios_core(medium: &Medium<'_>, work: &Path) -> Result<Vec<u8>> {
    let modules = [
        "biosdisk",
        "iso9660",
        "part_msdos",
        "part_gpt",
        "search",
        "search_fs_uuid",
        "normal",
        "configfile",
    ];
    let modules = modules.iter().chain(&[
        "boot", "linux", "loadenv", "echo", "test", "true", "sleep", "serial", "terminal",
    ]);
    grub_core(
        medium,
        work,
        "i386-pc",
        &modules.copied().collect::<Vec<_>>(),
    )
}

fn efi_partition(medium: &Medium<'_>, work: &Path) -> Result<Vec<u8>> {
    let serial = medium.identity.fat_serial;
    let loaders = medium.loaders;
    let (efi, first) = (loaders.efi(), loaders.arch.removable_loader());
    if !medium.secure_boot {
        let modules = [
            "iso9660",
            "fat",
            "part_msdos",
            "part_gpt",
            "search",
            "search_fs_uuid",
            "normal",
            "configfile",
        ];
        let modules = modules.iter().chain(&[
            "boot", "linux", "loadenv", "echo", "test", "true", "sleep", "efi_gop", "terminal",
        ]);
        let mut modules: Vec<&str> = modules.copied().collect();
        modules.extend(old_screen(loaders.arch));
        let core = grub_core(medium, work, efi.grub_platform, &modules)?;
        return fat_image(&[(first, core)], serial);
    }
    let grub = format!("EFI/BOOT/{}", efi.grub_name);
    // Leave out fbx64.efi: on removable media shim would run it, and it would add
    // boot entries.
    let files = [
        (first, loaders.read(efi.shim)?),
        (grub.as_str(), loaders.read(efi.signed_grub_cd)?),
        (
            "boot/grub/grub.cfg",
            grub_cfg::find_medium(&medium.identity.volume_uuid).into_bytes(),
        ),
    ];
    fat_image(&files, serial)
}

/// The name of GRUB's module for UGA, the graphics protocol of EFI 1.x; `None` for
/// aarch64, where no firmware has UGA.
pub(crate) fn old_screen(arch: Arch) -> Option<&'static str> {
    arch.has_bios().then_some("efi_uga")
}

/// Builds the smallest EFI system partition that holds `files`. All their names must be
/// 8.3 names.
pub(crate) fn fat_image(files: &[(&str, Vec<u8>)], serial: u32) -> Result<Vec<u8>> {
    let layout = fat::Layout {
        label: VOLUME_LABEL,
        serial,
        sector: 512,
        cluster: 2048,
        root_entries: 64,
        names: fat::Names::Short,
        size: fat::Size::Smallest,
    };
    let files = files.iter().map(|(path, bytes)| (*path, &bytes[..]));
    fat::build(files, &layout).context("cannot make the EFI system partition")
}

fn grub_core(medium: &Medium<'_>, work: &Path, format: &str, modules: &[&str]) -> Result<Vec<u8>> {
    let core = GrubCore {
        format,
        loaders: medium.loaders,
        prefix: "/boot/grub",
        script: &grub_cfg::find_medium(&medium.identity.volume_uuid),
        memory_disk: None,
        modules,
    };
    core.make(work)
}

/// Sets the access and modification times of `path` and of all files below it to `epoch`.
fn set_times(path: &Path, epoch: u32) -> std::io::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            set_times(&entry?.path(), epoch)?;
        }
    }
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(epoch.into());
    File::open(path)?.set_times(FileTimes::new().set_modified(time).set_accessed(time))
}
