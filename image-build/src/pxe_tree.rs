//! Makes the files that a network boot fetches. The table shows which file
//! comes first.
//!
//! | firmware                  | first file      | then                            |
//! |---------------------------|-----------------|---------------------------------|
//! | iPXE (card or chainload)  | `boot.ipxe`     | kernel, ramdisk                 |
//! | UEFI, Secure Boot or not  | `shimx64.efi`   | `grubx64.efi`, `grub/grub.cfg`  |
//! | UEFI HTTP boot            | `httpx64.efi`   | `grub/grub.cfg`, by HTTP        |
//! | BIOS without iPXE         | `undionly.kpxe` | `boot.ipxe`, named by DHCP      |
//!
//! The tree also has the files of CoreOS' network boot under their names, for menus
//! that were written for CoreOS. Kernel and ramdisk are hard links. All menus load
//! `images/ignition.img` after the ramdisk: it adds nothing until `coreos-installer pxe
//! ignition wrap` or `pxe network wrap` replaces it.
//!
//! Under Secure Boot, iPXE cannot be used: the firmware checks what Debian's iPXE
//! starts against its own keys, and it accepts Debian's kernel only through shim. The same
//! is true of `httpx64.efi`, which has no signature ([`crate::http_loader`]).

use std::path::Path;

use anyhow::{Context as _, Result};
use landfall_host_media::IpxeScript;

use crate::areas::IGNITION_PATH as IGNITION;
use crate::base_url::BaseUrl;
use crate::boot_parts::{self, Part};
use crate::coreos_layout::{self, empty_ramdisk};
use crate::kernel_args::KernelArgs;
use crate::{grub_cfg, http_loader};

/// A file of the tree other than kernel and ramdisk. In a list of files the menus
/// come last, after the files that they name.
pub(crate) struct TreeFile {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
}

/// Where UEFI firmware can fetch its first file by HTTP; `None` if the tree has no loader
/// for that.
pub(crate) fn http_boot_url(files: &[TreeFile], base: Option<&BaseUrl>) -> Option<String> {
    let has_loader = files.iter().any(|file| file.name == http_loader::NAME);
    Some(base.filter(|_| has_loader)?.as_url() + http_loader::NAME)
}

pub(crate) const KERNEL: &str = "vmlinuz";
pub(crate) const RAMDISK: &str = "initrd.img";
/// The name that the kernel asks iPXE for.
const IGNITION_NAME: &str = "ignition.img";

/// All files except kernel and ramdisk, and a warning for each file that is left
/// out.
pub(crate) fn files(
    arguments: &KernelArgs,
    base: Option<&BaseUrl>,
) -> Result<(Vec<TreeFile>, Vec<String>)> {
    let mut files = Vec::new();
    let mut warnings = Vec::new();
    let mut parts = vec![
        (
            "shimx64.efi",
            boot_parts::SHIM,
            "UEFI hosts can boot by iPXE only",
        ),
        // shim loads a file of this name from the place that shim itself was loaded
        // from.
        (
            "grubx64.efi",
            boot_parts::SIGNED_GRUB_NET,
            "UEFI hosts can boot by iPXE only",
        ),
        (
            "undionly.kpxe",
            boot_parts::IPXE_BIOS,
            "BIOS hosts need iPXE in their network card",
        ),
    ];
    let mut grub_place = base.and_then(BaseUrl::as_grub_path);
    if base.is_some_and(|base| base.as_grub_path().is_none()) {
        warnings
            .push("GRUB does not support https: it fetches kernel and ramdisk by TFTP".to_owned());
    }
    if grub_place.is_some() {
        let loss = "GRUB fetches kernel and ramdisk by TFTP";
        parts.push((
            "grub/x86_64-efi/http.mod",
            boot_parts::GRUB_HTTP_MODULE,
            loss,
        ));
        grub_place = grub_place.filter(|_| boot_parts::GRUB_HTTP_MODULE.find().is_some());
    }
    for (name, part, loss) in parts {
        match read(part)? {
            Some(bytes) => files.push(TreeFile { name, bytes }),
            None => warnings.push(format!(
                "{name} is left out, package {} is not installed: {loss}",
                part.package
            )),
        }
    }
    if let Some(base) = base {
        warnings.extend(add_http_loader(base, &mut files)?);
    }
    for name in [coreos_layout::ROOTFS, IGNITION] {
        let bytes = empty_ramdisk();
        files.push(TreeFile { name, bytes });
    }
    files.push(TreeFile {
        name: "grub/grub.cfg",
        bytes: grub_cfg::network_menu(arguments, grub_place.as_deref()).into_bytes(),
    });
    files.push(TreeFile {
        name: "boot.ipxe",
        bytes: ipxe_script(arguments, base).into_bytes(),
    });
    Ok((files, warnings))
}

