//! The screens that docs/my-host-hangs.md shows as examples, to compare them with the
//! screens of real boots.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

/// The labels whose facts are compared. The text after `NETWORK` depends on the
/// machine, except for the steps that have failed, so it is not in this list.
const LABELS: [&str; 4] = ["NOW", "ERROR", "DISK", "SERVICE"];

/// The column in which a fact without a label begins, and the column in which a step of
/// the way to the service begins (agent/report/src/status_screen/page.rs).
const FACT: usize = 9;
const STEP: usize = 11;

/// The words in the bottom line of a screen while the operator can change the network
/// in the form.
const OFFER: &str = "press Enter to change the network";

/// What a screen says about its machine, without the values that another machine would not
/// have.
#[derive(Debug)]
pub(crate) struct ExampleScreen {
    facts: Vec<String>,
    offers_form: bool,
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../agent/report/test_data/status-screen")
}

impl ExampleScreen {
    pub(crate) fn read(name: &str) -> Result<Self> {
        let path = directory().join(name).with_extension("screen");
        let screen = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let example = Self::of(&screen);
        ensure!(
            example.facts.len() > 1,
            "{}: expected two facts or more, found {:?}",
            path.display(),
            example.facts
        );
        Ok(example)
    }

    fn of(screen: &str) -> Self {
        Self {
            facts: facts(screen),
            offers_form: screen.contains(OFFER),
        }
    }

    /// The facts of the example that this screen lacks, and the form if only one of
    /// both screens offers it. Line breaks do not matter.
    pub(crate) fn missing_on(&self, screen: &str) -> Vec<String> {
        let screen = normal(screen);
        let missing = self.facts.iter().filter(|fact| !screen.contains(*fact));
        let mut missing: Vec<String> = missing.cloned().collect();
        match (self.offers_form, screen.contains(OFFER)) {
            (true, false) => missing.push(OFFER.to_owned()),
            (false, true) => missing.push(format!("no {OFFER:?}")),
            (true, true) | (false, false) => {}
        }
        missing
    }
}

/// The facts between the two horizontal lines of a screen, each with its remedy.
fn facts(screen: &str) -> Vec<String> {
    let is_rule = |line: &&str| line.starts_with("--");
    let mut lines = screen.lines().skip_while(|line| !is_rule(line)).skip(1);
    let body: Vec<&str> = lines.by_ref().take_while(|line| !is_rule(line)).collect();
    let mut facts: Vec<(bool, String)> = Vec::new();
    let mut is_network = false;
    for line in body {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        let label = text.split(' ').next().unwrap_or_default();
        let begins = match indent {
            1 => {
                is_network = label == "NETWORK";
                Some(LABELS.contains(&label))
            }
            FACT if is_network => { ["no NIC found", "FAULT "].iter() }
                .any(|start| text.starts_with(start))
                .then_some(true),
            STEP if is_network => Some(text.contains("FAILED: ")),
            _ => None,
        };
        match (begins, facts.last_mut()) {
            (Some(is_compared), _) => facts.push((is_compared, text.to_owned())),
            // The first line of a NIC ends the steps of the NIC above it.
            (None, _) if indent == FACT && is_network && text.contains(": ") => {
                facts.push((false, text.to_owned()));
            }
            (None, Some((_, fact))) => {
                fact.push(' ');
                fact.push_str(text);
            }
            (None, None) => {}
        }
    }
    { facts.into_iter() }
        .filter(|(is_compared, _)| *is_compared)
        .map(|(_, fact)| normal(&fact))
        .collect()
}

/// The text with all values of one kind replaced by the same word. Line breaks and
/// spaces do not count.
fn normal(text: &str) -> String {
    let words: Vec<String> = text.split_whitespace().map(normal_word).collect();
    let text = words.join(" ");
    // A duration counts as one value, whatever its units are.
    let text = text.replace("# h # min", "# s").replace("# min # s", "# s");
    text.replace("KiB/s", "MiB/s")
}

