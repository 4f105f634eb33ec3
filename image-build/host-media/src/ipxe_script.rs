//! The script by which iPXE boots a kernel and its ramdisks.

use std::fmt;

use crate::kernel_args::KernelArgs;

/// Formats as the script.
#[derive(Debug, Clone, Copy)]
pub struct IpxeScript<'a> {
    /// The start of the paths of kernel and ramdisks. If it is empty, iPXE resolves the
    /// paths against the URL of the script.
    pub place: &'a str,
    pub kernel: &'a str,
    /// Name and path of each ramdisk, in the order in which the kernel unpacks them.
    pub ramdisks: &'a [(&'a str, &'a str)],
    pub arguments: &'a KernelArgs,
    /// The line on the console after a failure.
    pub failure: &'a str,
    /// The path of the script that iPXE fetches after a failure. `None`: it runs this
    /// script again.
    pub newest: Option<&'a str>,
}

/// `initrd=` is for UEFI, where the kernel asks iPXE for the files of these names, in
/// this order; BIOS kernels ignore it. `netX` is the card through which iPXE booted.
impl fmt::Display for IpxeScript<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            kernel,
            ramdisks,
            arguments,
            failure,
            newest,
        } = self;
        let first = ramdisks.first().map_or("", |(_, path)| path);
        let start = if newest.is_none() { ":start\n" } else { "" };
        let names: String = ramdisks
            .iter()
            .map(|(name, _)| format!("initrd={name} "))
            .collect();
        write!(
            f,
            "#!ipxe\n\
             {start}\
             echo Landfall: loading {place}{kernel} and {first}\n\
             kernel {place}{kernel} {names}{arguments} BOOTIF=01-${{netX/mac:hexhyp}} || goto failed\n"
        )?;
        for (name, path) in *ramdisks {
            writeln!(f, "initrd --name {name} {place}{path} || goto failed")?;
        }
        write!(
            f,
            "boot || goto failed\n\
             :failed\n\
             echo Landfall: {failure}, trying again in 10 seconds\n\
             imgfree\n\
             sleep 10\n"
        )?;
        match newest {
            Some(path) => writeln!(f, "chain --replace --autofree {path} || goto failed"),
            None => writeln!(f, "goto start"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_service() {
        let script = IpxeScript {
            place: "",
            kernel: "/k/vmlinuz",
            ramdisks: &[("initrd.img", "/i/node1.initramfs")],
            arguments: &KernelArgs::exactly(&["a=b c".to_owned()]).unwrap(),
            failure: "cannot boot node1",
            newest: Some("/node1.ipxe"),
        };
        assert_eq!(
            script.to_string(),
            "#!ipxe
echo Landfall: loading /k/vmlinuz and /i/node1.initramfs
kernel /k/vmlinuz initrd=initrd.img a=b c BOOTIF=01-${netX/mac:hexhyp} || goto failed
initrd --name initrd.img /i/node1.initramfs || goto failed
boot || goto failed
:failed
echo Landfall: cannot boot node1, trying again in 10 seconds
imgfree
sleep 10
chain --replace --autofree /node1.ipxe || goto failed
"
        );
    }
}
