//! Reads which installation the kernel arguments and the config files order.

use std::path::{Path, PathBuf};
use std::{fs, io};

use landfall_boot_params::digest::Algorithm;
use landfall_boot_params::{BootParams, Checksum, CoreosInst, GivenImageError};
use landfall_installation::{InstallOptions, stream};
use landfall_report::failure::{Failure, Result};
use landfall_settings::Settings;
use reqwest::Url;

/// Directory of the config files on customized boot media.
const CONFIG_DIRECTORY: &str = "/etc/coreos/installer.d";

/// An installation that the boot itself orders, without Ironic.
#[derive(Debug)]
pub struct Order {
    line: CoreosInst,
    files: Vec<PathBuf>,
    /// Whether the machine stays on after the installation instead of rebooting.
    pub(super) skip_reboot: bool,
}

impl Order {
    /// The installation that this boot orders, if any. `None` in a live system, whose own
    /// installer applies `coreos.inst.*`. `None` also if the boot names an Ironic,
    /// because then only Ironic decides what is installed.
    pub fn of(settings: &Settings, is_live_system: bool) -> Option<Self> {
        let line = match settings.embedded.root_device_hints() {
            Ok(None) => CoreosInst::from_command_line(&settings.command_line),
            Ok(Some(_)) | Err(_) => CoreosInst::with_hinted_disk(&settings.command_line),
        };
        if is_live_system {
            if line.is_wanted() {
                tracing::info!(
                    "coreos.inst.* is ignored: the installer of this live system applies it"
                );
            }
            return None;
        }
        let files = config_files(Path::new(CONFIG_DIRECTORY)).unwrap_or_else(|error| {
            tracing::warn!("cannot read {CONFIG_DIRECTORY}: {error}");
            Vec::new()
        });
        if !line.is_wanted() && files.is_empty() {
            warn_all(&line.warnings);
            warn_all(&line.remarks);
            return None;
        }
        if let Some(master) = master(&settings.params) {
            tracing::warn!(
                "{master} is given, so Ironic decides what is installed; coreos.inst.* is ignored"
            );
            return None;
        }
        Some(Self {
            skip_reboot: line.skip_reboot,
            line,
            files,
        })
    }

    /// Whether the kernel arguments leave the choice of the disk to root device hints.
    /// Never true for an order that comes only from config files, because the kernel
    /// arguments may name the disk in a misspelt argument.
    pub(super) fn uses_hints(&self) -> bool {
        self.line.uses_hints
    }

    /// Reports on the console what is going to happen.
    pub(super) fn report(&self) {
        for (key, value) in self.line.list() {
            tracing::info!("{key} = {value}");
        }
        for file in &self.files {
            tracing::info!("config file {}", file.display());
        }
        warn_all(&self.line.warnings);
        if self.line.legacy && self.line.image_url.is_some() && self.line.image_digest.is_none() {
            tracing::warn!(
                "coreos.inst=yes: the image is not verified, as with the old installer -- give landfall.coreos.inst.image_digest=sha256:..."
            );
        }
    }

    /// The order as options of an installation. The error says which part of the order is
    /// invalid.
    pub(super) fn options(&self) -> Result<InstallOptions> {
        let files = InstallOptions::from_config_files(&self.files)?;
        Ok(InstallOptions::from_boot_line(&self.line)?.over(files))
    }

