//! The rescue layer: the programs that a user needs to log in to a machine in
//! rescue. They are busybox (the shell and its commands), dropbear (the SSH server)
//! and the shared libraries that they load. The builder copies them from the build
//! machine.
//!
//! The dynamic loader in the ramdisk has no cache (`ld.so.cache`). So the builder copies
//! every library to a directory that the loader searches by default.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::arch::Arch;
use crate::elf_section::{self, ElfError};
use crate::path_error::PathError;

/// The programs and the Debian package of each program. `dropbear-bin` contains no
/// service, so no service starts when it is installed on the build machine.
const PROGRAMS: [(&str, &str); 3] = [
    ("bin/busybox", "busybox-static"),
    ("usr/bin/dropbearkey", "dropbear-bin"),
    ("usr/sbin/dropbear", "dropbear-bin"),
];

/// The directories in which Debian's loader searches for libraries.
const LIBRARY_DIRECTORIES: [&str; 6] = [
    "lib/x86_64-linux-gnu",
    "usr/lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib",
    "usr/lib",
];

/// `DT_NEEDED`: the entry of `.dynamic` that names a library.
const NEEDED: u64 = 1;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RescueLayer {
    /// The path of each file in the ramdisk, and the file on the build machine.
    pub files: BTreeMap<String, PathBuf>,
}

/// Why there is no rescue layer.
#[derive(Debug, thiserror::Error)]
pub enum RescueLayerError {
    /// The builder copies the programs of the rescue layer from the build machine, so
    /// this machine must have the architecture of the hosts. Build on such a machine, or
    /// without `--rescue-layer`.
    #[error(
        "rescue layer: expected a build machine with {arch}, found {}",
        std::env::consts::ARCH
    )]
    OtherMachine { arch: Arch },
    #[error(
        "rescue layer: expected the program /{program}, found none -- install it on this machine: apt-get install {package}"
    )]
    NoProgram {
        program: &'static str,
        package: &'static str,
    },
    /// A library is in none of the directories that the ramdisk's loader searches.
    #[error("rescue layer: /{user} needs the library {library}, which is in none of {}", LIBRARY_DIRECTORIES.map(|directory| format!("/{directory}")).join(", "))]
    NoLibrary {
        /// The program or library that needs `library`.
        user: String,
        library: String,
    },
    /// The kernel or the loader would reject the program or library.
    #[error("rescue layer: {}", path.display())]
    NotElf {
        path: PathBuf,
        #[source]
        source: ElfError,
    },
    #[error("rescue layer: {0}")]
    Path(#[from] PathError),
}

impl RescueLayer {
    /// Finds the programs and their libraries on this machine. The machine must have the
    /// architecture of the hosts.
    pub fn of_this_machine(arch: Arch) -> Result<Self, RescueLayerError> {
        if Arch::of_this_machine() != Some(arch) {
            return Err(RescueLayerError::OtherMachine { arch });
        }
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
    /// The dynamic loader. `None` for a library or a static program.
    loader: Option<String>,
    /// The file names of the libraries, without directories.
    libraries: Vec<String>,
}

fn loads(path: &Path) -> Result<Loads, RescueLayerError> {
    let file = File::open(path).map_err(PathError::new("cannot open", path))?;
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

/// The offsets in `.dynstr` of the names of the libraries. An entry of `.dynamic` is a
/// tag and a value, each of 64 bits.
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

/// The text up to the NUL; empty if the offset is out of range.
fn text_at(bytes: &[u8], offset: usize) -> String {
    let rest = bytes.get(offset..).unwrap_or_default();
    let text = rest.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests;
