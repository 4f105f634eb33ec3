//! Reads the description that a kernel module contains.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use landfall_module_index::module_name;

use crate::elf_section::{self, ElfError};
use crate::path_error::PathError;

/// The size limit of an unpacked module in bytes. The largest module of a Debian kernel
/// (amdgpu without debug sections) has 20 MB.
const MAX_MODULE_BYTES: u64 = 256 << 20;

/// The parts of a module's `.modinfo` section that matter for loading the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModInfo {
    /// Normalised names of the modules whose symbols this module uses.
    pub depends: Vec<String>,
    /// What to load before this module, as written: names or aliases.
    pub softdeps_before: Vec<String>,
    /// What to load after this module, as written: names or aliases.
    pub softdeps_after: Vec<String>,
    /// Other names of the module, and patterns of the devices that it drives.
    pub aliases: Vec<String>,
    /// Files below `/lib/firmware` that it may request.
    pub firmware: Vec<String>,
    /// The version text of the module. Its first word is the release of the kernel
    /// that the module was built for.
    pub vermagic: Option<String>,
    /// The licence in the words of the kernel, such as `GPL v2`.
    pub license: Option<String>,
}

/// Why a module file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ModuleFileError {
    /// The file cannot be read or unpacked.
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("cannot read kernel module {path}")]
    Elf {
        path: String,
        #[source]
        source: ElfError,
    },
    #[error("kernel module {path}: expected a .modinfo section, found none")]
    NoModInfo {
        /// The path of the module's file.
        path: String,
    },
    #[error("kernel module {path}: expected .ko, .ko.xz or .ko.zst, found another packing")]
    UnknownPacking {
        /// The path of the module's file.
        path: String,
    },
}

impl ModInfo {
    /// Reads a module file: `.ko`, `.ko.xz` or `.ko.zst`.
    pub fn of_file(path: &Path) -> Result<Self, ModuleFileError> {
        let file = File::open(path).map_err(PathError::new("cannot open kernel module", path))?;
        let info = match path.extension().and_then(|e| e.to_str()) {
            Some("ko") => elf_section::read(&file, ".modinfo")
                .map(|section| section.map(|section| Self::parse(&section))),
            Some("xz") => {
                let unpacked = unpacked(path, liblzma::read::XzDecoder::new(BufReader::new(file)))?;
                Self::of_elf(&unpacked)
            }
            Some("zst") => {
                let decoder =
                    zstd::Decoder::new(file).map_err(PathError::new("cannot unpack", path))?;
                Self::of_elf(&unpacked(path, decoder)?)
            }
            _ => {
                return Err(ModuleFileError::UnknownPacking {
                    path: path.display().to_string(),
                });
            }
        };
        let shown = || path.display().to_string();
        let info = info.map_err(|source| ModuleFileError::Elf {
            path: shown(),
            source,
        })?;
        info.ok_or_else(|| ModuleFileError::NoModInfo { path: shown() })
    }

    /// Reads an unpacked module; `None` if it has no `.modinfo` section. Fails if the
    /// file is not an ELF file that a kernel would load.
    pub fn of_elf(elf: &[u8]) -> Result<Option<Self>, ElfError> {
        let section = elf_section::find(elf, ".modinfo")?;
        Ok(section.map(Self::parse))
    }

    /// Parses the section: `key=value` strings, each with a NUL at its end. Unknown keys
    /// are ignored.
    #[must_use]
    pub fn parse(section: &[u8]) -> Self {
        let mut info = Self::default();
        for (key, value) in pairs(section) {
            info.add(key, &value);
        }
        info
    }

    pub(crate) fn add(&mut self, key: &str, value: &str) {
        match key {
            "depends" => self.depends.extend(
                value
                    .split(',')
                    .filter(|name| !name.is_empty())
                    .map(|name| module_name::normalise(name).into_owned()),
            ),
            "softdep" => self.softdep(value),
            "alias" => self.aliases.push(value.to_owned()),
            "firmware" => self.firmware.push(value.to_owned()),
            "vermagic" => self.vermagic = Some(value.to_owned()),
            "license" => self.license = Some(value.to_owned()),
            _ => {}
        }
    }

