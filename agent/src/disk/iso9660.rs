//! Reads the files of a config drive that is an ISO 9660 image. The image is small
//! and in memory; its content is not trusted. No I/O.
//!
//! Names come from the Joliet tree if there is one, else from Rock Ridge (`NM`).
//! Other names are shown as Linux shows them: in lower case, without their version
//! (ECMA-119; Joliet Specification, 1995; IEEE P1282).

/// In bytes (ECMA-119, 6.1.2). Every program that writes ISO images uses this size.
const SECTOR: usize = 2048;
const FIRST_DESCRIPTOR: usize = 16;
/// The maximum depth of directories (ECMA-119, 6.8.2.1). It is enough for a config
/// drive.
const DEPTH: usize = 8;
/// Counts directories, too. A config drive has about a dozen files.
const MOST_FILES: usize = 4096;

/// A file: its path (`openstack/latest/user_data`) and its content.
pub type File<'a> = (String, &'a [u8]);

/// All files of the image.
///
/// # Errors
/// If this is no ISO 9660 image, or if it refers to bytes outside of itself.
pub fn files(image: &[u8]) -> Result<Vec<File<'_>>, String> {
    let mut root = None;
    for index in FIRST_DESCRIPTOR.. {
        let descriptor = slice(image, index * SECTOR, SECTOR)?;
        if &descriptor[1..6] != b"CD001" {
            return Err(format!("sector {index} is no volume descriptor"));
        }
        let names = match (descriptor[0], &descriptor[88..91]) {
            (1, _) => Names::Primary,
            // The ISO 2022 escape sequences for UCS-2, levels 1 to 3.
            (2, b"%/@" | b"%/C" | b"%/E") => Names::Joliet,
            (255, _) => break,
            _ => continue,
        };
        if u16_at(descriptor, 128) as usize != SECTOR {
            return Err("its blocks are not of 2048 bytes".to_owned());
        }
        if root.is_none() || names == Names::Joliet {
            root = Some((names, Record::parse(&descriptor[156..190])?));
        }
    }
    let (names, root) = root.ok_or("it has no volume")?;
    let mut tree = Tree {
        image,
        names,
        entries: 0,
        files: Vec::new(),
    };
    tree.walk(&root, "", 0)?;
    Ok(tree.files)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Primary,
    Joliet,
}

struct Tree<'a> {
    image: &'a [u8],
    names: Names,
    entries: usize,
    files: Vec<File<'a>>,
}

impl<'a> Tree<'a> {
    fn walk(&mut self, directory: &Record<'_>, path: &str, depth: usize) -> Result<(), String> {
        if depth > DEPTH {
            return Err(format!("directories are more than {DEPTH} deep"));
        }
        let content = directory.content(self.image)?;
        // No record crosses the end of a sector (ECMA-119, 6.8.1.1).
        for sector in content.chunks(SECTOR) {
            let mut at = 0;
            while let Some(&len) = sector.get(at)
                && len != 0
            {
                let record = Record::parse(slice(sector, at, usize::from(len))?)?;
                at += usize::from(len);
                // The entries of the directory itself and of its parent.
                if matches!(record.name, [0] | [1]) {
                    continue;
                }
                self.entries += 1;
                if self.entries > MOST_FILES {
                    return Err(format!("it has more than {MOST_FILES} files"));
                }
                let path = format!("{path}{}", record.shown_name(self.names)?);
                if record.is_directory() {
                    self.walk(&record, &format!("{path}/"), depth + 1)?;
                } else {
                    let content = record.content(self.image)?;
                    self.files.push((path, content));
                }
            }
        }
        Ok(())
    }
}

/// A directory record (ECMA-119, 9.1).
struct Record<'a> {
    block: usize,
    len: usize,
    flags: u8,
    name: &'a [u8],
    /// The system use fields (SUSP), which follow the name.
    system_use: &'a [u8],
}

