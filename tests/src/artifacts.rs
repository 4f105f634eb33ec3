//! Where the things under test are: what `make build` leaves in the target
//! folder and in `out/`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The folder for everything the tests make: images, logs, scratch files.
#[must_use]
pub fn out_dir() -> PathBuf {
    repository().join("out")
}

fn repository() -> &'static Path {
    // The tests crate is a folder of the repository's root.
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
}

/// Cargo's folder for build results.
#[must_use]
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

/// The triple that `.cargo/config.toml` names for all builds.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// The agent as it is shipped: release build, static.
pub fn agent() -> Result<PathBuf> {
    existing(target_dir().join(TRIPLE).join("release/landfall-agent"))
}

/// The agent for a live system: the same with the feature `live-system`.
pub fn live_agent() -> Result<PathBuf> {
    existing(out_dir().join("live-system/landfall-agent"))
}

/// Debian's systemd and NetworkManager as a ramdisk.
pub fn live_system() -> Result<PathBuf> {
    existing(out_dir().join("live-system/live.img"))
}

/// coreos-installer, with which ours is compared.
pub fn coreos_installer() -> Result<PathBuf> {
    let path = out_dir().join("peers/coreos-installer/bin/coreos-installer");
    if !path.exists() {
        bail!("{} is missing: run make peers first", path.display());
    }
    Ok(path)
}

/// The builder; its own speed does not matter here, so the debug build will do.
pub fn builder() -> Result<PathBuf> {
    existing(target_dir().join(TRIPLE).join("debug/landfall-image"))
}

/// The kernel package that ramdisks and the test image are made of.
pub fn kernel_deb() -> Result<PathBuf> {
    kernel_deb_in(&out_dir().join("packages"))
}

/// The package of [`generic_kernel`].
pub fn generic_kernel_deb() -> Result<PathBuf> {
    kernel_deb_in(&out_dir().join("packages/generic"))
}

fn kernel_deb_in(folder: &Path) -> Result<PathBuf> {
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

/// The kernel image out of [`kernel_deb`], for a boot without firmware.
pub fn kernel() -> Result<PathBuf> {
    existing(out_dir().join("pxe/vmlinuz"))
}

/// The ramdisk with the default module set.
pub fn ramdisk() -> Result<PathBuf> {
    existing(out_dir().join("pxe/initrd.img"))
}

/// The same with the rescue layer.
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

/// The distribution's generic kernel, which has drivers of real hardware.
pub fn generic_kernel() -> Result<PathBuf> {
    existing(out_dir().join("pxe-generic/vmlinuz"))
}

/// A ramdisk for [`generic_kernel`].
pub fn generic_ramdisk() -> Result<PathBuf> {
    existing(out_dir().join("pxe-generic/initrd.img"))
}

/// How a file of the CoreOS-shaped test image is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    Raw,
    /// gzip.
    Gz,
    /// xz.
    Xz,
    /// Zstandard.
    Zst,
}

impl Packing {
    /// The file's name in its folder and on the image server.
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

/// A form of the CoreOS-shaped test image.
pub fn coreos_image(packing: Packing) -> Result<PathBuf> {
    existing(out_dir().join(COREOS_IMAGE).join(packing.file_name()))
}

/// Its SHA-256, as the recipe wrote it down.
pub fn coreos_image_sha256(packing: Packing) -> Result<String> {
    sha256(COREOS_IMAGE, packing)
}

/// The same image, but for Debian's udev and NetworkManager in its initramfs:
/// for tests of the first boot's network. Only [`Packing::Gz`], with its SHA-256.
pub fn network_manager_image() -> Result<(PathBuf, String)> {
    let file = out_dir()
        .join(NETWORK_MANAGER_IMAGE)
        .join(Packing::Gz.file_name());
    Ok((existing(file)?, sha256(NETWORK_MANAGER_IMAGE, Packing::Gz)?))
}

fn sha256(folder: &str, packing: Packing) -> Result<String> {
    let path = existing(out_dir().join(folder).join("SHA256SUMS"))?;
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
        bail!("{} is missing: run make build first", path.display());
    }
    Ok(path)
}
