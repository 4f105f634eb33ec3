//! Asks dpkg which installed package a file comes from.

use std::collections::BTreeMap;
use std::process::Command;

use landfall_release::cyclonedx::{Component, Kind};

/// An installed package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Installed {
    pub(super) name: String,
    version: String,
    architecture: String,
}

impl Installed {
    pub(super) fn component(&self, kind: Kind) -> Component {
        Component::of_debian_package(kind, &self.name, &self.version, &self.architecture)
    }
}

/// Returns the installed package of each path. Leaves out paths that belong to no
/// package. Without dpkg the result is empty.
pub(super) fn owners(paths: &[String]) -> BTreeMap<String, Installed> {
    if paths.is_empty() {
        return BTreeMap::new();
    }
    let owners = by_path(&dpkg_query(&["-S"], paths));
    let mut names: Vec<String> = owners.values().cloned().collect();
    names.sort_unstable();
    names.dedup();
    let format = "${Package}\t${Version}\t${Architecture}\n";
    let installed = by_name(&dpkg_query(&["-W", "-f", format], &names));
    let named = owners.into_iter();
    named
        .filter_map(|(path, name)| Some((path, installed.get(&name)?.clone())))
        .collect()
}

/// Returns what dpkg-query prints. Its exit status is ignored: it fails if one of the
/// paths belongs to no package, but still prints the packages of the other paths.
fn dpkg_query(options: &[&str], names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let mut command = Command::new("dpkg-query");
    command.args(options).arg("--").args(names);
    let output = command.env("LC_ALL", "C").output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// Parses `dpkg-query -S`: lines such as `grub-pc-bin: /usr/lib/grub/i386-pc/boot.img`
/// and `a:amd64, b: /lib`. Returns the name of the first package of each path.
fn by_path(text: &str) -> BTreeMap<String, String> {
    let lines = text
        .lines()
        .filter(|line| !line.starts_with("diversion by "));
    let pairs = lines.filter_map(|line| {
        let (names, path) = line.split_once(": /")?;
        let first = names.split([',', ':']).next()?;
        Some((format!("/{path}"), first.to_owned()))
    });
    pairs.collect()
}

fn by_name(text: &str) -> BTreeMap<String, Installed> {
    let rows = text.lines().filter_map(|line| {
        let mut fields = line.split('\t').map(str::to_owned);
        let (name, version, architecture) = (fields.next()?, fields.next()?, fields.next()?);
        (!version.is_empty()).then(|| {
            let installed = Installed {
                name: name.clone(),
                version,
                architecture,
            };
            (name, installed)
        })
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_dpkg() {
        let found = by_path(
            "diversion by dash from: /bin/sh\ndiversion by dash to: /bin/sh.distrib\n\
             dash: /bin/sh\nlibc6:amd64, libc6:i386: /lib/x: y\nno line\n",
        );
        let expected = [("/bin/sh", "dash"), ("/lib/x: y", "libc6")];
        let expected = expected.map(|(path, name)| (path.to_owned(), name.to_owned()));
        assert_eq!(found, expected.into());
        let rows = by_name("a\t1:2\tamd64\nremoved\t\t\n");
        assert_eq!(rows.len(), 1);
        assert_eq!(rows["a"].version, "1:2");
    }

    #[test]
    fn this_machine_has_dpkg() {
        let paths = ["/usr/bin/dpkg-query", "/no/such/file"].map(str::to_owned);
        let owners = owners(&paths);
        assert_eq!(owners.len(), 1);
        assert_eq!(owners["/usr/bin/dpkg-query"].name, "dpkg");
        assert!(super::owners(&[]).is_empty());
    }
}
