//! What GRUB would boot from the boot partition of an installed CoreOS: kernel,
//! initrd and arguments of the default entry, those of the first boot included.
//!
//! GRUB's language is not interpreted. What the grub.cfg of CoreOS decides is
//! followed (coreos-assembler, `src/grub.cfg`): the last entry boots, and where
//! `ignition.firstboot` exists its `$ignition_firstboot` holds the network
//! arguments of that file, or else the default ones. Anything that needs more
//! is refused: then GRUB itself decides, after the firmware.

use std::path::{Path, PathBuf};

use crate::failure::Result;
use crate::handover::boot_loader_entry::{last_entry, read_environment};
use crate::handover::file_in_boot::{self, inside, problem, read_if_there};

const GRUB_CFG: &str = "grub2/grub.cfg";
const FIRST_BOOT: &str = "ignition.firstboot";
const NETWORK: &str = "set ignition_network_kcmdline=";
/// grub.cfg, the largest of them, has some 5 KB.
const LIMIT: u64 = 256 << 10;

/// What is booted next.
#[derive(Debug, PartialEq, Eq)]
pub struct NextBoot {
    /// The kernel.
    pub kernel: PathBuf,
    /// The initrds, which follow one another in memory.
    pub initrds: Vec<PathBuf>,
    /// The kernel's arguments.
    pub arguments: String,
}

/// Reads it from a mounted boot partition.
///
/// # Errors
/// If a part is missing, or cannot be understood without GRUB.
pub fn read(boot: &Path) -> Result<NextBoot> {
    let path = last_entry(boot)?;
    let text = file_in_boot::read(&path, LIMIT)?;
    let entry = Entry::parse(&text).map_err(|reason| problem(&path, &reason))?;
    let first_boot = first_boot(boot)?;
    let own = |name: &str| match name {
        "ignition_firstboot" => Some(first_boot.as_str()),
        // Empty until tuned has set them, in a system that runs.
        "tuned_params" | "tuned_initrd" => Some(""),
        _ => None,
    };
    // Often a link into the ESP, which is not looked at without need.
    let environment = match expand(&entry.options, own) {
        Ok(_) => None,
        Err(_) => read_environment(boot)?,
    };
    let value_of = |name: &str| own(name).or_else(|| environment.as_ref()?.1.get(name));
    let expand = |text: &str| expand(text, value_of).map_err(|reason| problem(&path, &reason));
    let initrds = expand(&entry.initrds)?;
    let file = |path: &str| inside(boot, Path::new(path.trim_start_matches('/')));
    Ok(NextBoot {
        kernel: file(&entry.linux)?,
        initrds: initrds.split(' ').map(file).collect::<Result<_>>()?,
        arguments: expand(&entry.options)?,
    })
}

/// What `$ignition_firstboot` holds; empty on a system that was booted before.
fn first_boot(boot: &Path) -> Result<String> {
    let Some((path, text)) = read_if_there(boot, Path::new(FIRST_BOOT), LIMIT)? else {
        return Ok(String::new());
    };
    let said = of_marker(&text).map_err(|reason| problem(&path, &reason))?;
    let network = match said {
        Some(network) => network,
        None => {
            let path = inside(boot, Path::new(GRUB_CFG))?;
            let text = file_in_boot::read(&path, LIMIT)?;
            default_of(&text).map_err(|reason| problem(&path, &reason))?
        }
    };
    Ok(format!("ignition.firstboot {network}")
        .trim_end()
        .to_owned())
}

/// A boot loader entry (Boot Loader Specification, "Type #1"), as far as it is
/// needed here. What is given several times is joined by blanks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    linux: String,
    initrds: String,
    options: String,
}

impl Entry {
    /// Reads the text of one.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn parse(text: &str) -> std::result::Result<Self, String> {
        let of = |key: &str| {
            let values = text.lines().filter_map(|line| {
                let (found, value) = line.trim().split_once([' ', '\t'])?;
                (found == key).then(|| value.trim())
            });
            match values.collect::<Vec<_>>().join(" ") {
                joined if joined.is_empty() => Err(format!("expected a line '{key}', found none")),
                joined => Ok(joined),
            }
        };
        Ok(Self {
            linux: of("linux")?,
            initrds: of("initrd")?,
            options: of("options")?,
        })
    }
}

/// The network arguments that the marker sets, if it does. It is a script: one
/// that does more is not understood.
fn of_marker(text: &str) -> std::result::Result<Option<String>, String> {
    let mut set = None;
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let value = line
            .strip_prefix(NETWORK)
            .ok_or_else(|| format!("expected lines '{NETWORK}...', found {line:?}"))?;
        set = Some(unquoted(value)?);
    }
    Ok(set)
}

/// The network arguments that grub.cfg has for a marker that sets none; the
/// last of several counts, as it would for GRUB.
fn default_of(text: &str) -> std::result::Result<String, String> {
    let mut values = text
        .lines()
        .rev()
        .filter_map(|line| line.trim().strip_prefix(NETWORK));
    values.next().map_or(Ok(String::new()), unquoted)
}

/// The value of an assignment whose quotes, if any, are around all of it.
fn unquoted(value: &str) -> std::result::Result<String, String> {
    let inner = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    let text = match (inner('"'), inner('\'')) {
        (Some(text), _) | (None, Some(text)) => text,
        (None, None) if value.contains(char::is_whitespace) => "\"",
        (None, None) => value,
    };
    let is_plain = |c: char| !matches!(c, '"' | '\'' | '$' | '\\' | ';');
    match text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err(format!("{NETWORK}{value}: only GRUB can read this")),
    }
}

/// The words of a line with the values of GRUB's variables in their places.
///
/// # Errors
/// If a variable is not known, or something else of a script is in there.
pub(crate) fn expand<'a>(
    text: &str,
    value_of: impl Fn(&str) -> Option<&'a str>,
) -> std::result::Result<String, String> {
    let only_grub = |word: &str| format!("{word:?}: only GRUB can read this");
    let mut words = Vec::new();
    for word in text.split_whitespace() {
        match word.strip_prefix('$') {
            Some(name) => {
                let braced = name
                    .strip_prefix('{')
                    .and_then(|name| name.strip_suffix('}'));
                let value = value_of(braced.unwrap_or(name)).ok_or_else(|| only_grub(word))?;
                words.extend(value.split_whitespace());
            }
            None => words.push(word),
        }
    }
    match words
        .iter()
        .find(|word| word.contains(['$', '"', '\'', '\\']))
    {
        Some(word) => Err(only_grub(word)),
        None => Ok(words.join(" ")),
    }
}

/// The arguments of an entry with this script of the first boot, for the fuzzer.
#[cfg(fuzzing)]
pub(crate) fn arguments(entry: &str, script: &str) -> std::result::Result<String, String> {
    let network = match of_marker(script)? {
        Some(network) => network,
        None => default_of(script)?,
    };
    expand(&Entry::parse(entry)?.options, |name| {
        (name == "ignition_firstboot").then_some(network.as_str())
    })
}

#[cfg(test)]
mod tests;
