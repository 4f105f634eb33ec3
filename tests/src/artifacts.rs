//! Defines the paths of the artifacts under test, which `make build` and other targets
//! leave in the target folder and in `out/`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use landfall_initramfs::arch::Arch;

/// The folder for everything that the tests create: images, logs, temporary files.
#[must_use]
pub fn out_dir() -> PathBuf {
    repository().join("out")
}

/// The architecture of the hosts: that of `LANDFALL_ARCH`, or x86_64. The Makefile sets
/// the variable for `make demo ARCH=aarch64` and `make test-hardware ARCH=aarch64`.
#[must_use]
pub fn arch() -> Arch {
    let name = std::env::var("LANDFALL_ARCH").unwrap_or_default();
    name.parse().unwrap_or_default()
}

/// The folder with kernels, media and images for hosts of the architecture [`arch`].
/// `make aarch64` fills a folder of its own.
fn folder() -> PathBuf {
    match arch() {
        Arch::X86_64 => out_dir(),
        Arch::Aarch64 => out_dir().join("aarch64"),
    }
}

/// The builder's options for hosts of another architecture than this machine's.
#[must_use]
pub fn arch_options() -> Vec<String> {
    match arch() {
        Arch::X86_64 => Vec::new(),
        other => {
            let loaders = loaders().display().to_string();
            let options = ["--arch", other.name(), "--loader-dir", &loaders];
            options.map(str::to_owned).into()
        }
    }
}

/// The root of the tree with Debian's boot loaders for these hosts.
#[must_use]
pub fn loaders() -> PathBuf {
    match arch() {
        Arch::X86_64 => PathBuf::from("/"),
        Arch::Aarch64 => folder().join("system"),
    }
}

fn repository() -> &'static Path {
    // The folder of the repository is the parent of this crate's folder.
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
}

/// Cargo's folder for build results.
#[must_use]
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

/// The target triple that `.cargo/config.toml` sets for all builds.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// The agent as shipped: a static release build.
pub fn agent() -> Result<PathBuf> {
    existing(match arch() {
        Arch::X86_64 => target_dir().join(TRIPLE).join("release/landfall-agent"),
        Arch::Aarch64 => folder().join("landfall-agent"),
    })
}

/// The agent for a live system, built with the feature `live-system`.
pub fn live_agent() -> Result<PathBuf> {
    existing(out_dir().join("live-system/landfall-agent"))
}

/// The ramdisk of the live system, with Debian's systemd and NetworkManager.
pub fn live_system() -> Result<PathBuf> {
    existing(out_dir().join("live-system/live.img"))
}

/// The ramdisk of the live system with podman.
pub fn container_host() -> Result<PathBuf> {
    existing(out_dir().join("container-host/live.img"))
}

/// The OCI archive with the agent container of the release.
pub fn agent_container() -> Result<PathBuf> {
    of_release("oci/landfall-agent.tar")
}

/// The OCI archive with the release's artefacts for `oci://`: kernel and ramdisk.
pub fn ramdisk_artefacts() -> Result<PathBuf> {
    of_release("oci/landfall-ramdisk.tar")
}

/// The release's image of an EFI system partition, from which Ironic's ISOs boot.
pub fn esp_image() -> Result<PathBuf> {
    of_release("esp.img")
}

/// Debian's container registry.
pub fn registry() -> Result<PathBuf> {
    existing(out_dir().join("judges/registry/usr/bin/docker-registry"))
}

fn of_release(file: &str) -> Result<PathBuf> {
    let path = out_dir().join("release").join(file);
    if !path.exists() {
        bail!("{} is missing: run make release first", path.display());
    }
    Ok(path)
}

/// The program coreos-installer, with which the tests compare the agent.
pub fn coreos_installer() -> Result<PathBuf> {
    let path = out_dir().join("peers/coreos-installer/bin/coreos-installer");
    if !path.exists() {
        bail!("{} is missing: run make peers first", path.display());
    }
    Ok(path)
}

/// The folder with Debian's dracut, with which the tests compare the builder.
pub fn dracut() -> Result<PathBuf> {
    let path = out_dir().join("peers/dracut");
    if !path.join("key").exists() {
        bail!("{} is missing: run make dracut first", path.display());
    }
    Ok(path)
}

/// The builder. A debug build is enough, because its speed does not matter here.
pub fn builder() -> Result<PathBuf> {
    existing(target_dir().join(TRIPLE).join("debug/landfall-image"))
}

/// `preprovisioned-host`, which connects a test under the real Ironic to Kubernetes.
pub fn preprovisioned_host() -> Result<PathBuf> {
    existing(target_dir().join(TRIPLE).join("debug/preprovisioned-host"))
}

/// The builder as shipped, for measurements.
pub fn release_builder() -> Result<PathBuf> {
    existing(target_dir().join(TRIPLE).join("release/landfall-image"))
}

/// The kernel package for the ramdisks and the test image.
pub fn kernel_deb() -> Result<PathBuf> {
    kernel_deb_in(&folder().join("packages"))
}

