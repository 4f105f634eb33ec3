//! Chooses the program to boot from an EFI system partition: the program that the
//! distribution's CSV file names, or else a loader with a standard name.
//!
//! Ironic's agent makes an entry for every loader that it finds, even for other
//! architectures. This module chooses one loader that this firmware can start.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use landfall_media_formats::little_endian::all_u16;

use crate::file_in_boot;

/// In bytes; a CSV has one line of some 150 bytes.
const CSV_LIMIT: u64 = 64 << 10;
/// Most loaders are two directories deep; that of Windows is three deep.
const MOST_DIRECTORIES_DEEP: usize = 4;
/// Largest number of files and directories; an EFI system partition has some
/// dozens.
const MOST_ENTRIES: usize = 10_000;
/// At most this many programs are listed in the error message if no loader is
/// found.
const MOST_NAMED: usize = 4;
/// In characters: how much of a CSV that cannot be parsed is shown.
const MOST_SHOWN: usize = 60;

/// What a firmware can start: its architecture and bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// x86 with 32-bit firmware, even if the processor has 64 bits.
    Ia32,
    /// x86 with 64-bit firmware.
    X64,
    /// 64-bit ARM.
    Aa64,
}

impl Machine {
    /// The machine that the agent runs on. `firmware_bits` is the content of
    /// `fw_platform_size`, where the kernel reports the bits of the firmware.
    pub fn this(firmware_bits: &str) -> Self {
        match (cfg!(target_arch = "aarch64"), firmware_bits.trim()) {
            (true, _) => Self::Aa64,
            (false, "32") => Self::Ia32,
            (false, _) => Self::X64,
        }
    }

    /// CSV file names, in the order in which shim's fallback.c tries them.
    fn csv(self) -> [&'static str; 2] {
        let own = match self {
            Self::Ia32 => "bootia32.csv",
            Self::X64 => "bootx64.csv",
            Self::Aa64 => "bootaa64.csv",
        };
        [own, "boot.csv"]
    }

    /// Loader names to use without a CSV, best first: the name for removable media
    /// (UEFI 2.10, 3.5.1.1), then the others that Ironic's agent accepts.
    fn loaders(self) -> &'static [&'static str] {
        match self {
            Self::Ia32 => &["bootia32.efi", "winload.efi"],
            Self::X64 => &["bootx64.efi", "winload.efi"],
            Self::Aa64 => &["bootaa64.efi", "grubaa64.efi", "winload.efi"],
        }
    }
}

/// The label of the boot entry if the ESP has no valid CSV file, because only that file
/// gives a loader a label.
const UNNAMED: &str = "CoreOS";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loader {
    /// The label for the boot entry.
    pub label: String,
    /// The path in the firmware's notation: `\EFI\redhat\shimx64.efi`.
    pub file: String,
}

/// The EFI system partition of the image has no loader for this machine's processor, so
/// the image would not boot. Use the image for this architecture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected an EFI loader for this machine, as {loader} or named by {csv}, found {found}")]
pub struct NoLoader {
    /// The expected name of the loader.
    loader: String,
    /// The name of the CSV file that could name a loader.
    csv: String,
    /// The programs on the partition, as a text for the error.
    found: String,
}

/// The loader of a mounted EFI system partition, or the reason why there is
/// none.
///
/// The label comes from the CSV file. The fallback program of shim makes its entries
/// from the same file, so the installed system expects this label.
///
/// # Errors
/// If the root directory of the partition cannot be read. Errors in other directories are
/// only logged, because the loader may be elsewhere.
pub fn find(esp: &Path, machine: Machine) -> io::Result<Result<Loader, NoLoader>> {
    let files = files(esp)?;
    let of_name = |wanted: &'static str| {
        let is_it = move |file: &&PathBuf| named(file, wanted);
        files.iter().filter(is_it)
    };
    for csv in machine.csv().into_iter().flat_map(of_name) {
        match of_csv(esp, csv) {
            Ok(Some(loader)) => return Ok(Ok(loader)),
            Ok(None) => {}
            Err(e) => tracing::warn!("{}: {e}", csv.display()),
        }
    }
    for name in machine.loaders() {
        // If several files have this name, the loader in `\EFI\BOOT`, where firmware
        // searches, takes precedence.
        let found = of_name(name).min_by_key(|file| !is_in_efi_boot(esp, file));
        if let Some(file) = found {
            return Ok(Ok(Loader {
                label: UNNAMED.to_owned(),
                file: firmware_path(esp, file),
            }));
        }
    }
    let others = files.iter().filter(|file| {
        file.extension()
            .is_some_and(|end| end.eq_ignore_ascii_case("efi"))
    });
    let others: Vec<String> = others
        .take(MOST_NAMED)
        .map(|file| firmware_path(esp, file))
        .collect();
    Ok(Err(NoLoader {
        loader: machine.loaders()[0].to_uppercase(),
        csv: machine.csv()[0].to_uppercase(),
        found: if others.is_empty() {
            "no program".to_owned()
        } else {
            others.join(", ")
        },
    }))
}

