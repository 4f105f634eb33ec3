//! Makes the loader that UEFI firmware fetches by HTTP.
//!
//! Debian's signed GRUB ends at its prompt after such a boot. It takes the server from
//! the firmware and looks for its menu there, but that of Debian 12 has only TFTP built in. Its HTTP
//! module is on the same server, so it cannot fetch that either.
//!
//! This loader is the same GRUB with the HTTP module inside. It has no signature, so
//! firmware with Secure Boot refuses it.

use anyhow::{Context as _, Result};
use landfall_initramfs::temporary::TemporaryPath;

use crate::base_url::BaseUrl;
use crate::boot_parts::{self, Part};
use crate::grub_cfg;
use crate::grub_core::GrubCore;

/// The name of the loader in the tree.
pub(crate) const NAME: &str = "httpx64.efi";

/// The parts that must be installed.
pub(crate) const PARTS: [Part; 2] = [boot_parts::GRUB_MKIMAGE, boot_parts::EFI_MODULES];

/// The script on the memory disk.
const SCRIPT: &str = "grub.cfg";

const MODULES: [&str; 16] = [
    "normal",
    "configfile",
    "memdisk",
    "tar",
    "net",
    "efinet",
    "http",
    "linux",
    "boot",
    "echo",
    "test",
    "true",
    "sleep",
    "efi_gop",
    "efi_uga",
    "terminal",
];

/// Makes the loader of the tree at `base`; `None` for https, which GRUB does not
/// support.
pub(crate) fn build(base: &BaseUrl) -> Result<Option<Vec<u8>>> {
    let Some(place) = base.as_grub_path() else {
        return Ok(None);
    };
    let script = grub_cfg::fetch_network_menu(&place, base.is_ipv6());
    let work =
        TemporaryPath::directory("landfall-http-").context("cannot make a work directory")?;
    let disk = archive(script.as_bytes())?;
    let core = GrubCore {
        format: "x86_64-efi",
        // Without a device: then GRUB takes over the address that the firmware got.
        prefix: "/grub",
        script: &format!("configfile (memdisk)/{SCRIPT}\n"),
        memory_disk: Some(&disk),
        modules: &MODULES,
    };
    core.make(work.path()).map(Some)
}

/// The memory disk: a tar archive with the script, without a time.
fn archive(script: &[u8]) -> Result<Vec<u8>> {
    let mut header = tar::Header::new_ustar();
    header.set_size(script.len() as u64);
    header.set_mode(0o644);
    header.set_mtime(0);
    let mut archive = tar::Builder::new(Vec::new());
    archive
        .append_data(&mut header, SCRIPT, script)
        .and_then(|()| archive.into_inner())
        .context("cannot make GRUB's memory disk")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_holds_the_module_for_http() {
        // A text of GRUB's http module.
        const HTTP: &[u8] = b"unsupported HTTP response";
        let base = "http://192.0.2.1:8080/x".parse().unwrap();
        let loader = build(&base).unwrap().unwrap();
        assert!(loader.starts_with(b"MZ"));
        assert!(loader.windows(HTTP.len()).any(|window| window == HTTP));
        assert!(loader == build(&base).unwrap().unwrap(), "the same bytes");
        assert_eq!(build(&"https://a/".parse().unwrap()).unwrap(), None);
    }
}
