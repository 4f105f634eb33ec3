//! `mount` and `df`: the mounted file systems, and how full they are.

use std::fmt::Write as _;

use nix::sys::statvfs::statvfs;

/// A line of /proc/self/mounts (fstab(5)), with the octal escapes resolved.
struct Mount {
    source: String,
    target: String,
    kind: String,
    options: String,
}

fn parse(mounts: &str) -> Vec<Mount> {
    mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace().map(unescape);
            Some(Mount {
                source: words.next()?,
                target: words.next()?,
                kind: words.next()?,
                options: words.next()?,
            })
        })
        .collect()
}

/// Resolves the escapes of a blank (`\040`), a tab, a line break, a `#` and a backslash.
fn unescape(word: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\043", "#"),
        ("\\134", "\\"),
    ]
    .iter()
    .fold(word.to_owned(), |word, (escape, character)| {
        word.replace(escape, character)
    })
}

/// The mounts in the format of mount(8).
pub(super) fn mount(mounts: &str) -> String {
    let mut out = String::new();
    for mount in parse(mounts) {
        let Mount {
            source,
            target,
            kind,
            options,
        } = mount;
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{source} on {target} type {kind} ({options})");
    }
    out
}

/// The space of each file system in the format of df(1) with `-a`. A file
/// system that returns an error has dashes.
pub(super) fn df(mounts: &str) -> String {
    let mut out = format!(
        "{:<20} {:>12} {:>12} {:>12} {:>5} Mounted on\n",
        "Filesystem", "1K-blocks", "Used", "Available", "Use%"
    );
    for Mount { source, target, .. } in parse(mounts) {
        let columns = match statvfs(target.as_str()) {
            Ok(stat) => {
                let kib = |blocks: u64| blocks.saturating_mul(stat.fragment_size()) / 1024;
                let used = stat.blocks().saturating_sub(stat.blocks_free());
                let usable = used + stat.blocks_available();
                let percent = (used * 100)
                    .checked_div(usable)
                    .map_or("-".to_owned(), |percent| format!("{percent}%"));
                [
                    kib(stat.blocks()).to_string(),
                    kib(used).to_string(),
                    kib(stat.blocks_available()).to_string(),
                    percent,
                ]
            }
            Err(_) => ["-", "-", "-", "-"].map(str::to_owned),
        };
        let [size, used, free, percent] = columns;
        let _ = writeln!(
            out,
            "{source:<20} {size:>12} {used:>12} {free:>12} {percent:>5} {target}"
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_shown_as_mount_does() {
        let text =
            "rootfs / rootfs rw,size=1k 0 0\n/dev/sr0 /media/a\\040b\\043 iso9660 ro 0 0\nshort\n";
        assert_eq!(
            mount(text),
            "rootfs on / type rootfs (rw,size=1k)\n/dev/sr0 on /media/a b# type iso9660 (ro)\n"
        );
    }

    #[test]
    fn sizes_are_shown_for_mounts_that_answer() {
        // Nobody can create a directory in /proc.
        let out = df("root / ext4 rw 0 0\nx /proc/landfall ext4 rw 0 0\n");
        let lines: Vec<Vec<&str>> = out
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert!(lines[1][1].parse::<u64>().unwrap() > 1024, "{out}");
        assert!(lines[1][4].ends_with('%'), "{out}");
        assert_eq!(lines[2], ["x", "-", "-", "-", "-", "/proc/landfall"]);
    }
}
