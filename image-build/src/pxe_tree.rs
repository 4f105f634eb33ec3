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
//! The tree also has the files of CoreOS' network boot under the names that CoreOS uses,
//! for menus that were written for CoreOS. Under these names, kernel and ramdisk are hard
//! links to `vmlinuz` and `initrd.img`. All menus load `images/ignition.img` after the
//! ramdisk: it adds nothing until `coreos-installer pxe ignition wrap` or `pxe network
//! wrap` replaces it.
//!
//! On aarch64 the names end in `aa64.efi`, and there is no BIOS.
//!
//! iPXE does not work under Secure Boot: Debian's iPXE lets the firmware check the kernel
//! against the firmware's keys, and these accept Debian's kernel only through shim.
//! `httpx64.efi` does not work either, because it has no signature
//! ([`crate::http_loader`]).

use anyhow::Result;
use landfall_host_media::IpxeScript;

use crate::areas::IGNITION_PATH as IGNITION;
use crate::base_url::BaseUrl;
use crate::boot_parts::{self, Loaders};
use crate::coreos_layout::{self, empty_ramdisk};
use crate::kernel_args::KernelArgs;
use crate::{grub_cfg, http_loader};

/// A file of the tree other than kernel and ramdisk. In a list of files the menus
/// come last, after the files that they name.
pub(crate) struct TreeFile {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
}

/// The URL from which UEFI firmware can fetch its first file by HTTP; `None` without
/// `base` or if `files` has no loader for HTTP boot.
pub(crate) fn http_boot_url(
    files: &[TreeFile],
    base: Option<&BaseUrl>,
    loaders: &Loaders,
) -> Option<String> {
    let name = loaders.efi().http_loader_name;
    let has_loader = files.iter().any(|file| file.name == name);
    Some(base.filter(|_| has_loader)?.as_url() + name)
}

pub(crate) const KERNEL: &str = "vmlinuz";
pub(crate) const RAMDISK: &str = "initrd.img";
/// The name that iPXE gives the Ignition archive, and that `initrd=` on the kernel
/// command line repeats.
const IGNITION_NAME: &str = "ignition.img";

/// All files except kernel and ramdisk, and a warning for each file that is left
/// out.
pub(crate) fn files(
    arguments: &KernelArgs,
    base: Option<&BaseUrl>,
    loaders: &Loaders,
) -> Result<(Vec<TreeFile>, Vec<String>)> {
    let mut files = Vec::new();
    let mut warnings = Vec::new();
    let efi = loaders.efi();
    let by_ipxe = "UEFI hosts can boot by iPXE only";
    let mut parts = vec![
        (efi.shim_name, efi.shim, by_ipxe),
        (efi.grub_name, efi.signed_grub_net, by_ipxe),
    ];
    if loaders.arch.has_bios() {
        let loss = "BIOS hosts need iPXE in their network card";
        parts.push(("undionly.kpxe", boot_parts::IPXE_BIOS, loss));
    }
    let mut grub_place = base.and_then(BaseUrl::as_grub_path);
    if base.is_some_and(|base| base.as_grub_path().is_none()) {
        warnings
            .push("GRUB does not support https: it fetches kernel and ramdisk by TFTP".to_owned());
    }
    if grub_place.is_some() {
        let loss = "GRUB fetches kernel and ramdisk by TFTP";
        parts.push((efi.http_module_name, efi.grub_http_module, loss));
        grub_place = grub_place.filter(|_| loaders.find(efi.grub_http_module).is_some());
    }
    for (name, part, loss) in parts {
        if loaders.find(part).is_some() {
            let bytes = loaders.read(part)?;
            files.push(TreeFile { name, bytes });
        } else {
            warnings.push(format!(
                "{name} is left out, because files of package {} are missing: {loss}",
                part.package
            ));
        }
    }
    if let Some(base) = base {
        warnings.extend(add_http_loader(base, loaders, &mut files)?);
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
fn add_http_loader(
    base: &BaseUrl,
    loaders: &Loaders,
    files: &mut Vec<TreeFile>,
) -> Result<Option<String>> {
    const LOSS: &str = "UEFI hosts cannot boot this tree by HTTP";
    let name = loaders.efi().http_loader_name;
    let parts = http_loader::parts(loaders);
    let missing = loaders.missing(&parts);
    if let Some(part) = missing.first() {
        return Ok(Some(format!(
            "{name} is left out, because files of package {} are missing: {LOSS}",
            part.package
        )));
    }
    match http_loader::build(base, loaders)? {
        Some(bytes) => files.push(TreeFile { name, bytes }),
        None => {
            return Ok(Some(format!(
                "{name} is left out, GRUB does not support https: {LOSS} -- give an http URL, or build one file with landfall-image uki"
            )));
        }
    }
    Ok(None)
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
    use landfall_initramfs::arch::Arch;

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
        let loaders = Loaders::new(Arch::X86_64, None);
        let base = "https://a/".parse().unwrap();
        let (files, warnings) = files(&arguments, Some(&base), &loaders).unwrap();
        let names: Vec<&str> = files.iter().map(|file| file.name).collect();
        assert!(
            names.ends_with(&["grub/grub.cfg", "boot.ipxe"]),
            "{names:?}"
        );
        assert_eq!(
            names.contains(&"shimx64.efi"),
            loaders.find(loaders.efi().shim).is_some()
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
            let loaders = Loaders::new(Arch::X86_64, None);
            let (files, _) = files(&arguments, base, &loaders).unwrap();
            let found = http_boot_url(&files, base, &loaders);
            assert_eq!(found.as_deref(), expected);
        }
    }
}