/// Whether a mounted EFI system partition has the loader that firmware starts from
/// a disk without a boot entry (UEFI 2.10, 3.5.1.1).
///
/// # Errors
/// See [`find`].
pub fn has_fallback(esp: &Path, machine: Machine) -> io::Result<bool> {
    let name = machine.loaders()[0];
    let files = files(esp)?;
    Ok(files
        .iter()
        .any(|file| named(file, name) && is_in_efi_boot(esp, file)))
}

/// The files of the partition up to the limits [`MOST_DIRECTORIES_DEEP`] and
/// [`MOST_ENTRIES`], those of outer directories first.
fn files(esp: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut entries = 0;
    let mut directories = VecDeque::from([(esp.to_owned(), 0)]);
    while let Some((directory, depth)) = directories.pop_front() {
        let listed = fs::read_dir(&directory)
            .and_then(|list| list.take(MOST_ENTRIES).collect::<io::Result<Vec<_>>>());
        let mut listed = match listed {
            Ok(listed) => listed,
            Err(e) if depth == 0 => return Err(e),
            Err(e) => {
                tracing::warn!("{}: {e}", directory.display());
                continue;
            }
        };
        listed.sort_by_key(fs::DirEntry::file_name);
        entries += listed.len();
        if entries > MOST_ENTRIES {
            tracing::warn!(
                "EFI system partition: found more than {MOST_ENTRIES} files and directories; the agent ignores the rest"
            );
            break;
        }
        for entry in listed {
            match entry.file_type() {
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                Ok(kind) if kind.is_dir() && depth < MOST_DIRECTORIES_DEEP => {
                    directories.push_back((entry.path(), depth + 1));
                }
                Ok(_) => {}
                Err(e) => tracing::warn!("{}: {e}", entry.path().display()),
            }
        }
    }
    Ok(files)
}

/// Whether a path ends with this name. Letter case is ignored, as on FAT.
fn named(path: &Path, name: &str) -> bool {
    path.file_name()
        .is_some_and(|found| found.eq_ignore_ascii_case(name))
}

fn is_in_efi_boot(esp: &Path, file: &Path) -> bool {
    file.parent().is_some_and(|boot| {
        named(boot, "boot")
            && boot
                .parent()
                .is_some_and(|efi| named(efi, "efi") && efi.parent() == Some(esp))
    })
}

/// The loader that a CSV names: a file in the directory of the CSV.
fn of_csv(esp: &Path, csv: &Path) -> io::Result<Option<Loader>> {
    let bytes = read(csv)?;
    let Some((file, label)) = parse_csv(&bytes) else {
        let start = start_of(&bytes);
        tracing::warn!(
            "{}: expected LOADER,LABEL as shim writes it, found `{start}`; the file is ignored",
            csv.display()
        );
        return Ok(None);
    };
    let directory = csv.parent().unwrap_or(esp);
    let loader = child(directory, &file)?.filter(|loader| loader.is_file());
    if loader.is_none() {
        tracing::warn!("{} names {file}, which does not exist", csv.display());
    }
    Ok(loader.map(|loader| Loader {
        label,
        file: firmware_path(esp, &loader),
    }))
}

/// The entry of a directory with this name. Letter case is ignored, as on FAT.
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

