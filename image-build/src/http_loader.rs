//! Makes the loader that UEFI firmware fetches by HTTP.
//!
//! After an HTTP boot, Debian's signed GRUB ends at its prompt. It takes the server from
//! the firmware and looks for its menu there, but Debian 12's GRUB has only TFTP built
//! in. It cannot fetch its HTTP module either, because the module is on the same server.
//!
//! This loader is the same GRUB with the HTTP module inside. It has no signature, so
//! firmware with Secure Boot refuses it.

use anyhow::{Context as _, Result};
use landfall_initramfs::temporary::TemporaryPath;

use crate::base_url::BaseUrl;
use crate::boot_parts::{GRUB_MKIMAGE, Loaders, Part};
use crate::grub_cfg;
use crate::grub_core::GrubCore;
use crate::iso_image::old_screen;

/// The files of Debian packages that [`build`] needs.
pub(crate) fn parts(loaders: &Loaders) -> [Part; 2] {
    [GRUB_MKIMAGE, loaders.efi().grub_modules]
}

/// The script on the memory disk.
const SCRIPT: &str = "grub.cfg";

const MODULES: [&str; 15] = [
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
    "terminal",
];

/// Makes the loader for the network boot tree at the URL `base`; `None` for an https URL,
/// which GRUB does not support.
pub(crate) fn build(base: &BaseUrl, loaders: &Loaders) -> Result<Option<Vec<u8>>> {
    let Some(place) = base.as_grub_path() else {
        return Ok(None);
    };
    let script = grub_cfg::fetch_network_menu(&place, base.is_ipv6());
    let work =
        TemporaryPath::directory("landfall-http-").context("cannot make a work directory")?;
    let disk = archive(script.as_bytes())?;
    let modules = MODULES.into_iter().chain(old_screen(loaders.arch));
    let core = GrubCore {
        format: loaders.efi().grub_platform,
        loaders,
        // The prefix names no device, so GRUB uses the network device and the IP address
        // that the firmware has configured.
        prefix: "/grub",
        script: &format!("configfile (memdisk)/{SCRIPT}\n"),
        memory_disk: Some(&disk),
        modules: &modules.collect::<Vec<_>>(),
    };
    core.make(work.path()).map(Some)
}

/// Makes GRUB's memory disk: a tar archive that holds `script` as [`SCRIPT`], with
/// modification time 0.
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
    use landfall_initramfs::arch::Arch;

    use super::*;

    #[test]
    fn the_loader_holds_the_module_for_http() {
        // A message text in GRUB's http module.
        const HTTP: &[u8] = b"unsupported HTTP response";
        let base = "http://192.0.2.1:8080/x".parse().unwrap();
        let loaders = Loaders::new(Arch::X86_64, None);
        let loader = build(&base, &loaders).unwrap().unwrap();
        assert!(loader.starts_with(b"MZ"));
        assert!(loader.windows(HTTP.len()).any(|window| window == HTTP));
        let again = build(&base, &loaders).unwrap().unwrap();
        assert!(loader == again, "the same bytes");
        let https = "https://a/".parse().unwrap();
        assert_eq!(build(&https, &loaders).unwrap(), None);
    }
}
