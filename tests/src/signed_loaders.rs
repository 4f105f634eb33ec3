//! The CoreOS-shaped image with loaders that firmware with Secure Boot starts.

use std::path::PathBuf;

use anyhow::Result;
use landfall_initramfs::arch::Arch;

use crate::artifacts::{self, Packing};
use crate::lab::Lab;
use crate::program;

/// Debian's signed GRUB reads its configuration only from this path, wherever GRUB
/// itself is.
const GRUB_CONFIG: &str = "::/EFI/debian/grub.cfg";

/// Makes a raw image. Its EFI system partition has Debian's signed shim and GRUB in
/// place of the GRUB that the image's recipe makes.
pub async fn image(lab: &Lab) -> Result<PathBuf> {
    let image = lab.path("signed.raw");
    std::fs::copy(artifacts::coreos_image(Packing::Raw)?, &image)?;
    // Where the partition begins: tests/coreos-image/disk.sh.
    let partition = format!("{}@@2M", image.display());
    program::run("mmd", &["-i", &partition, "::/EFI/debian"]).await?;
    let efi = artifacts::arch().efi_suffix();
    let grub_folder = match artifacts::arch() {
        Arch::X86_64 => "x86_64-efi-signed",
        Arch::Aarch64 => "arm64-efi-signed",
    };
    let loaders = artifacts::loaders();
    let shim = loaders.join(format!("usr/lib/shim/shim{efi}.efi.signed"));
    let grub = loaders.join(format!("usr/lib/grub/{grub_folder}/grub{efi}.efi.signed"));
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/coreos-image/signed-grub.cfg");
    for (source, target) in [
        (&shim, format!("::/EFI/BOOT/BOOT{}.EFI", efi.to_uppercase())),
        (&grub, format!("::/EFI/BOOT/grub{efi}.efi")),
        (&shim, format!("::/EFI/redhat/shim{efi}.efi")),
        (&grub, format!("::/EFI/redhat/grub{efi}.efi")),
        (&PathBuf::from(config), GRUB_CONFIG.to_owned()),
    ] {
        let source = source.display().to_string();
        program::run("mcopy", &["-o", "-i", &partition, &source, &target]).await?;
    }
    Ok(image)
}
