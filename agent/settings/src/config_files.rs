//! Finds and reads the configuration files.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use landfall_boot_params::ini_file::MAX_LENGTH;
use landfall_ignition_config::GivenFile;

/// Single files, and directories whose `*.conf` files are read in order of their names.
/// Later places take precedence. The first directory is for the person who builds the
/// ramdisk. The second and third are the directories of the ramdisks of Ironic's agent
/// and of OpenShift. The file is the one that OpenShift's image-customization-controller
/// adds, under the name that it has outside the container.
const PLACES: [&str; 4] = [
    "etc/landfall/",
    "etc/ironic-python-agent.d/",
    "etc/ironic-python-agent/",
    "etc/ironic-python-agent.conf",
];

/// The maximum number of `*.conf` files that are read from one directory.
const FILES: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFile {
    /// The path of the file. It begins with the root whose files are read, or is relative
    /// if a relative path was given.
    pub path: String,
    pub text: String,
    /// What contains this file: an Ignition config or the agent container. `None` for a
    /// file of the system itself.
    pub container: Option<String>,
}

impl ConfigFile {
    /// The source of the file's settings, for messages: the path, and what contains the
    /// file.
    pub fn origin(&self) -> String {
        match &self.container {
            Some(container) => format!("{} in {container}", self.path),
            None => self.path.clone(),
        }
    }
}

/// Configuration files in the order in which they are read. Later files take
/// precedence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigFiles {
    pub files: Vec<ConfigFile>,
    /// The files that could not be read, one line each.
    pub warnings: Vec<String>,
}

impl ConfigFiles {
    /// The files of the system with this root.
    pub fn of_system(root: &Path) -> Self {
        let mut files = Self::default();
        for place in PLACES {
            let path = root.join(place);
            let added = match place.ends_with('/') {
                true => files.add_directory(&path),
                false => files.add(&path),
            };
            // Most systems have none of these files, so a missing one is no fault.
            if let Err(error) = added
                && error.kind() != io::ErrorKind::NotFound
            {
                files
                    .warnings
                    .push(format!("cannot read {}: {error}", path.display()));
            }
        }
        files
    }

    /// Adds the files that `container` contains. Each file replaces the file of the
    /// ramdisk with the same path.
    #[must_use]
    pub fn with_files_of(mut self, container: &str, given: &[GivenFile]) -> Self {
        for GivenFile { path, content } in given {
            self.files.retain(|known| known.path != *path);
            self.files.push(ConfigFile {
                path: path.clone(),
                text: String::from_utf8_lossy(content).into_owned(),
                container: Some(container.to_owned()),
            });
        }
        // Files outside of `PLACES` keep their order and come last, so they take
        // precedence over the files in `PLACES`.
        self.files.sort_by_key(|file| match rank(&file.path) {
            Some(rank) => (rank, file.path.clone()),
            None => (PLACES.len(), String::new()),
        });
        self
    }

    /// Adds every `*.conf` file of a directory, sorted by name.
    ///
    /// # Errors
    /// If the directory cannot be read. Only a warning is added for a file that cannot be
    /// read, and for the files beyond the maximum number, which are ignored.
    pub fn add_directory(&mut self, directory: &Path) -> io::Result<()> {
        let mut paths: Vec<PathBuf> = fs::read_dir(directory)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<_>>()?;
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "conf"));
        paths.sort();
        if paths.len() > FILES {
            self.warnings.push(format!(
                "{}: expected at most {FILES} files, found {}; the rest is ignored",
                directory.display(),
                paths.len()
            ));
            paths.truncate(FILES);
        }
        for path in paths {
            if let Err(error) = self.add(&path) {
                self.warnings
                    .push(format!("cannot read {}: {error}", path.display()));
            }
        }
        Ok(())
    }

    /// # Errors
    /// If the path is not a regular file, or the file cannot be read.
    pub fn add(&mut self, path: &Path) -> io::Result<()> {
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("expected a file"));
        }
        let mut bytes = Vec::new();
        // Read one byte beyond the limit, so that the parser notices a truncated
        // file.
        File::open(path)?
            .take(MAX_LENGTH as u64 + 1)
            .read_to_end(&mut bytes)?;
        self.files.push(ConfigFile {
            path: path.display().to_string(),
            text: String::from_utf8_lossy(&bytes).into_owned(),
            container: None,
        });
        Ok(())
    }
}

/// The index in [`PLACES`] of the place of a file; `None` for a file outside of these
/// places.
fn rank(path: &str) -> Option<usize> {
    let path = path.strip_prefix('/')?;
    PLACES.iter().position(|place| {
        let is_inside = place.ends_with('/') && path.starts_with(place);
        is_inside || path == *place
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_their_order_and_no_others() {
        let root = tempfile::tempdir().unwrap();
        let etc = root.path().join("etc");
        for directory in ["landfall", "ironic-python-agent.d", "ironic-python-agent"] {
            fs::create_dir_all(etc.join(directory).join("sub.conf")).unwrap();
        }
        for name in [
            "ironic-python-agent.conf",
            "ironic-python-agent/00-defaults.conf",
            "ironic-python-agent/ironic.crt",
            "ironic-python-agent.d/b.conf",
            "ironic-python-agent.d/a.conf",
            "landfall/site.conf",
        ] {
            fs::write(etc.join(name), name).unwrap();
        }
        let found = ConfigFiles::of_system(root.path());
        let texts: Vec<_> = found.files.iter().map(|file| file.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "landfall/site.conf",
                "ironic-python-agent.d/a.conf",
                "ironic-python-agent.d/b.conf",
                "ironic-python-agent/00-defaults.conf",
                "ironic-python-agent.conf",
            ]
        );
        assert_eq!(found.warnings.len(), 3, "{:?}", found.warnings);
        assert!(found.warnings[0].ends_with("etc/landfall/sub.conf: expected a file"));
    }

    #[test]
    fn files_of_a_container_take_their_places() {
        let file = |path: &str, container: Option<&str>| ConfigFile {
            path: path.to_owned(),
            text: String::new(),
            container: container.map(str::to_owned),
        };
        let files = ConfigFiles {
            files: vec![
                file("/etc/landfall/site.conf", None),
                file("/etc/ironic-python-agent/b.conf", None),
                file("given.conf", None),
            ],
            warnings: Vec::new(),
        };
        let given = |path: &str| GivenFile {
            path: path.to_owned(),
            content: Vec::new(),
        };
        let paths = [
            "/etc/ironic-python-agent.conf",
            "/etc/ironic-python-agent/b.conf",
            "/etc/ironic-python-agent/a.conf",
        ];
        let found = files.with_files_of("config.ign", &paths.map(given));
        let origins: Vec<_> = found.files.iter().map(ConfigFile::origin).collect();
        assert_eq!(
            origins,
            [
                "/etc/landfall/site.conf",
                "/etc/ironic-python-agent/a.conf in config.ign",
                "/etc/ironic-python-agent/b.conf in config.ign",
                "/etc/ironic-python-agent.conf in config.ign",
                "given.conf",
            ]
        );
    }

    #[test]
    fn most_systems_have_none() {
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(ConfigFiles::of_system(empty.path()), ConfigFiles::default());
    }
}