/// Adds the loader for UEFI HTTP boot, or returns the reason why it is left out.
fn add_http_loader(base: &BaseUrl, files: &mut Vec<TreeFile>) -> Result<Option<String>> {
    const LOSS: &str = "UEFI hosts cannot boot this tree by HTTP";
    let name = http_loader::NAME;
    let missing = boot_parts::missing(&http_loader::PARTS);
    if let Some(part) = missing.first() {
        return Ok(Some(format!(
            "{name} is left out, package {} is not installed: {LOSS}",
            part.package
        )));
    }
    match http_loader::build(base)? {
        Some(bytes) => files.push(TreeFile { name, bytes }),
        None => {
            return Ok(Some(format!(
                "{name} is left out, GRUB does not support https: {LOSS} -- give an http URL, or build one file with landfall-image uki"
            )));
        }
    }
    Ok(None)
}

fn read(part: Part) -> Result<Option<Vec<u8>>> {
    if part.find().is_none() {
        return Ok(None);
    }
    std::fs::read(Path::new(part.what))
        .map(Some)
        .with_context(|| format!("cannot read {}", part.what))
}

fn ipxe_script(arguments: &KernelArgs, base: Option<&BaseUrl>) -> String {
    let place = base.map(BaseUrl::as_url).unwrap_or_default();
    let script = IpxeScript {
        place: &place,
        kernel: KERNEL,
        ramdisks: &[(RAMDISK, RAMDISK), (IGNITION_NAME, IGNITION)],
        arguments,
        failure: &format!("cannot load {place}{KERNEL}, {RAMDISK} or {IGNITION}"),
        newest: None,
    };
    script.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ipxe_script() {
        let arguments = KernelArgs::exactly(&["a=b".into()]).unwrap();
        let url = "http://192.0.2.1:8080/x".parse().unwrap();
        for (base, place) in [(None, ""), (Some(&url), "http://192.0.2.1:8080/x/")] {
            let expected = "#!ipxe
:start
echo Landfall: loading @vmlinuz and initrd.img
kernel @vmlinuz initrd=initrd.img initrd=ignition.img a=b BOOTIF=01-${netX/mac:hexhyp} || goto failed
initrd --name initrd.img @initrd.img || goto failed
initrd --name ignition.img @images/ignition.img || goto failed
boot || goto failed
:failed
echo Landfall: cannot load @vmlinuz, initrd.img or images/ignition.img, trying again in 10 seconds
imgfree
sleep 10
goto start
";
            assert_eq!(ipxe_script(&arguments, base), expected.replace('@', place));
        }
    }

    #[test]
    fn loaders_and_menus() {
        let arguments = KernelArgs::exactly(&[]).unwrap();
        let (files, warnings) = files(&arguments, Some(&"https://a/".parse().unwrap())).unwrap();
        let names: Vec<&str> = files.iter().map(|file| file.name).collect();
        assert!(
            names.ends_with(&["grub/grub.cfg", "boot.ipxe"]),
            "{names:?}"
        );
        assert_eq!(
            names.contains(&"shimx64.efi"),
            boot_parts::SHIM.find().is_some()
        );
        assert!(warnings.contains(
            &"GRUB does not support https: it fetches kernel and ramdisk by TFTP".to_owned()
        ));
        assert!(!names.contains(&"httpx64.efi"), "{names:?}");
        let left_out = |text: &String| text.starts_with("httpx64.efi is left out, ");
        assert!(warnings.iter().any(left_out), "{warnings:?}");
    }

    #[test]
    fn firmware_finds_the_loader_by_http() {
        let arguments = KernelArgs::exactly(&[]).unwrap();
        let url = "http://192.0.2.1:8080/x".parse().unwrap();
        for (base, expected) in [
            (None, None),
            (Some(&url), Some("http://192.0.2.1:8080/x/httpx64.efi")),
        ] {
            let (files, _) = files(&arguments, base).unwrap();
            assert_eq!(http_boot_url(&files, base).as_deref(), expected);
        }
    }
}
