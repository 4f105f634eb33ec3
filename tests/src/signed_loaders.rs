//! The CoreOS-shaped image with loaders that firmware with Secure Boot starts.

use std::path::PathBuf;

use anyhow::Result;

use crate::artifacts::{self, Packing};
use crate::lab::Lab;
use crate::program;

const SHIM: &str = "/usr/lib/shim/shimx64.efi.signed";
const GRUB: &str = "/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed";
/// Debian's signed GRUB reads its configuration only here, wherever it is itself.
const GRUB_CONFIG: &str = "::/EFI/debian/grub.cfg";

/// Makes a raw image whose EFI system partition has Debian's signed shim and GRUB in place
/// of the GRUB that the image's recipe makes.
pub async fn image(lab: &Lab) -> Result<PathBuf> {
    let image = lab.path("signed.raw");
    std::fs::copy(artifacts::coreos_image(Packing::Raw)?, &image)?;
    // Where the partition begins: tests/coreos-image/disk.sh.
    let partition = format!("{}@@2M", image.display());
    program::run("mmd", &["-i", &partition, "::/EFI/debian"]).await?;
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/coreos-image/signed-grub.cfg");
    for (source, target) in [
        (SHIM, "::/EFI/BOOT/BOOTX64.EFI"),
        (GRUB, "::/EFI/BOOT/grubx64.efi"),
        (SHIM, "::/EFI/redhat/shimx64.efi"),
        (GRUB, "::/EFI/redhat/grubx64.efi"),
        (config, GRUB_CONFIG),
    ] {
        program::run("mcopy", &["-o", "-i", &partition, source, target]).await?;
    }
    Ok(image)
}
