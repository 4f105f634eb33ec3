//! Finds the Debian package that has a firmware file.
//!
//! The list was generated from the packages: versions 20230210-5 and 20250410-2 of
//! firmware-nonfree, 20200122-1 and 20241210-2 of firmware-free. It contains the files
//! that drivers of wired network cards, disk controllers and accelerators may request. A
//! line contains a path, its package in Debian 12 and its package in Debian 13. If both
//! packages have the same name, the line contains the name once. `-` means that no
//! package of that Debian version has the file.

use std::collections::BTreeSet;

use landfall_module_index::pattern;

const LIST: &str = include_str!("debian_packages.txt");

/// The names of all packages.
pub(super) fn names() -> BTreeSet<&'static str> {
    let words = LIST.lines().flat_map(|line| line.split(' ').skip(1));
    words.filter(|word| *word != "-").collect()
}

/// The package of a file. For a pattern, the package of the first file that matches.
#[must_use]
pub fn package_of(declared: &str) -> Option<String> {
    let is_pattern = pattern::has_wildcards(declared);
    let line = LIST.lines().find_map(|line| {
        let (path, packages) = line.split_once(' ')?;
        let fits = match is_pattern {
            true => pattern::matches(declared.as_bytes(), path.as_bytes()),
            false => path == declared,
        };
        fits.then_some(packages)
    })?;
    Some(match line.split_once(' ') {
        None => line.to_owned(),
        Some(("-", newer)) => format!("{newer} (Debian 13)"),
        Some((older, "-")) => format!("{older} (Debian 12)"),
        Some((older, newer)) => format!("{older} (Debian 12), {newer} (Debian 13)"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_packages() {
        for (declared, package) in [
            ("bnx2x/bnx2x-e1-7.13.21.0.fw", Some("firmware-bnx2x")),
            (
                "intel/ice/ddp/ice.pkg",
                Some("firmware-misc-nonfree (Debian 12), firmware-intel-misc (Debian 13)"),
            ),
            (
                "cxgb4/t6fw-1.27.1.0.bin",
                Some("firmware-misc-nonfree (Debian 12)"),
            ),
            ("rtl_nic/*.fw", Some("firmware-realtek")),
            ("no/such.fw", None),
            ("bnx2x", None),
        ] {
            assert_eq!(package_of(declared).as_deref(), package, "{declared}");
        }
    }

    #[test]
    fn every_line_is_a_path_and_packages() {
        for line in LIST.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            assert!((2..=3).contains(&words.len()), "{line}");
            let is_package = |word: &&str| *word == "-" || word.starts_with("firmware-");
            assert!(words[1..].iter().all(is_package), "{line}");
        }
    }
}
