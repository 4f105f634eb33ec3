//! The rescue layer: the programs with which a user logs in to a machine in
//! rescue. busybox (the shell and its commands), dropbear (the SSH server) and
//! the shared libraries that they load, as the build machine has them installed.
//!
//! The loader in the ramdisk has no cache (`ld.so.cache`), so every library goes
//! to a directory that it searches by default.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::elf_section::{self, ElfError};
use crate::path_error::PathError;

/// The programs, and the Debian package of each. `dropbear-bin` has no service:
/// installing it on the build machine starts nothing.
const PROGRAMS: [(&str, &str); 3] = [
    ("bin/busybox", "busybox-static"),
    ("usr/bin/dropbearkey", "dropbear-bin"),
    ("usr/sbin/dropbear", "dropbear-bin"),
];

/// Where Debian's loader searches for libraries.
const LIBRARY_DIRECTORIES: [&str; 4] = [
    "lib/x86_64-linux-gnu",
    "usr/lib/x86_64-linux-gnu",
    "lib",
    "usr/lib",
];

/// `DT_NEEDED`: the entry of `.dynamic` that names a library.
const NEEDED: u64 = 1;

/// The files of the layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RescueLayer {
    /// Path in the ramdisk to the file on the build machine.
    pub files: BTreeMap<String, PathBuf>,
}

/// Why there is no rescue layer.
#[derive(Debug, thiserror::Error)]
pub enum RescueLayerError {
    /// A program is not installed.
    #[error(
        "rescue layer: expected the program /{program}, found none -- install it on this machine: apt-get install {package}"
    )]
    NoProgram {
        /// Its path.
        program: &'static str,
        /// Its Debian package.
        package: &'static str,
    },
    /// A library is not where the loader of the ramdisk will search.
    #[error("rescue layer: /{user} needs the library {library}, which is in none of {}", LIBRARY_DIRECTORIES.map(|directory| format!("/{directory}")).join(", "))]
    NoLibrary {
        /// The program or library that needs it.
        user: String,
        /// Its name.
        library: String,
    },
    /// A program or library that the kernel or the loader would refuse.
    #[error("rescue layer: {}", path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: ElfError,
    },
    /// A file that cannot be read.
    #[error("rescue layer: {0}")]
    Path(#[from] PathError),
}

impl RescueLayer {
    /// Finds the programs and their libraries on this machine.
    ///
    /// # Errors
    /// [`RescueLayerError`].
    pub fn of_this_machine() -> Result<Self, RescueLayerError> {
        Self::below(Path::new("/"))
    }

    fn below(root: &Path) -> Result<Self, RescueLayerError> {
        let mut layer = Self::default();
        let mut unread = Vec::new();
        for (program, package) in PROGRAMS {
            if !root.join(program).is_file() {
                return Err(RescueLayerError::NoProgram { program, package });
            }
            unread.push(program.to_owned());
        }
        while let Some(file) = unread.pop() {
            let path = root.join(&file);
            let loads = loads(&path)?;
            layer.files.insert(file.clone(), path);
            if let Some(loader) = loads.loader {
                unread.push(loader.trim_start_matches('/').to_owned());
            }
            for library in loads.libraries {
                match find_library(root, &library) {
                    Some(found) => unread.push(found),
                    None => {
                        let user = file.clone();
                        return Err(RescueLayerError::NoLibrary { user, library });
                    }
                }
            }
            unread.retain(|file| !layer.files.contains_key(file));
        }
        Ok(layer)
    }
}

fn find_library(root: &Path, name: &str) -> Option<String> {
    LIBRARY_DIRECTORIES
        .iter()
        .map(|directory| format!("{directory}/{name}"))
        .find(|path| root.join(path).is_file())
}

/// What a program or a library loads when it starts.
#[derive(Debug, Default, PartialEq, Eq)]
struct Loads {
    /// Of a program that is not static.
    loader: Option<String>,
    /// Names without a directory.
    libraries: Vec<String>,
}

fn loads(path: &Path) -> Result<Loads, RescueLayerError> {
    let file = File::open(path).map_err(PathError::new("opening", path))?;
    let section = |name| {
        elf_section::read(&file, name).map_err(|source| RescueLayerError::NotElf {
            path: path.to_owned(),
            source,
        })
    };
    let loader = section(".interp")?.map(|bytes| text_at(&bytes, 0));
    let dynamic = section(".dynamic")?.unwrap_or_default();
    let names = section(".dynstr")?.unwrap_or_default();
    Ok(Loads {
        loader,
        libraries: needed(&dynamic)
            .map(|offset| text_at(&names, offset))
            .collect(),
    })
}

/// The offsets of the names in `.dynstr`. An entry is a tag and a value of 64 bits
/// each.
fn needed(dynamic: &[u8]) -> impl Iterator<Item = usize> {
    dynamic
        .as_chunks::<8>()
        .0
        .as_chunks::<2>()
        .0
        .iter()
        .map(|entry| entry.map(u64::from_le_bytes))
        .filter(|[tag, _]| *tag == NEEDED)
        .map(|[_, value]| usize::try_from(value).unwrap_or(usize::MAX))
}

/// Up to the NUL; empty if the offset is outside.
fn text_at(bytes: &[u8], offset: usize) -> String {
    let rest = bytes.get(offset..).unwrap_or_default();
    let text = rest.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests;
