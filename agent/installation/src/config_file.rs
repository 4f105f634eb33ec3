//! Reads config files of an installation: YAML whose keys are the long options, in
//! the format of coreos-installer. A list repeats its option; `true` sets a flag.
//!
//! A file becomes arguments for the parser of the command line, so a config file and the
//! command line accept the same values.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, CommandFactory as _, Parser};
use landfall_network_plan::from_nmstate::yaml_to_json;
use landfall_report::failure::{Failure, Result};
use serde_json::Value;

use crate::options::InstallOptions;

/// Size limit of a config file in bytes. A file with every option has 2 KB.
const LIMIT: u64 = 256 << 10;

/// Options that are valid only on the command line.
const NOT_IN_A_FILE: [&str; 2] = ["config-file", "firstboot-args"];

/// The options of an installation, without the options that only the sub-command
/// `install` has.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Layer {
    #[command(flatten)]
    options: InstallOptions,
}

impl InstallOptions {
    /// Reads the files and merges their options with [`Self::over`]; a later file takes
    /// precedence.
    ///
    /// # Errors
    /// If a file cannot be read, is not a mapping of known options to values, or has an
    /// invalid value.
    pub fn from_config_files(paths: &[impl AsRef<Path>]) -> Result<Self> {
        let mut options = Self::default();
        for path in paths {
            let path = path.as_ref();
            let layer = read(path).and_then(|text| parse(&text)).map_err(|reason| {
                Failure::invalid_params(format!("config file {}: {reason}", path.display()))
            })?;
            options = layer.over(options);
        }
        Ok(options)
    }

    /// Parses the text of one file. If a key is at fault, the error names it.
    pub fn from_config(text: &str) -> Result<Self> {
        parse(text).map_err(Failure::invalid_params)
    }
}

fn parse(text: &str) -> std::result::Result<InstallOptions, String> {
    let keys = match yaml_to_json(text).map_err(|error| error.to_string())? {
        Value::Object(keys) => keys,
        Value::Null => return Ok(InstallOptions::default()),
        other => return Err(format!("expected a mapping of options, found {other}")),
    };
    let command = Layer::command();
    let mut arguments = Vec::new();
    for (key, value) in &keys {
        if NOT_IN_A_FILE.contains(&&key[..]) {
            return Err(format!("{key}: not allowed in a config file"));
        }
        let known = command
            .get_arguments()
            .find(|known| is_called(known, key))
            .ok_or_else(|| unknown(key))?;
        to_arguments(known, key, value, &mut arguments)
            .map_err(|reason| format!("{key}: {reason}"))?;
    }
    Layer::try_parse_from(arguments)
        .map(|layer| layer.options)
        .map_err(|error| in_one_line(&error))
}

fn read(path: &Path) -> std::result::Result<String, String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LIMIT + 1).read_to_end(&mut bytes))
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > LIMIT {
        return Err(format!("expected at most {LIMIT} bytes, found more"));
    }
    String::from_utf8(bytes).map_err(|_| "expected text, found something else".to_owned())
}

/// Whether `key` in a config file names this option. The destination is a positional
/// argument on the command line, and has the key `dest-device` in a config file.
fn is_called(known: &Arg, key: &str) -> bool {
    match known.get_long() {
        Some(long) => {
            let aliases = known.get_all_aliases().unwrap_or_default();
            long == key || aliases.contains(&key)
        }
        None => key == "dest-device",
    }
}

fn to_arguments(
    known: &Arg,
    key: &str,
    value: &Value,
    arguments: &mut Vec<String>,
) -> std::result::Result<(), String> {
    let is_list = matches!(known.get_action(), ArgAction::Append);
    match (known.get_action(), value) {
        (_, Value::Null) => {}
        (ArgAction::SetTrue, Value::Bool(given)) => {
            arguments.extend(given.then(|| format!("--{key}")));
        }
        (ArgAction::SetTrue, other) => {
            return Err(format!("expected true or false, found {other}"));
        }
        (_, Value::Array(values)) if is_list => {
            for value in values {
                arguments.push(argument(known, key, value)?);
            }
        }
        (_, value) => arguments.push(argument(known, key, value)?),
    }
    Ok(())
}

fn argument(known: &Arg, key: &str, value: &Value) -> std::result::Result<String, String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_u64() || number.is_i64() => number.to_string(),
        other => return Err(format!("expected text, found {other}")),
    };
    match known.get_long() {
        Some(_) => Ok(format!("--{key}={text}")),
        // The parser of the command line would parse the text as an option.
        None if text.starts_with('-') => Err(format!("expected a device, found {text:?}")),
        None => Ok(text),
    }
}

/// The message for an unknown key. It suggests the nearest known option.
fn unknown(key: &str) -> String {
    let tried = Layer::try_parse_from([format!("--{key}")]);
    let nearest = tried.err().and_then(|error| {
        let found = error.get(ContextKind::SuggestedArg)?.clone();
        match found {
            ContextValue::String(name) => Some(name.trim_start_matches('-').to_owned()),
            _ => None,
        }
    });
    match nearest {
        Some(nearest) => {
            format!("expected a long option of install, found {key:?}; is {nearest:?} meant?")
        }
        None => format!("expected a long option of install, found {key:?}"),
    }
}

/// The first line of a clap error; clap writes several lines for a terminal.
fn in_one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    first.trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests;
