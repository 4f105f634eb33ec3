//! Runs NetworkManager's generator and parses its output.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::departures::Version;
use crate::keyfile::Keyfile;

/// The program `nm-initrd-generator`.
pub struct Generator {
    pub program: PathBuf,
    pub version: Version,
    /// A folder without any firmware table, used instead of /sys.
    pub sysfs: PathBuf,
}

/// The generator's result for one command line.
pub struct Generated {
    pub host_name: Option<String>,
    /// Seconds to wait for a carrier.
    pub carrier_timeout: Option<u64>,
    pub profiles: Vec<Keyfile>,
    /// Why some profiles are missing, one message per line, such as `ipv6.dns: this
    /// property is not allowed for 'method=disabled'`.
    pub lost: Vec<String>,
}

impl Generator {
    /// Runs the generator on these arguments. Returns `None` if it crashes, as
    /// NetworkManager 1.42 does on `vlan=`.
    pub fn run(&self, line: &[String]) -> Result<Option<Generated>> {
        let output = Command::new(&self.program)
            .args(["--stdout", "--sysfs-dir"])
            .arg(&self.sysfs)
            .arg("--persistent-connections-dir")
            .arg(self.sysfs.join("missing"))
            .arg("--")
            .args(line)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        if output.status.signal().is_some() {
            return Ok(None);
        }
        if !output.status.success() {
            bail!("{} ended with {}", self.program.display(), output.status);
        }
        Ok(Some(parse(&String::from_utf8_lossy(&output.stdout))))
    }
}

fn parse(text: &str) -> Generated {
    let mut generated = Generated {
        host_name: None,
        carrier_timeout: None,
        profiles: Vec::new(),
        lost: Vec::new(),
    };
    let mut file: Option<Keyfile> = None;
    for line in text.lines().filter(|line| !line.is_empty()) {
        let heading = line
            .strip_prefix("*** ")
            .and_then(|l| l.strip_suffix(" ***"));
        if let Some(heading) = heading {
            finish(file.take(), &mut generated);
            match heading.strip_prefix("Hostname '") {
                Some(name) => generated.host_name = name.strip_suffix('\'').map(str::to_owned),
                None => file = Some(Keyfile::default()),
            }
        } else if line.starts_with('[') || line.contains('=') && !line.contains(": ") {
            if let Some(file) = &mut file {
                file.read_line(line);
            }
        } else {
            generated.lost.push(line.to_owned());
        }
    }
    finish(file, &mut generated);
    generated
}

fn finish(file: Option<Keyfile>, generated: &mut Generated) {
    let Some(file) = file else { return };
    if file.get("connection", "id").is_some() {
        generated.profiles.push(file);
        return;
    }
    let carrier = file.get("device-15-carrier-timeout", "carrier-wait-timeout");
    let milliseconds: Option<u64> = carrier.and_then(|text| text.parse().ok());
    // The generator also writes its default of 10 s. A file with this section has the
    // default, not the value of an argument.
    if file.get(".config", "enable").is_none() {
        generated.carrier_timeout = milliseconds.map(|ms| ms / 1000);
    }
}