    /// If the options name no image, takes the one of `landfall.coreos.image`.
    ///
    /// # Errors
    /// If the arguments of the image are invalid, if its checksum is an MD5 and MD5 is
    /// disabled, if the checksum is not a digest (only Ironic's steps accept a checksum
    /// file), or if two sources give different digests.
    pub(super) fn fill_in_image(
        &self,
        options: &mut InstallOptions,
        params: &BootParams,
    ) -> Result<()> {
        if options.names_image() {
            return Ok(());
        }
        let invalid = |fault: GivenImageError| Failure::invalid_params(fault.to_string());
        let Some(image) = params.given_image().map_err(invalid)? else {
            return Ok(());
        };
        let digest = match image.checksum {
            None => None,
            // If a digest is given without an algorithm, its length determines the
            // algorithm. So half of a SHA-256 digest would count as an MD5 digest.
            Some(Checksum::Digest(digest))
                if digest.algorithm() == Algorithm::Md5 && !*params.md5_enabled =>
            {
                return Err(Failure::invalid_params(
                    "landfall.coreos.image_checksum: expected a digest of SHA-2 or SHA-3, found one of MD5",
                )
                .hint("give a sha256 or sha512 digest, or set md5_enabled in the agent's configuration"));
            }
            Some(Checksum::Digest(digest)) => Some(digest),
            Some(Checksum::File { url, .. }) => {
                return Err(Failure::invalid_params(format!(
                    "landfall.coreos.image_checksum: expected ALGORITHM:HEX, e.g. sha256:0123..., found {url:?}"
                )));
            }
        };
        if let (Some(digest), Some(other)) = (&digest, &options.image_digest)
            && digest != other
        {
            return Err(Failure::invalid_params(format!(
                "landfall.coreos.image: expected one checksum, found {digest} and the image digest {other}"
            )));
        }
        options.image_digest = digest.or(options.image_digest.take());
        options.image_url = image.urls;
        Ok(())
    }

    /// Checks that an order of the old installer names an image. `has_own_image` says
    /// whether the boot medium holds an image.
    ///
    /// # Errors
    /// If the kernel arguments are those of the old installer, and the image would have
    /// to come from a stream: the old installer did not support streams.
    pub(super) fn refuse_stream(
        &self,
        options: &InstallOptions,
        has_own_image: bool,
    ) -> Result<()> {
        if self.line.legacy && !options.names_image() && !has_own_image {
            return Err(Failure::invalid_params(
                "coreos.inst=yes: expected coreos.inst.image_url=URL as well, found none",
            ));
        }
        Ok(())
    }
}

/// The argument that makes Ironic decide instead of `coreos.inst.*`.
fn master(params: &BootParams) -> Option<&'static str> {
    if params.api_url.is_some() {
        Some("ipa-api-url")
    } else if params.inspection_callback_url.is_some() {
        Some("ipa-inspection-callback-url")
    } else if *params.use_mdns {
        Some("ipa-use-mdns")
    } else {
        None
    }
}

/// A server that has a file for the installation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Server {
    /// Name of the server on the console.
    pub(super) what: &'static str,
    /// URLs of the file. Any one of them is enough.
    pub(super) urls: Vec<String>,
}

/// The servers that the installation needs, each once. The image server comes last,
/// because most data comes from there, and the agent prefers the NIC that reaches the
/// last server. `has_own_image` says whether the boot medium holds an image. Fails if a
/// URL is invalid.
pub(super) fn servers(options: &InstallOptions, has_own_image: bool) -> Result<Vec<Server>> {
    let image = match (&options.image_url[..], &options.image_file) {
        ([_, ..], _) => Some(("image server", options.image_url.clone())),
        ([], Some(_)) => None,
        ([], None) if has_own_image || options.offline => None,
        ([], None) => Some(("stream server", vec![stream::url_of(options)?])),
    };
    let ignition = options.ignition_url.clone();
    let ignition = ignition.map(|url| ("server of the Ignition config", vec![url]));
    let mut servers: Vec<Server> = Vec::new();
    let mut known = Vec::new();
    for (what, urls) in image.into_iter().chain(ignition) {
        let parsed: Vec<Url> = { urls.iter().map(|url| parsed(url)) }.collect::<Result<_>>()?;
        // A file in this ramdisk needs no server.
        if parsed.iter().any(|url| url.host().is_none()) {
            continue;
        }
        let origins: Vec<_> = parsed.iter().map(Url::origin).collect();
        if origins.iter().any(|origin| !known.contains(origin)) {
            servers.push(Server { what, urls });
            known.extend(origins);
        }
    }
    servers.reverse();
    Ok(servers)
}

fn parsed(url: &str) -> Result<Url> {
    Url::parse(url).map_err(|error| {
        Failure::invalid_params(format!("{}: {error}", landfall_download::fetch::shown(url)))
    })
}

/// The files of the directory, sorted by name. Empty if there is no such directory.
fn config_files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn warn_all(warnings: &[String]) {
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}

#[cfg(test)]
mod tests;