impl<'a> Record<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let name_len = usize::from(*bytes.get(32).ok_or("a directory record is cut off")?);
        let name = slice(bytes, 33, name_len)?;
        // The name is padded to an even offset.
        let after = (33 + name_len).next_multiple_of(2);
        let record = Self {
            block: u32_at(bytes, 2) as usize,
            len: u32_at(bytes, 10) as usize,
            flags: bytes[25],
            name,
            system_use: bytes.get(after..).unwrap_or_default(),
        };
        if record.flags & 0x80 != 0 {
            return Err("a file is in several parts".to_owned());
        }
        Ok(record)
    }

    fn is_directory(&self) -> bool {
        self.flags & 2 != 0
    }

    fn content<'i>(&self, image: &'i [u8]) -> Result<&'i [u8], String> {
        let start = self.block.saturating_mul(SECTOR);
        slice(image, start, self.len)
    }

    fn shown_name(&self, names: Names) -> Result<String, String> {
        let name = match names {
            Names::Joliet => {
                let units = self.name.as_chunks::<2>().0.iter();
                let units: Vec<u16> = units.map(|unit| u16::from_be_bytes(*unit)).collect();
                without_version(&String::from_utf16_lossy(&units)).to_owned()
            }
            Names::Primary => self.rock_ridge_name().unwrap_or_else(|| {
                let name = String::from_utf8_lossy(self.name).to_ascii_lowercase();
                without_version(&name).trim_end_matches('.').to_owned()
            }),
        };
        if matches!(name.as_str(), "" | "." | "..") || name.contains(['/', '\\', '\0']) {
            return Err(format!("a file is called {name:?}"));
        }
        Ok(name)
    }

    /// The name in the `NM` fields (RRIP 4.1.4). Ignores continuation areas,
    /// because names on a config drive are not that long.
    fn rock_ridge_name(&self) -> Option<String> {
        let mut rest = self.system_use;
        let mut name = Vec::new();
        while let &[first, second, len, _, ..] = rest {
            let field = rest
                .get(..usize::from(len))
                .filter(|field| field.len() >= 4)?;
            if [first, second] == *b"NM" {
                name.extend_from_slice(field.get(5..)?);
            }
            rest = &rest[field.len()..];
        }
        (!name.is_empty()).then(|| String::from_utf8_lossy(&name).into_owned())
    }
}

fn without_version(name: &str) -> &str {
    name.rsplit_once(';').map_or(name, |(name, _)| name)
}

fn slice(bytes: &[u8], start: usize, len: usize) -> Result<&[u8], String> {
    start
        .checked_add(len)
        .and_then(|end| bytes.get(start..end))
        .ok_or_else(|| format!("{len} bytes at byte {start} are not in it"))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
pub mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;
    use crate::skip::skip;

    /// An image of these files, made by genisoimage as Ironic does it; `None` if
    /// genisoimage is not installed.
    pub fn made(files: &[(&str, &[u8])], options: &[&str]) -> Option<Vec<u8>> {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join("tree");
        for (path, content) in files {
            let path = tree.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let image = directory.path().join("image");
        let made = Command::new("genisoimage")
            .args(["-quiet", "-V", "config-2", "-o"])
            .arg(&image)
            .args(options)
            .arg(&tree)
            .output();
        match made {
            Ok(output) => {
                assert!(output.status.success(), "{output:?}");
                Some(std::fs::read(image).unwrap())
            }
            Err(error) => {
                skip(format_args!("genisoimage: {error}"));
                None
            }
        }
    }

    /// Files as on a config drive.
    pub const DRIVE: [(&str, &[u8]); 4] = [
        ("ec2/latest/meta-data.json", b"{}"),
        ("openstack/content/0000", &[7; 5000]),
        ("openstack/latest/meta_data.json", b"{\"uuid\": \"1\"}"),
        ("openstack/latest/user_data", b""),
    ];

    #[test]
    fn files_by_every_kind_of_name() {
        for options in [&["-J", "-r"][..], &["-J"], &["-r"], &["-r", "-J", "-l"]] {
            let Some(image) = made(&DRIVE, options) else {
                return;
            };
            let mut found = files(&image).unwrap();
            found.sort();
            let found: Vec<(&str, &[u8])> = found
                .iter()
                .map(|(path, content)| (path.as_str(), *content))
                .collect();
            assert_eq!(found, DRIVE, "{options:?}");
        }
    }

    #[test]
    fn without_long_names_they_are_as_linux_shows_them() {
        let Some(image) = made(&[("LATEST/USERDATA", b"x"), ("LATEST/A.B", b"y")], &[]) else {
            return;
        };
        let found = files(&image).unwrap();
        let names: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(names, ["latest/a.b", "latest/userdata"]);
    }

    proptest! {
        #[test]
        fn a_damaged_image_is_an_error_or_files(
            places in proptest::collection::vec((0usize..16384, any::<u8>()), 1..10),
            keep in any::<proptest::sample::Index>(),
        ) {
            static IMAGE: std::sync::OnceLock<Option<Vec<u8>>> = std::sync::OnceLock::new();
            if let Some(image) = IMAGE.get_or_init(|| made(&DRIVE, &["-J", "-r"])) {
                let mut image = image.clone();
                for (place, byte) in places {
                    image[32768 + place] = byte;
                }
                let _ = files(&image);
                let _ = files(&image[..keep.index(image.len())]);
            }
        }
    }
}
