//! Runs the sub-command `landfall-image coreos-live`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use landfall_boot_params::BootParams;
use landfall_initramfs::digest_writer;
use landfall_initramfs::output_file::OutputFile;
use serde::Serialize;
use sha2::{Digest as _, Sha512};

use crate::cli::CoreosLiveArguments;
use crate::hosts::Hosts;
use crate::live_ignition::{self, AGENT, EmbeddedFile, UNIT};
use crate::report::{Report, megabytes};
use crate::site_configuration::SiteConfiguration;

/// Where the live system gets the settings of the agent. The builder uses the
/// same file name as OpenShift's image-customization-controller, because people
/// look for it there.
const IRONIC_FILE: &str = "/etc/ironic-python-agent.conf";

/// A text that only an agent with the cargo feature live-system contains.
const LIVE_FEATURE: &[u8] = b"org.freedesktop.NetworkManager";

/// The size in bytes of the area for the config in a CoreOS live ISO. The config there is
/// compressed with xz.
const EMBED_AREA: usize = 256 << 10;

#[derive(Serialize)]
struct Summary {
    path: PathBuf,
    bytes: usize,
    agent: &'static str,
    agent_bytes: usize,
    agent_sha512: String,
    unit: &'static str,
    configuration: Vec<String>,
}

/// Fails if the bytes are not those of an agent with the feature live-system.
pub(crate) fn require_live_feature(path: &Path, agent: &[u8]) -> Result<()> {
    ensure!(
        agent
            .windows(LIVE_FEATURE.len())
            .any(|part| part == LIVE_FEATURE),
        "{}: expected an agent with the feature live-system, found a file without it -- build the agent with: make live-agent",
        path.display()
    );
    Ok(())
}

pub(crate) fn run(arguments: &CoreosLiveArguments) -> Result<()> {
    let report = Report::new(arguments.output.json);
    let mut output = OutputFile::create(&arguments.output.output, arguments.output.force)?;
    let site = SiteConfiguration::read(arguments.ca_file.as_deref(), &arguments.config_file)?;
    report.warnings(&site.warnings);
    let hosts = Hosts::read(&arguments.hosts)?;
    report.warnings(&hosts.warnings);
    let agent = fs::read(&arguments.agent)
        .with_context(|| format!("cannot read {}", arguments.agent.display()))?;
    require_live_feature(&arguments.agent, &agent)?;
    let agent_sha512 = digest_writer::hex(&Sha512::digest(&agent));
    let mut files = Vec::new();
    files.extend(ironic_file(arguments, &report));
    let configuration = site.files.into_iter().chain(hosts.files());
    files.extend(configuration.map(|file| EmbeddedFile {
        path: format!("/{}", file.path),
        bytes: file.bytes,
    }));
    let unit = live_ignition::unit(arguments.any_live_system);
    let config = live_ignition::config(&arguments.agent_url, &agent_sha512, &files, &unit);
    let text = format!("{config:#}\n");
    if text.len() > EMBED_AREA {
        report.warnings(&[format!(
            "the config has {} bytes: a live ISO has room for {EMBED_AREA} bytes of compressed config",
            text.len()
        )]);
    }
    output
        .file()
        .write_all(text.as_bytes())
        .with_context(|| format!("cannot write {}", arguments.output.output.display()))?;
    output.finish()?;
    let summary = Summary {
        path: arguments.output.output.clone(),
        bytes: text.len(),
        agent: AGENT,
        agent_bytes: agent.len(),
        agent_sha512,
        unit: UNIT,
        configuration: files.into_iter().map(|file| file.path).collect(),
    };
    report.done(&summary, &summary.text())
}

impl Summary {
    fn text(&self) -> String {
        let configuration = match self.configuration.as_slice() {
            [] => "none".to_owned(),
            paths => paths.join(", "),
        };
        format!(
            "{}: {} bytes\n  agent    {} ({})\n  sha512   {}\n  unit     {}\n  config   {configuration}",
            self.path.display(),
            self.bytes,
            self.agent,
            megabytes(self.agent_bytes as u64),
            self.agent_sha512,
            self.unit,
        )
    }
}

/// The configuration file with the settings from the command line for the connection to
/// Ironic. `None` if the command line has no such setting.
fn ironic_file(arguments: &CoreosLiveArguments, report: &Report) -> Option<EmbeddedFile> {
    let options = [
        ("api_url", arguments.api_url.as_deref()),
        (
            "inspection_callback_url",
            arguments.inspection_callback_url.as_deref(),
        ),
        ("insecure", arguments.insecure.then_some("True")),
    ];
    let mut text = "[DEFAULT]\n".to_owned();
    for (name, value) in options {
        if let Some(value) = value {
            text.push_str(&format!("{name} = {value}\n"));
        }
    }
    // Reports at build time what the agent would warn about at run time.
    let mut params = BootParams::default();
    params.read_file(IRONIC_FILE, &text);
    report.warnings(&params.warnings);
    let has_value = options.iter().any(|(_, value)| value.is_some());
    has_value.then(|| EmbeddedFile {
        path: IRONIC_FILE.to_owned(),
        bytes: text.into_bytes(),
    })
}
