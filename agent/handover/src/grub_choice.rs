//! Predicts what GRUB boots from the boot partition of an installed CoreOS: the
//! kernel, the initrd and the arguments of the default entry, including the arguments
//! of the first boot.
//!
//! This module does not interpret GRUB's language. It only follows the decisions in the
//! grub.cfg of CoreOS (coreos-assembler, `src/grub.cfg`): the last entry boots. If
//! `ignition.firstboot` exists, `$ignition_firstboot` has the network arguments that
//! this file sets, or the default network arguments if it sets none. Anything else is
//! an error; the machine then boots through firmware and GRUB.

use std::path::{Path, PathBuf};

use landfall_report::failure::Result;

use crate::boot_loader_entry::{last_entry, read_environment};
use crate::file_in_boot::{self, inside, problem, read_if_there};

const GRUB_CFG: &str = "grub2/grub.cfg";
const FIRST_BOOT: &str = "ignition.firstboot";
const NETWORK: &str = "set ignition_network_kcmdline=";
/// In bytes. The largest file that this module reads, grub.cfg, has some 5 KB.
const LIMIT: u64 = 256 << 10;

#[derive(Debug, PartialEq, Eq)]
pub struct NextBoot {
    pub kernel: PathBuf,
    /// In the order in which the boot loader places them in memory.
    pub initrds: Vec<PathBuf>,
    pub arguments: String,
}

/// Reads the default entry of a mounted boot partition.
///
/// # Errors
/// If a part of the entry is missing, or if only GRUB can interpret it.
pub fn read(boot: &Path) -> Result<NextBoot> {
    let path = inside(boot, &last_entry(boot)?)?;
    let text = file_in_boot::read(&path, LIMIT)?;
    let entry = Entry::parse(&text).map_err(|reason| problem(&path, &reason))?;
    let first_boot = first_boot(boot)?;
    let own = |name: &str| match name {
        "ignition_firstboot" => Some(first_boot.as_str()),
        // These are empty until tuned sets them in a running system.
        "tuned_params" | "tuned_initrd" => Some(""),
        _ => None,
    };
    // The environment block is often a link into the ESP, which is not mounted here, so
    // reading it fails. The agent reads the block only if the options cannot be
    // expanded without it.
    let environment = match expand(&entry.options, own) {
        Ok(_) => None,
        Err(_) => read_environment(boot)?,
    };
    let value_of = |name: &str| own(name).or_else(|| environment.as_ref()?.get(name));
    let expand = |text: &str| expand(text, value_of).map_err(|reason| problem(&path, &reason));
    let initrds = expand(&entry.initrds)?;
    let file = |path: &str| inside(boot, Path::new(path.trim_start_matches('/')));
    Ok(NextBoot {
        kernel: file(&entry.linux)?,
        initrds: initrds.split(' ').map(file).collect::<Result<_>>()?,
        arguments: expand(&entry.options)?,
    })
}

/// The value of `$ignition_firstboot`; empty after the first boot.
fn first_boot(boot: &Path) -> Result<String> {
    let Some((path, text)) = read_if_there(boot, Path::new(FIRST_BOOT), LIMIT)? else {
        return Ok(String::new());
    };
    let from_marker = of_marker(&text).map_err(|reason| problem(&path, &reason))?;
    let network = match from_marker {
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

/// Why the files do not show what GRUB would boot next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    #[error("expected a line '{0}', found none")]
    NoLine(&'static str),
    #[error("expected lines '{NETWORK}...', found {0:?}")]
    OtherCommand(String),
    #[error("{NETWORK}{0}: expected plain text, found syntax that only GRUB can interpret")]
    Value(String),
    #[error("{0:?}: expected plain text, found syntax that only GRUB can interpret")]
    Word(String),
}

/// The keys of a boot loader entry (Boot Loader Specification, "Type #1") that are
/// needed here. The values of a repeated key are joined with spaces.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Entry {
    linux: String,
    initrds: String,
    pub options: String,
}

impl Entry {
    /// Parses the text of an entry; the error names the missing key.
    pub fn parse(text: &str) -> std::result::Result<Self, ChoiceError> {
        let of = |key: &'static str| {
            let values = text.lines().filter_map(|line| {
                let (found, value) = line.trim().split_once([' ', '\t'])?;
                (found == key).then(|| value.trim())
            });
            match values.collect::<Vec<_>>().join(" ") {
                joined if joined.is_empty() => Err(ChoiceError::NoLine(key)),
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

/// The network arguments that `ignition.firstboot` sets; `None` if it sets none. The file
/// is a GRUB script, and a command that sets anything else is an error.
pub fn of_marker(text: &str) -> std::result::Result<Option<String>, ChoiceError> {
    let mut set = None;
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let value = line
            .strip_prefix(NETWORK)
            .ok_or_else(|| ChoiceError::OtherCommand(line.to_owned()))?;
        set = Some(unquoted(value)?);
    }
    Ok(set)
}

/// The default network arguments in grub.cfg. If grub.cfg sets them several times, the
/// last assignment takes effect, as in GRUB.
pub fn default_of(text: &str) -> std::result::Result<String, ChoiceError> {
    let mut values = text
        .lines()
        .rev()
        .filter_map(|line| line.trim().strip_prefix(NETWORK));
    values.next().map_or(Ok(String::new()), unquoted)
}

/// Removes the quotes of an assignment's value. They must enclose the whole value.
fn unquoted(value: &str) -> std::result::Result<String, ChoiceError> {
    let inner = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    let text = match (inner('"'), inner('\'')) {
        (Some(text), _) | (None, Some(text)) => text,
        (None, None) if value.contains(char::is_whitespace) => "\"",
        (None, None) => value,
    };
    let is_plain = |c: char| !matches!(c, '"' | '\'' | '$' | '\\' | ';');
    match text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err(ChoiceError::Value(value.to_owned())),
    }
}

/// The words of a line, with the values of GRUB's variables inserted.
///
/// # Errors
/// If a variable is unknown, or the line contains other script syntax.
pub fn expand<'a>(
    text: &str,
    value_of: impl Fn(&str) -> Option<&'a str>,
) -> std::result::Result<String, ChoiceError> {
    let only_grub = |word: &str| ChoiceError::Word(word.to_owned());
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

#[cfg(test)]
mod tests;