/// Parses `shimx64.efi,Red Hat Enterprise Linux,,comment` into file and label. Only the
/// first line is used.
pub fn parse_csv(bytes: &[u8]) -> Option<(String, String)> {
    let text = String::from_utf16(&units(bytes)).ok()?;
    let mut fields = text.lines().next()?.split(',').map(str::trim);
    let (file, label) = (fields.next()?, fields.next()?);
    let fits =
        |text: &str| !text.is_empty() && text.len() < 256 && !text.contains(['/', '\\', '\0']);
    (fits(file) && fits(label)).then(|| (file.to_owned(), label.to_owned()))
}

/// The UTF-16 code units of a CSV. Without a byte order mark, the text is little endian
/// (shim, fallback.c).
fn units(bytes: &[u8]) -> Vec<u16> {
    match bytes {
        [0xff, 0xfe, rest @ ..] => all_u16(rest).collect(),
        [0xfe, 0xff, rest @ ..] => all_u16(rest).map(u16::swap_bytes).collect(),
        rest => all_u16(rest).collect(),
    }
}

/// The first line of a CSV, at most [`MOST_SHOWN`] characters of it.
fn start_of(bytes: &[u8]) -> String {
    let text = String::from_utf16_lossy(&units(bytes));
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(MOST_SHOWN).collect()
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
        let loader = find(esp.path(), Machine::X64).unwrap().unwrap();
        assert_eq!(loader.label, "RHEL");
        assert_eq!(loader.file, "\\EFI\\redhat\\shimx64.efi");
    }

    #[test]
    fn only_the_loader_in_efi_boot_starts_without_an_entry() {
        for (file, expected) in [
            ("EFI/BOOT/BOOTX64.EFI", true),
            ("efi/boot/bootx64.efi", true),
            ("EFI/redhat/BOOTX64.EFI", false),
            ("EFI/BOOT/BOOTIA32.EFI", false),
            ("EFI/BOOT/grubx64.efi", false),
        ] {
            let found = has_fallback(esp(&[(file, b"")]).path(), Machine::X64).unwrap();
            assert_eq!(found, expected, "{file}");
        }
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
            let loader = find(esp.path(), Machine::X64).unwrap().unwrap();
            assert_eq!(loader.label, "CoreOS");
            assert!(loader.file.eq_ignore_ascii_case("\\EFI\\BOOT\\BOOTX64.EFI"));
        }
        for files in [&[][..], &[("EFI/redhat/grub.cfg", &b""[..])]] {
            assert!(find(esp(files).path(), Machine::X64).unwrap().is_err());
        }
    }

    /// A broken vendor directory does not hide the loaders in the other directories.
    #[test]
    fn unusable_loaders_are_skipped() {
        let csv = utf16("shimx64.efi,RHEL,,x\n");
        let mess = esp(&[
            ("EFI/a/BOOTX64.CSV/x", b""),
            ("EFI/b/BOOTX64.CSV", &csv),
            ("EFI/b/shimx64.efi/x", b""),
            ("EFI/redhat/BOOTX64.CSV", &csv),
            ("EFI/redhat/shimx64.efi", b""),
        ]);
        let loader = find(mess.path(), Machine::X64).unwrap().unwrap();
        assert_eq!(loader.file, "\\EFI\\redhat\\shimx64.efi");
        for files in [
            &[("EFI", &b""[..])][..],
            &[("EFI/BOOT", b"")],
            &[("EFI/BOOT/BOOTX64.EFI/x", b"")],
        ] {
            let found = find(esp(files).path(), Machine::X64).unwrap();
            assert!(found.is_err(), "{files:?}");
        }
    }

    /// The loader names are those that Ironic's agent accepts. Loaders of other
    /// architectures are ignored.
    #[test]
    fn every_machine_has_its_names() {
        use Machine::{Aa64, Ia32, X64};
        let csv = utf16("shim.efi,A,,x\n");
        let all: &[(&str, &[u8])] = &[
            ("EFI/BOOT/BOOTIA32.EFI", b""),
            ("EFI/BOOT/BOOTX64.EFI", b""),
            ("EFI/BOOT/BOOTAA64.EFI", b""),
            ("EFI/BOOT/BOOTARM.EFI", b""),
            ("EFI/BOOT/BOOTIA64.EFI", b""),
            ("EFI/BOOT/BOOTRISCV64.EFI", b""),
        ];
        let for_all: &[(&str, &[u8])] = &[("EFI/a/BOOT.CSV", &csv), ("EFI/a/shim.efi", b"")];
        let own: &[(&str, &[u8])] = &[
            ("EFI/a/boot.csv", &csv),
            ("EFI/a/shim.efi", b""),
            ("EFI/b/bootia32.csv", &csv),
            ("EFI/b/BootX64.csv", &csv),
            ("EFI/b/BOOTAA64.CSV", &csv),
            ("EFI/b/shim.efi", b""),
        ];
        let deep = "EFI/Microsoft/Boot/x/winload.efi";
        for (files, machine, expected) in [
            (all, Ia32, Some("\\EFI\\BOOT\\BOOTIA32.EFI")),
            (all, X64, Some("\\EFI\\BOOT\\BOOTX64.EFI")),
            (all, Aa64, Some("\\EFI\\BOOT\\BOOTAA64.EFI")),
            (&all[..1], X64, None),
            (&all[1..2], Ia32, None),
            (&all[3..], X64, None),
            (&all[3..], Aa64, None),
            (for_all, X64, Some("\\EFI\\a\\shim.efi")),
            (for_all, Ia32, Some("\\EFI\\a\\shim.efi")),
            (own, X64, Some("\\EFI\\b\\shim.efi")),
            (own, Ia32, Some("\\EFI\\b\\shim.efi")),
            (own, Aa64, Some("\\EFI\\b\\shim.efi")),
            // Firmware does not search this directory, but a boot entry can start the
            // loader there.
            (
                &[("EFI/a/bootx64.efi", b""), ("EFI/boot/bootx64.efi", b"")],
                X64,
                Some("\\EFI\\boot\\bootx64.efi"),
            ),
            (&[("bootx64.efi", b"")], X64, Some("\\bootx64.efi")),
            (
                &[("EFI/debian/grubaa64.efi", b""), (deep, b"")],
                Aa64,
                Some("\\EFI\\debian\\grubaa64.efi"),
            ),
            (&[("EFI/debian/grubaa64.efi", b"")], X64, None),
            (
                &[(deep, b"")],
                X64,
                Some("\\EFI\\Microsoft\\Boot\\x\\winload.efi"),
            ),
            (
                &[(deep, b""), ("EFI/BOOT/BOOTX64.EFI", b"")],
                X64,
                Some("\\EFI\\BOOT\\BOOTX64.EFI"),
            ),
            (&[("a/b/c/d/e/bootx64.efi", b"")], X64, None),
        ] {
            let found = find(esp(files).path(), machine).unwrap();
            let found = found.map(|loader| loader.file);
            assert_eq!(found.as_deref().ok(), expected, "{machine:?} {files:?}");
        }
    }

    #[test]
    fn without_a_loader_for_this_machine_the_error_lists_the_others() {
        let arm: &[(&str, &[u8])] = &[
            ("EFI/BOOT/BOOTAA64.EFI", b""),
            ("EFI/fedora/grubaa64.efi", b""),
            ("EFI/fedora/grub.cfg", b""),
        ];
        for (files, expected) in [
            (
                arm,
                "found \\EFI\\BOOT\\BOOTAA64.EFI, \\EFI\\fedora\\grubaa64.efi",
            ),
            (&arm[2..], "found no program"),
        ] {
            let reason = find(esp(files).path(), Machine::X64).unwrap().unwrap_err();
            let reason = reason.to_string();
            assert!(reason.contains("as BOOTX64.EFI"), "{reason}");
            assert!(reason.ends_with(expected), "{reason}");
        }
    }

    #[test]
    fn the_kernel_knows_the_firmwares_bits() {
        let x86 = cfg!(target_arch = "x86_64");
        for (text, expected) in [
            ("32\n", Machine::Ia32),
            ("64\n", Machine::X64),
            ("", Machine::X64),
        ] {
            assert_eq!(Machine::this(text) == expected, x86, "{text:?}");
        }
    }
}
