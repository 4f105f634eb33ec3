//! Digests in the format of sha256sum(1).

/// A line such as `HEX  NAME`. Bifrost, Kolla and OpenStack-Ansible look for the
/// name after two spaces.
#[must_use]
pub fn line(sha256: &str, name: &str) -> String {
    format!("{sha256}  {name}\n")
}

/// Lines for several files, sorted by name. Each item is a name and its digest in
/// hexadecimal.
#[must_use]
pub fn list<'a>(digests: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut named: Vec<_> = digests.into_iter().collect();
    named.sort_unstable();
    named
        .into_iter()
        .map(|(name, sha256)| line(sha256, name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_initramfs::digest_writer::sha256;
    use std::process::Command;

    #[test]
    fn sha256sum_accepts_the_list() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("d")).unwrap();
        let files = [("d/b", "two"), ("a", "one")];
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let digests = files.map(|(name, text)| (name, sha256(text.as_bytes())));
        let text = list(digests.iter().map(|(name, digest)| (*name, &**digest)));
        let check = |text: &str| {
            std::fs::write(directory.path().join("SHA256SUMS"), text).unwrap();
            let mut command = Command::new("sha256sum");
            command.args(["--check", "--strict", "SHA256SUMS"]);
            command.current_dir(directory.path()).output().unwrap()
        };
        let good = check(&text);
        assert!(good.status.success());
        assert_eq!(String::from_utf8_lossy(&good.stdout), "a: OK\nd/b: OK\n");
        let other = text.replace(&digests[0].1, &digests[1].1);
        assert!(!check(&other).status.success());
    }
}
