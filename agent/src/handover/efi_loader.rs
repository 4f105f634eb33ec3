//! Which program of an EFI system partition to boot: what the distribution says
//! in its CSV, else the removable-media fallback.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::handover::file_in_boot;

/// A CSV has one line of some 150 bytes.
const CSV_LIMIT: u64 = 64 << 10;

#[cfg(target_arch = "aarch64")]
mod names {
    pub const CSV: &str = "bootaa64.csv";
    pub const FALLBACK: &str = "bootaa64.efi";
}
#[cfg(not(target_arch = "aarch64"))]
mod names {
    pub const CSV: &str = "bootx64.csv";
    pub const FALLBACK: &str = "bootx64.efi";
}

/// The label of the fallback loader's entry: it cannot say who it is.
const FALLBACK_LABEL: &str = "CoreOS";

/// A loader and the name under which it wants to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loader {
    /// The boot entry's label.
    pub label: String,
    /// The file as firmware writes it: `\EFI\redhat\shimx64.efi`.
    pub file: String,
}

/// The loader of a mounted EFI system partition.
///
/// shim's own fallback program makes its entries from the same CSV, so the
/// label is the one that the installed system expects.
///
/// # Errors
/// If the partition's root or its `EFI` cannot be read. What is odd below is
/// passed over: the loader may be elsewhere.
pub fn find(esp: &Path) -> io::Result<Option<Loader>> {
    let Some(efi) = child(esp, "efi")?.filter(|efi| efi.is_dir()) else {
        return Ok(None);
    };
    let mut vendors = Vec::new();
    for entry in fs::read_dir(&efi)? {
        let path = entry?.path();
        if path.is_dir() {
            vendors.push(path);
        }
    }
    vendors.sort();
    for vendor in &vendors {
        match of_vendor(esp, vendor) {
            Ok(Some(loader)) => return Ok(Some(loader)),
            Ok(None) => {}
            Err(e) => tracing::warn!("{}: {e}", vendor.display()),
        }
    }
    let boot = child(&efi, "boot")?.filter(|boot| boot.is_dir());
    let fallback = boot.map(|boot| child(&boot, names::FALLBACK)).transpose()?;
    let fallback = fallback.flatten().filter(|loader| loader.is_file());
    Ok(fallback.map(|loader| Loader {
        label: FALLBACK_LABEL.to_owned(),
        file: firmware_path(esp, &loader),
    }))
}

/// What a vendor's CSV names.
fn of_vendor(esp: &Path, vendor: &Path) -> io::Result<Option<Loader>> {
    let Some(csv) = child(vendor, names::CSV)? else {
        return Ok(None);
    };
    let Some((file, label)) = parse_csv(&read(&csv)?) else {
        tracing::warn!("{}: expected a loader and its label", csv.display());
        return Ok(None);
    };
    let loader = child(vendor, &file)?.filter(|loader| loader.is_file());
    if loader.is_none() {
        tracing::warn!("{} names {file}, which is not there", csv.display());
    }
    Ok(loader.map(|loader| Loader {
        label,
        file: firmware_path(esp, &loader),
    }))
}