/// The package of [`generic_kernel`].
pub fn generic_kernel_deb() -> Result<PathBuf> {
    // On aarch64 all guests have the generic kernel.
    match arch() {
        Arch::X86_64 => kernel_deb_in(&out_dir().join("packages/generic")),
        Arch::Aarch64 => kernel_deb(),
    }
}

/// The kernel package in this folder.
pub fn kernel_deb_in(folder: &Path) -> Result<PathBuf> {
    let found = std::fs::read_dir(folder)
        .with_context(|| format!("reading {} (make setup fills it)", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("linux-image-") && name.ends_with(".deb")
        });
    found.with_context(|| {
        format!(
            "no linux-image-*.deb in {} (make setup downloads it)",
            folder.display()
        )
    })
}

/// The script that makes packages like RHEL's kernel packages from Debian's kernel.
#[must_use]
pub fn kernel_rpms_script() -> PathBuf {
    repository().join("tests/kernel-rpms/build.sh")
}

/// Debian's file of the font in which the kernel draws text on a framebuffer.
pub fn console_font() -> Result<PathBuf> {
    let path = out_dir().join("packages/console-font/Lat15-VGA16.psf.gz");
    if !path.exists() {
        bail!("{} is missing: run make setup first", path.display());
    }
    Ok(path)
}

/// The kernel image from [`kernel_deb`], for a boot without firmware.
pub fn kernel() -> Result<PathBuf> {
    existing(folder().join("pxe/vmlinuz"))
}

pub fn ramdisk() -> Result<PathBuf> {
    existing(folder().join("pxe/initrd.img"))
}

/// The default ramdisk with the rescue layer added.
pub fn rescue_ramdisk() -> Result<PathBuf> {
    existing(out_dir().join("rescue/initrd.img"))
}

/// The ramdisk of the peer, for [`kernel`].
pub fn peer_ramdisk() -> Result<PathBuf> {
    existing(out_dir().join("peer/initrd.img"))
}

/// The ramdisk of the guest with coreos-installer, for [`kernel`].
pub fn installers() -> Result<PathBuf> {
    existing(out_dir().join("installers/initrd.img"))
}

/// The distribution's generic kernel, which has drivers for real hardware.
pub fn generic_kernel() -> Result<PathBuf> {
    existing(out_dir().join("pxe-generic/vmlinuz"))
}

/// A ramdisk for [`generic_kernel`].
pub fn generic_ramdisk() -> Result<PathBuf> {
    existing(out_dir().join("pxe-generic/initrd.img"))
}

/// Compression of the CoreOS-shaped test image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    Raw,
    Gz,
    Xz,
    Zst,
}

impl Packing {
    /// The name of the file on disk and on the image server.
    #[must_use]
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Raw => "coreos.raw",
            Self::Gz => "coreos.raw.gz",
            Self::Xz => "coreos.raw.xz",
            Self::Zst => "coreos.raw.zst",
        }
    }
}

const COREOS_IMAGE: &str = "coreos-image";
const NETWORK_MANAGER_IMAGE: &str = "coreos-image-network-manager";
const ISCSI_IMAGE: &str = "coreos-image-iscsi";

/// The CoreOS-shaped test image.
pub fn coreos_image(packing: Packing) -> Result<PathBuf> {
    existing(folder().join(COREOS_IMAGE).join(packing.file_name()))
}

/// The SHA-256 of [`coreos_image`], from the `SHA256SUMS` that the build wrote.
pub fn coreos_image_sha256(packing: Packing) -> Result<String> {
    sha256(COREOS_IMAGE, packing)
}

/// The test image with Debian's udev and NetworkManager in its initramfs, and its
/// SHA-256. The image is for tests of the network in the first boot, and exists only as
/// [`Packing::Gz`].
pub fn network_manager_image() -> Result<(PathBuf, String)> {
    variant(NETWORK_MANAGER_IMAGE)
}

/// The image of [`network_manager_image`] with dracut's module iscsi and open-iscsi in
/// its initramfs, and its SHA-256. It exists only as [`Packing::Gz`].
pub fn iscsi_image() -> Result<(PathBuf, String)> {
    variant(ISCSI_IMAGE)
}

fn variant(folder: &str) -> Result<(PathBuf, String)> {
    let file = out_dir().join(folder).join(Packing::Gz.file_name());
    Ok((existing(file)?, sha256(folder, Packing::Gz)?))
}

fn sha256(image: &str, packing: Packing) -> Result<String> {
    let path = existing(folder().join(image).join("SHA256SUMS"))?;
    let sums = std::fs::read_to_string(&path)?;
    let line = sums
        .lines()
        .find(|line| line.ends_with(&format!("  {}", packing.file_name())));
    let line =
        line.with_context(|| format!("{} does not name {}", path.display(), packing.file_name()))?;
    Ok(line.split(' ').next().unwrap_or_default().to_owned())
}

fn existing(path: PathBuf) -> Result<PathBuf> {
    if !path.exists() {
        let target = match arch() {
            Arch::X86_64 => "build",
            Arch::Aarch64 => "aarch64",
        };
        bail!("{} is missing: run make {target} first", path.display());
    }
    Ok(path)
}