    /// Parses `pre: a b post: c`. Words before the first `pre:` or `post:` are ignored,
    /// as in modprobe.
    fn softdep(&mut self, value: &str) {
        let mut list: Option<&mut Vec<String>> = None;
        for word in value.split_whitespace() {
            match word {
                "pre:" => list = Some(&mut self.softdeps_before),
                "post:" => list = Some(&mut self.softdeps_after),
                name => {
                    if let Some(list) = &mut list {
                        list.push(name.to_owned());
                    }
                }
            }
        }
    }

    /// The kernel release in `vermagic`.
    #[must_use]
    pub fn kernel_release(&self) -> Option<&str> {
        self.vermagic.as_deref()?.split(' ').next()
    }
}

/// The `key=value` strings of a section or of `modules.builtin.modinfo`.
pub(crate) fn pairs(section: &[u8]) -> impl Iterator<Item = (&str, std::borrow::Cow<'_, str>)> {
    section.split(|&b| b == 0).filter_map(|string| {
        let equals = string.iter().position(|&b| b == b'=')?;
        let key = std::str::from_utf8(&string[..equals]).ok()?;
        Some((key, String::from_utf8_lossy(&string[equals + 1..])))
    })
}

fn unpacked(path: &Path, decoder: impl Read) -> Result<Vec<u8>, PathError> {
    let mut bytes = Vec::new();
    decoder
        .take(MAX_MODULE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(PathError::new("cannot unpack", path))?;
    if bytes.len() as u64 > MAX_MODULE_BYTES {
        let fault = io::Error::other(format!(
            "expected at most {MAX_MODULE_BYTES} bytes, found more"
        ));
        return Err(PathError::new("cannot unpack", path)(fault));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf_section::tests::elf_with;

    const SECTION: &[u8] =
        b"license=GPL\0alias=pci:v00008086d*\0alias=fs-x\0depends=crc-x,libata\0\
        softdep=odd pre: crypto-crc32c b post: c\0softdep=pre: d\0firmware=a/b.bin\0\
        vermagic=6.1.0 SMP mod_unload \0noequals\0\0";

    fn expected() -> ModInfo {
        let strings = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        ModInfo {
            depends: strings(&["crc_x", "libata"]),
            softdeps_before: strings(&["crypto-crc32c", "b", "d"]),
            softdeps_after: strings(&["c"]),
            aliases: strings(&["pci:v00008086d*", "fs-x"]),
            firmware: strings(&["a/b.bin"]),
            vermagic: Some("6.1.0 SMP mod_unload ".into()),
            license: Some("GPL".into()),
        }
    }

    #[test]
    fn a_section_is_understood() {
        assert_eq!(ModInfo::parse(SECTION), expected());
        assert_eq!(expected().kernel_release(), Some("6.1.0"));
        assert_eq!(ModInfo::parse(b"depends=\0"), ModInfo::default());
    }

    #[test]
    fn every_packing_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let elf = elf_with(".modinfo", SECTION);
        let xz = {
            let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
            io::Write::write_all(&mut encoder, &elf).unwrap();
            encoder.finish().unwrap()
        };
        let zst = zstd::encode_all(elf.as_slice(), 1).unwrap();
        for (name, bytes) in [("a.ko", &elf), ("a.ko.xz", &xz), ("a.ko.zst", &zst)] {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(ModInfo::of_file(&path).unwrap(), expected(), "{name}");
        }
    }

    #[test]
    fn faults_name_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let cut_xz = &[0xfd, b'7', b'z', b'X', b'Z', 0, 0][..];
        for (name, bytes, expected) in [
            (
                "a.ko",
                &b"hello, this is no module"[..],
                "cannot read kernel module DIR/a.ko",
            ),
            (
                "b.ko",
                &elf_with(".text", b"x"),
                "kernel module DIR/b.ko: expected a .modinfo section, found none",
            ),
            ("c.ko.xz", cut_xz, "cannot unpack DIR/c.ko.xz"),
            ("d.ko.zst", b"hello", "cannot unpack DIR/d.ko.zst"),
            (
                "e.ko.gz",
                b"",
                "kernel module DIR/e.ko.gz: expected .ko, .ko.xz or .ko.zst, found another packing",
            ),
        ] {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let text = ModInfo::of_file(&path).unwrap_err().to_string();
            assert_eq!(
                text.replace(&dir.path().display().to_string(), "DIR"),
                expected
            );
        }
    }
}