/// The entry of a directory with this name in any case, as FAT has it.
fn child(directory: &Path, name: &str) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().eq_ignore_ascii_case(name) {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    file_in_boot::open(path, fs::OpenOptions::new().read(true))?
        .take(CSV_LIMIT)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// `shimx64.efi,Red Hat Enterprise Linux,,comment` in UTF-16, with a byte order
/// mark or little endian (shim, fallback.c). The first line counts.
pub(crate) fn parse_csv(bytes: &[u8]) -> Option<(String, String)> {
    let little = |pair: &[u8]| u16::from_le_bytes([pair[0], pair[1]]);
    let big = |pair: &[u8]| u16::from_be_bytes([pair[0], pair[1]]);
    let units: Vec<u16> = match bytes {
        [0xff, 0xfe, rest @ ..] => rest.chunks_exact(2).map(little).collect(),
        [0xfe, 0xff, rest @ ..] => rest.chunks_exact(2).map(big).collect(),
        rest => rest.chunks_exact(2).map(little).collect(),
    };
    let text = String::from_utf16(&units).ok()?;
    let mut fields = text.lines().next()?.split(',').map(str::trim);
    let (file, label) = (fields.next()?, fields.next()?);
    let fits =
        |text: &str| !text.is_empty() && text.len() < 256 && !text.contains(['/', '\\', '\0']);
    (fits(file) && fits(label)).then(|| (file.to_owned(), label.to_owned()))
}

fn firmware_path(esp: &Path, file: &Path) -> String {
    file.strip_prefix(esp)
        .unwrap_or(file)
        .components()
        .map(|part| format!("\\{}", part.as_os_str().to_string_lossy()))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    fn esp(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        dir
    }

    #[test]
    fn csv_as_shim_reads_it() {
        let line = "shimx64.efi,Red Hat Enterprise Linux,,This is the boot entry for RHEL\n";
        let expected = Some((
            "shimx64.efi".to_owned(),
            "Red Hat Enterprise Linux".to_owned(),
        ));
        let marked: Vec<u8> = [&[0xff, 0xfe][..], &utf16(line)].concat();
        let mut big = vec![0xfe, 0xff];
        big.extend(line.encode_utf16().flat_map(u16::to_be_bytes));
        for bytes in [utf16(line), marked, big] {
            assert_eq!(parse_csv(&bytes), expected);
        }
        for bad in [
            "",
            "shimx64.efi",
            ",label",
            "shim.efi,",
            "..\\x.efi,label",
            "a/b,label",
        ] {
            assert_eq!(parse_csv(&utf16(bad)), None, "{bad}");
        }
        assert_eq!(parse_csv(b"shimx64.efi,ASCII,,"), None);
    }

    #[test]
    fn the_distributions_loader_wins() {
        let csv = utf16("shimx64.efi,RHEL,,x\n");
        let esp = esp(&[
            ("EFI/BOOT/BOOTX64.EFI", b""),
            ("EFI/redhat/BOOTX64.CSV", &csv),
            ("EFI/redhat/shimx64.efi", b""),
        ]);
        let loader = find(esp.path()).unwrap().unwrap();
        assert_eq!(loader.label, "RHEL");
        assert_eq!(loader.file, "\\EFI\\redhat\\shimx64.efi");
    }

    #[test]
    fn the_fallback_serves_where_the_csv_does_not() {
        let csv = utf16("missing.efi,RHEL,,x\n");
        for files in [
            &[("EFI/BOOT/BOOTX64.EFI", &b""[..])][..],
            &[
                ("efi/boot/bootx64.efi", b""),
                ("efi/redhat/BOOTX64.CSV", &csv),
            ],
            &[
                ("efi/boot/bootx64.efi", b""),
                ("efi/redhat/BOOTX64.CSV", b"junk"),
            ],
        ] {
            let esp = esp(files);
            let loader = find(esp.path()).unwrap().unwrap();
            assert_eq!(loader.label, "CoreOS");
            assert!(loader.file.eq_ignore_ascii_case("\\EFI\\BOOT\\BOOTX64.EFI"));
        }
        for files in [&[][..], &[("EFI/redhat/grub.cfg", &b""[..])]] {
            assert_eq!(find(esp(files).path()).unwrap(), None);
        }
    }

    /// One vendor's mess is not the end of the others.
    #[test]
    fn what_is_no_loader_is_passed_over() {
        let csv = utf16("shimx64.efi,RHEL,,x\n");
        let mess = esp(&[
            ("EFI/a/BOOTX64.CSV/x", b""),
            ("EFI/b/BOOTX64.CSV", &csv),
            ("EFI/b/shimx64.efi/x", b""),
            ("EFI/redhat/BOOTX64.CSV", &csv),
            ("EFI/redhat/shimx64.efi", b""),
        ]);
        let loader = find(mess.path()).unwrap().unwrap();
        assert_eq!(loader.file, "\\EFI\\redhat\\shimx64.efi");
        for files in [
            &[("EFI", &b""[..])][..],
            &[("EFI/BOOT", b"")],
            &[("EFI/BOOT/BOOTX64.EFI/x", b"")],
        ] {
            assert_eq!(find(esp(files).path()).unwrap(), None, "{files:?}");
        }
    }

    proptest! {
        #[test]
        fn any_csv_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_csv(&bytes);
        }
    }
}
