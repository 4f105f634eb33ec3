//! `show-params`: prints every setting, its value and its source.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use landfall_boot_params::agent_args::MAX_PARAMETERS;
use landfall_boot_params::{CoreosInst, Origin};
use landfall_report::failure::{Failure, Result};
use landfall_settings::media::{Media, MediaText};
use landfall_settings::{ConfigFiles, IgnitionParts, Settings};
use serde_json::{Value, json};

use super::command_line_source::CommandLineSource;
use crate::tools::stdout;

/// `show-params`
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    source: CommandLineSource,
    /// Configuration file; later ones override earlier ones
    #[arg(long, value_name = "FILE")]
    config_file: Vec<PathBuf>,
    /// Its *.conf files in name order, after --config-file
    #[arg(long, value_name = "DIR")]
    config_dir: Vec<PathBuf>,
    /// A parameters.txt; needs boot_method=vmedia
    #[arg(long, value_name = "FILE")]
    parameters: Option<PathBuf>,
    /// A config.ign (Ignition), as CoreOS' tools put it into a ramdisk
    #[arg(long, value_name = "FILE")]
    config_ign: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    fn settings(&self) -> Result<Settings> {
        let settings = self.source.settings()?;
        let has_files = !self.config_file.is_empty() || !self.config_dir.is_empty();
        if !has_files && self.parameters.is_none() && self.config_ign.is_none() {
            return Ok(settings);
        }
        let mut files = ConfigFiles::default();
        for path in &self.config_file {
            files.add(path).map_err(|error| unreadable(path, &error))?;
        }
        for path in &self.config_dir {
            files
                .add_directory(path)
                .map_err(|error| unreadable(path, &error))?;
        }
        let media = self.media(settings.params.is_virtual_media())?;
        let ignition = match &self.config_ign {
            None => IgnitionParts::default(),
            Some(path) => IgnitionParts::read(path)
                .map_err(|error| Failure::other(format!("{}: {error}", path.display())))?,
        };
        Ok(Settings::from_sources(
            settings.command_line,
            media,
            files,
            ignition,
        ))
    }

    /// The content of the file of `--parameters`, as if it were on a medium. As at boot,
    /// the file has an effect only with virtual media; otherwise the result is a warning.
    fn media(&self, is_virtual_media: bool) -> Result<Media> {
        let Some(path) = &self.parameters else {
            return Ok(Media::default());
        };
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_PARAMETERS as u64 + 1).read_to_end(&mut bytes))
            .map_err(|error| unreadable(path, &error))?;
        let device = path.display().to_string();
        if !is_virtual_media {
            return Ok(Media {
                warnings: vec![format!(
                    "{device}: not read without the kernel argument boot_method=vmedia"
                )],
                ..Media::default()
            });
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Media {
            parameters: Some(MediaText { text, device }),
            ..Media::default()
        })
    }
}

/// Prints the settings. Fails if a given file, or the running kernel's command
/// line, cannot be read.
pub fn run(arguments: &Arguments) -> Result<()> {
    let settings = arguments.settings()?;
    let params = &settings.params;
    let inst = CoreosInst::from_command_line(&settings.command_line);
    let mut warnings = params.warnings.clone();
    warnings.extend(inst.faults.iter().cloned());
    warnings.extend(inst.warnings.iter().cloned());
    warnings.extend(inst.remarks.iter().cloned());
    let not_supported = params.not_supported_yet();
    if arguments.json {
        let row = |key: &str, value: &str, origin: &Origin| json!({"key": key, "value": value, "origin": origin.to_string()});
        let mut list: Vec<Value> = params
            .list()
            .iter()
            .map(|setting| row(setting.key, &setting.value, setting.origin))
            .collect();
        list.extend(unattended(&inst).map(|(key, value, origin)| row(key, &value, &origin)));
        let config = settings.ignition.config.as_ref();
        return stdout::line(json!({
            "settings": list,
            "warnings": warnings,
            "not_supported": not_supported,
            "config_ign": config.map(|config| json!({
                "applied": config.applied,
                "not_applied": config.not_applied,
                "not_needed": config.not_needed,
            })),
        }));
    }
    for setting in params.list() {
        print_row(setting.key, &setting.value, setting.origin)?;
    }
    for (key, value, origin) in unattended(&inst) {
        print_row(key, &value, &origin)?;
    }
    for (heading, lines) in lists_of_config_ign(&settings.ignition) {
        for line in lines {
            stdout::line(format!("config.ign: {heading}: {line}"))?;
        }
    }
    for warning in warnings.iter().chain(&not_supported) {
        tracing::warn!("{warning}");
    }
    Ok(())
}

/// The parts of the config that the agent applies, and the parts that it ignores.
fn lists_of_config_ign(parts: &IgnitionParts) -> Vec<(&'static str, &[String])> {
    let Some(config) = &parts.config else {
        return Vec::new();
    };
    vec![
        ("applied", config.applied.as_slice()),
        ("not applied", config.not_applied.as_slice()),
        ("not needed", config.not_needed.as_slice()),
    ]
}

/// The settings of the installation that the kernel arguments order. They have no
/// defaults, so only settings that are given are listed.
fn unattended(inst: &CoreosInst) -> impl Iterator<Item = (&'static str, String, Origin)> {
    inst.list().into_iter().map(|(key, value)| {
        let origin = Origin::KernelArgument(format!("{key}={value}"));
        (key, value, origin)
    })
}

fn print_row(key: &str, value: &str, origin: &Origin) -> Result<()> {
    stdout::line(format!("{key:44} {value:24} ({origin})"))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::other(format!("cannot read {}: {error}", path.display()))
}