fn normal_word(word: &str) -> String {
    let is_end = |c: char| matches!(c, ':' | ';' | ',' | ')' | '"');
    let core = word.trim_end_matches(is_end);
    let end = &word[core.len()..];
    if let Some(at) = core.find("http") {
        return format!("{}URL{end}", &core[..at]);
    }
    // A device node, or a link to one.
    if let Some((start, _)) = core.split_once("/dev/") {
        return format!("{}/dev/DISK{end}", normal_runs(start));
    }
    let value = core.trim_start_matches(['(', '"', '[']);
    let start = &core[..core.len() - value.len()];
    let is_value = value.contains(|c: char| c.is_ascii_digit()) && { value.chars() }
        .all(|c| c.is_ascii_hexdigit() || matches!(c, ':' | '.' | '-' | '/'));
    if is_value {
        // An address, a digest, a date or a number.
        return format!("{start}#{end}");
    }
    format!("{start}{}{end}", normal_runs(value))
}

/// Replaces the parts that have a digit: names of NICs and serial numbers.
fn normal_runs(text: &str) -> String {
    let parts = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    let part = |part: &str| {
        let name = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        match name.contains(|c: char| c.is_ascii_digit()) {
            true => format!("#{}", &part[name.len()..]),
            false => part.to_owned(),
        }
    };
    parts.map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_are_replaced() {
        for (text, expected) in [
            ("up 1 min 20 s, for 7 s", "up # s, for # s"),
            (
                "https://images.example.org/a.raw.gz: refused",
                "URL: refused",
            ),
            (
                "/dev/sda: serial is \"S4XYNX0A\", wanted \"s== S4XYNX0R\"",
                "/dev/DISK: serial is \"#\", wanted \"s== #\"",
            ),
            ("1788.5 GiB of /dev/nvme0n1", "# GiB of /dev/DISK"),
            (
                "install_dev=/dev/vda; 52:54:00:c0:ff:01 (64 %)",
                "install_dev=/dev/DISK; # (# %)",
            ),
            ("HTTP 409: 2026-01-01 00:00:00 UTC", "HTTP #: # # UTC"),
            (
                "/dev/sda: install_dev=/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_disk0 and",
                "/dev/DISK: install_dev=/dev/DISK and",
            ),
            ("its certificate is bad", "its certificate is bad"),
            ("a\n  b", "a b"),
        ] {
            assert_eq!(normal(text), expected);
        }
    }

    const SCREEN: &str = " Landfall 0.1.0
 QEMU
--------------------
 NOW     looking
         for 3 s
 ERROR   disk: it
         broke (1 s ago)
         -> do this
 NODE    7f0c
 NETWORK by defaults
         eno1: a, to b
         Ethernet1/7
           carrier ok
           DNS     FAILED: no
                   -> try
         eno2: c
           carrier FAILED: none
-- press Enter to change the network -----
[    2.100] network: warning: odd
";

    #[test]
    fn the_facts_of_a_screen_are_those_that_its_cause_makes() {
        assert_eq!(
            facts(SCREEN),
            [
                "NOW looking for # s",
                "ERROR disk: it broke (# s ago) -> do this",
                "DNS FAILED: no -> try",
                "carrier FAILED: none",
            ]
        );
        let example = ExampleScreen::of(SCREEN);
        assert_eq!(example.missing_on(SCREEN), [""; 0]);
        let other = SCREEN.replace("-> try", "-> try it");
        assert_eq!(example.missing_on(&other), [""; 0], "it says more");
        let other = SCREEN.replace("-> do this", "-> do that");
        assert_eq!(
            example.missing_on(&other),
            ["ERROR disk: it broke (# s ago) -> do this"]
        );
    }

    #[test]
    fn a_screen_offers_the_form_if_its_example_does() {
        let without = SCREEN.replace(OFFER, "");
        let example = ExampleScreen::of(SCREEN);
        assert_eq!(example.missing_on(&without), [OFFER]);
        let example = ExampleScreen::of(&without);
        assert_eq!(example.missing_on(&without), [""; 0]);
        assert_eq!(example.missing_on(SCREEN), [format!("no {OFFER:?}")]);
    }

    /// Each example must be compared with a real boot. Otherwise it may show a text
    /// that the program no longer prints.
    #[test]
    fn a_boot_shows_every_example() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e");
        let mut boots = String::new();
        for entry in std::fs::read_dir(sources).unwrap() {
            boots += &std::fs::read_to_string(entry.unwrap().path()).unwrap();
        }
        let mut count = 0;
        for entry in std::fs::read_dir(directory()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|kind| kind == "screen") {
                let name = path.file_stem().unwrap().to_string_lossy();
                ExampleScreen::read(&name).unwrap();
                assert!(boots.contains(&format!("\"{name}\"")), "{name}");
                count += 1;
            }
        }
        assert_eq!(count, 19);
    }
}
