//! Whether a driver works without its firmware, or works only partly.

use landfall_module_index::pattern;

const TABLE: &str = include_str!("needs.txt");

/// The effect of missing firmware files on a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No card works.
    Needed,
    /// The card works with the firmware in its own flash.
    Flash,
    /// The card works.
    Optional,
}

struct Row {
    verdict: Verdict,
    /// Patterns of files. For each pattern, the driver needs at least one file.
    patterns: Vec<&'static str>,
}

/// The verdict for a module; `None` if its source has not been checked.
#[must_use]
pub fn verdict(module: &str) -> Option<Verdict> {
    row(module).map(|row| row.verdict)
}

/// Whether this driver cannot work, because files that it needs are missing.
pub(super) fn is_unmet(
    module: &str,
    declared: &[String],
    is_missing: impl Fn(&str) -> bool,
) -> bool {
    let Some(row) = row(module).filter(|row| row.verdict == Verdict::Needed) else {
        return false;
    };
    row.patterns.iter().any(|needed| {
        let fits = |file: &&String| pattern::matches(needed.as_bytes(), file.as_bytes());
        let mut files = declared.iter().filter(fits).peekable();
        files.peek().is_some() && files.all(|file| is_missing(file))
    })
}

fn row(module: &str) -> Option<Row> {
    TABLE.lines().find_map(|line| {
        let (words, _reason) = line.split_once('#')?;
        let mut words = words.split_whitespace();
        if words.next()? != module {
            return None;
        }
        let verdict = match words.next()? {
            "needed" => Verdict::Needed,
            "flash" => Verdict::Flash,
            "optional" => Verdict::Optional,
            _ => return None,
        };
        let patterns = words.collect();
        Some(Row { verdict, patterns })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_a_verdict_and_a_reason() {
        let lines = TABLE.lines().filter(|line| !line.is_empty());
        for line in lines.filter(|line| !line.starts_with('#')) {
            let (words, reason) = line.split_once(" # ").unwrap();
            let module = words.split(' ').next().unwrap();
            let row = row(module).unwrap_or_else(|| panic!("{line}"));
            let needed = row.verdict == Verdict::Needed;
            assert_eq!(needed, !row.patterns.is_empty(), "{line}");
            assert!(reason.ends_with(".c)"), "{line}: a source file");
        }
        assert_eq!(verdict("ice"), Some(Verdict::Optional));
        assert_eq!(verdict("virtio_net"), None);
    }

    #[test]
    fn one_version_of_each_kind_is_enough() {
        const BNX2X: [&str; 4] = [
            "bnx2x/bnx2x-e1-7.13.15.0.fw",
            "bnx2x/bnx2x-e1-7.13.21.0.fw",
            "bnx2x/bnx2x-e2-7.13.15.0.fw",
            "bnx2x/bnx2x-e2-7.13.21.0.fw",
        ];
        for (module, missing, expected) in [
            ("bnx2x", &[][..], false),
            ("bnx2x", &[0, 2], false),
            ("bnx2x", &[1, 2], false),
            ("bnx2x", &[0, 1], true),
            ("bnx2x", &[0, 1, 2, 3], true),
            ("ice", &[0, 1, 2, 3], false),
            ("unknown", &[0, 1, 2, 3], false),
        ] {
            let declared = BNX2X.map(str::to_owned);
            let is_missing = |file: &str| missing.iter().any(|&at: &usize| BNX2X[at] == file);
            let found = is_unmet(module, &declared, is_missing);
            assert_eq!(found, expected, "{module} without {missing:?}");
        }
    }
}
