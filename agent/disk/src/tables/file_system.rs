//! Detects the file system of a partition and its label from the first bytes. Does no
//! I/O. The label is that of the file system, not the name of the partition, because
//! boot loaders and Ignition search for the file system's label.

/// The number of bytes from the start of the partition that [`identify`] needs.
pub const PROBE_LEN: usize = 36 << 10;

/// The type and the label of a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// The name that mount(2) takes.
    pub kind: &'static str,
    /// The label of the file system, without padding.
    pub label: String,
}

/// Identifies the file system from the first bytes of its partition. `None` if it
/// is unknown.
pub fn identify(start: &[u8]) -> Option<FileSystem> {
    let found = |kind, label: &[u8]| {
        Some(FileSystem {
            kind,
            label: text(label),
        })
    };
    // Documentation/filesystems/ext4/super.rst: superblock at 1024, s_magic at
    // 0x38, s_volume_name at 0x78.
    if start.get(1080..1082) == Some(&[0x53, 0xef]) {
        return found("ext4", start.get(1144..1160)?);
    }
    // xfs_dsb: sb_magicnum at 0, sb_fname at 108.
    if start.starts_with(b"XFSB") {
        return found("xfs", start.get(108..120)?);
    }
    // ECMA-119, 8.4: primary volume descriptor at sector 16, volume identifier
    // at its byte 40.
    if start.get(32768..32774) == Some(b"\x01CD001") {
        return found("iso9660", start.get(32808..32840)?);
    }
    // Microsoft's FAT specification: BS_VolLab and BS_FilSysType.
    if start.get(510..512) == Some(&[0x55, 0xaa]) {
        if start.get(82..90) == Some(b"FAT32   ") {
            return found("vfat", start.get(71..82)?);
        }
        if start.get(54..57) == Some(b"FAT") {
            return found("vfat", start.get(43..54)?);
        }
    }
    None
}

fn text(label: &[u8]) -> String {
    let end = label.iter().position(|&b| b == 0).unwrap_or(label.len());
    String::from_utf8_lossy(&label[..end]).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use landfall_sys::skip::skip;

    use super::*;

    /// The first bytes of a file system that `program` makes; `None` if the program
    /// is not installed.
    fn made_by(program: &str, arguments: &[&str], size: u64) -> Option<Vec<u8>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(size).unwrap();
        let made = Command::new(program)
            .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
            .args(arguments)
            .arg(file.path())
            .output();
        match made {
            Ok(output) => {
                assert!(output.status.success(), "{program}: {output:?}");
                let mut start = std::fs::read(file.path()).unwrap();
                start.truncate(PROBE_LEN);
                Some(start)
            }
            Err(e) => {
                skip(format_args!("{program}: {e}"));
                None
            }
        }
    }

    #[test]
    fn file_systems_of_the_real_programs() {
        for (program, arguments, size, kind) in [
            (
                "mke2fs",
                &["-q", "-t", "ext4", "-L", "boot"][..],
                8 << 20,
                "ext4",
            ),
            (
                "mke2fs",
                &["-q", "-t", "ext2", "-L", "boot"],
                8 << 20,
                "ext4",
            ),
            ("mkfs.xfs", &["-q", "-L", "boot"], 320 << 20, "xfs"),
            ("mkfs.vfat", &["-n", "boot"], 8 << 20, "vfat"),
            ("mkfs.vfat", &["-F", "32", "-n", "boot"], 64 << 20, "vfat"),
        ] {
            let Some(start) = made_by(program, arguments, size) else {
                continue;
            };
            let found = identify(&start).unwrap();
            assert_eq!(found.kind, kind, "{program} {arguments:?}");
            assert_eq!(found.label.to_lowercase(), "boot");
        }
    }

    #[test]
    fn a_config_drive_is_an_iso_with_a_label() {
        let mut start = vec![0; PROBE_LEN];
        start[32768..32774].copy_from_slice(b"\x01CD001");
        start[32808..32840].copy_from_slice(b"config-2                        ");
        let found = identify(&start).unwrap();
        assert_eq!((found.kind, found.label.as_str()), ("iso9660", "config-2"));
    }

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(identify(&[]), None);
        assert_eq!(identify(&[0; PROBE_LEN]), None);
    }
}
