//! Defines the options of an installation, with the same names as in coreos-installer.
//! The command line, config files and the kernel arguments `coreos.inst.*` share them.
//! Nothing is read here.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use landfall_boot_params::digest::Digest;
use landfall_handover::console::Console;
use landfall_report::failure::{Failure, Result};

/// The default of `--stream-base-url`.
pub const STREAM_BASE_URL: &str = "https://builds.coreos.fedoraproject.org/streams/";

/// The default of `--network-dir`.
pub const NETWORK_DIR: &str = "/etc/NetworkManager/system-connections/";

/// How often the agent retries a server that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchRetries {
    /// Number of retries without progress. With 0, a broken connection is final.
    Times(u32),
    Infinite,
}

impl FromStr for FetchRetries {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        if text == "infinite" {
            return Ok(Self::Infinite);
        }
        text.parse().map(Self::Times).map_err(|_| {
            Failure::invalid_params(format!("expected a number or infinite, found {text:?}"))
        })
    }
}

/// The options of one source, or of all sources merged ([`InstallOptions::over`]). Each
/// field has the value of the long option with the same name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct InstallOptions {
    /// CoreOS stream whose newest image is installed, e.g. stable
    #[arg(short, long, value_name = "NAME", help_heading = "Image")]
    #[arg(conflicts_with_all = ["image_url", "image_file", "offline"])]
    pub stream: Option<String>,
    /// Image to write: raw or qcow2, plain or packed; repeat for mirrors
    #[arg(short = 'u', long, value_name = "URL", help_heading = "Image")]
    #[arg(conflicts_with_all = ["image_file", "offline"])]
    pub image_url: Vec<String>,
    /// Image to write, in a file of this machine
    #[arg(short = 'f', long, value_name = "PATH", help_heading = "Image")]
    #[arg(conflicts_with = "offline")]
    pub image_file: Option<PathBuf>,
    /// Digest of the image file, e.g. sha256:0123...; no signature is needed
    #[arg(long, value_name = "ALGORITHM:HEX", help_heading = "Image")]
    pub image_digest: Option<Digest>,
    /// Take the image from the medium that this machine was booted from
    #[arg(long, help_heading = "Image")]
    pub offline: bool,
    /// Accept an image without a signature; a bad signature still fails
    #[arg(long, help_heading = "Image")]
    pub insecure: bool,
    /// Base URL of the stream metadata
    #[arg(long, value_name = "URL", help_heading = "Image")]
    pub stream_base_url: Option<String>,
    /// Architecture of a stream's image [default: this machine's]
    #[arg(short, long, value_name = "NAME", help_heading = "Image")]
    pub architecture: Option<String>,
    /// Number of retries if a server fails, or infinite
    #[arg(long, value_name = "N", help_heading = "Image")]
    pub fetch_retries: Option<FetchRetries>,

    /// Ignition config for the installed system
    #[arg(short, long, value_name = "PATH", help_heading = "Installed system")]
    #[arg(alias = "ignition", conflicts_with = "ignition_url")]
    pub ignition_file: Option<PathBuf>,
    /// URL of an Ignition config for the installed system
    #[arg(
        short = 'I',
        long,
        value_name = "URL",
        help_heading = "Installed system"
    )]
    pub ignition_url: Option<String>,
    /// Digest of the Ignition config, sha256-0123... or sha512-0123...
    #[arg(long, value_name = "TYPE-HEX", help_heading = "Installed system")]
    #[arg(value_parser = Digest::from_ignition)]
    pub ignition_hash: Option<Digest>,
    /// Allow an Ignition URL without TLS and without a digest
    #[arg(long, help_heading = "Installed system")]
    pub insecure_ignition: bool,
    /// Ignition platform instead of metal
    #[arg(short, long, value_name = "NAME", help_heading = "Installed system")]
    pub platform: Option<String>,
    /// Console of kernel and boot loader, e.g. ttyS0,115200n8
    #[arg(long, value_name = "SPEC", help_heading = "Installed system")]
    pub console: Vec<Console>,
    /// Add a kernel argument
    #[arg(long, value_name = "ARG", help_heading = "Installed system")]
    pub append_karg: Vec<String>,
    /// Remove a kernel argument
    #[arg(long, value_name = "ARG", help_heading = "Installed system")]
    pub delete_karg: Vec<String>,
    /// Kernel arguments of the first boot only
    #[arg(long, value_name = "ARGS", hide = true)]
    pub firstboot_args: Option<String>,
    /// Copy this machine's NetworkManager keyfiles for the first boot
    #[arg(short = 'n', long, help_heading = "Installed system")]
    pub copy_network: bool,
    /// Directory of the keyfiles for --copy-network
    #[arg(long, value_name = "PATH", help_heading = "Installed system")]
    pub network_dir: Option<PathBuf>,

    /// Keep partitions whose label matches, e.g. 'data*'
    #[arg(long, value_name = "GLOB", help_heading = "Disk")]
    pub save_partlabel: Vec<String>,
    /// Keep partitions by number: 5, 5-7, 5- or -7
    #[arg(long, value_name = "RANGE", help_heading = "Disk")]
    #[arg(allow_hyphen_values = true)]
    pub save_partindex: Vec<String>,
    /// Do not clean the disk after a failure, so that you can inspect it
    #[arg(long, help_heading = "Disk")]
    pub preserve_on_error: bool,
    /// Read every block of the image back and compare, before the disk boots
    ///
    /// This reads the whole unpacked size of the image once more.
    #[arg(long, help_heading = "Disk")]
    pub verify: bool,
    /// Enable IBM Secure IPL (s390x only: refused)
    #[arg(long, hide = true)]
    pub secure_ipl: bool,

    /// Disk to install to; everything on it is lost
    pub dest_device: Option<PathBuf>,
}

impl InstallOptions {
    /// Merges these options with weaker ones. The values in `self` override those in
    /// `weaker`. A flag is set if it is set in either. Lists are joined, with the weaker
    /// values first. If both name an image, the weaker image and its digest are dropped,
    /// because a digest is valid for one file only. The same applies to an Ignition
    /// config.
    #[must_use]
    pub fn over(self, mut weaker: Self) -> Self {
        if self.names_image() && weaker.names_image() {
            weaker.stream = None;
            weaker.image_url.clear();
            weaker.image_file = None;
            weaker.offline = false;
            weaker.image_digest = None;
        }
        if self.names_ignition() && weaker.names_ignition() {
            weaker.ignition_file = None;
            weaker.ignition_url = None;
            weaker.ignition_hash = None;
        }
        Self {
            stream: self.stream.or(weaker.stream),
            image_url: both(weaker.image_url, self.image_url),
            image_file: self.image_file.or(weaker.image_file),
            image_digest: self.image_digest.or(weaker.image_digest),
            offline: self.offline || weaker.offline,
            insecure: self.insecure || weaker.insecure,
            stream_base_url: self.stream_base_url.or(weaker.stream_base_url),
            architecture: self.architecture.or(weaker.architecture),
            fetch_retries: self.fetch_retries.or(weaker.fetch_retries),
            ignition_file: self.ignition_file.or(weaker.ignition_file),
            ignition_url: self.ignition_url.or(weaker.ignition_url),
            ignition_hash: self.ignition_hash.or(weaker.ignition_hash),
            insecure_ignition: self.insecure_ignition || weaker.insecure_ignition,
            platform: self.platform.or(weaker.platform),
            console: both(weaker.console, self.console),
            append_karg: both(weaker.append_karg, self.append_karg),
            delete_karg: both(weaker.delete_karg, self.delete_karg),
            firstboot_args: self.firstboot_args.or(weaker.firstboot_args),
            copy_network: self.copy_network || weaker.copy_network,
            network_dir: self.network_dir.or(weaker.network_dir),
            save_partlabel: both(weaker.save_partlabel, self.save_partlabel),
            save_partindex: both(weaker.save_partindex, self.save_partindex),
            preserve_on_error: self.preserve_on_error || weaker.preserve_on_error,
            verify: self.verify || weaker.verify,
            secure_ipl: self.secure_ipl || weaker.secure_ipl,
            dest_device: self.dest_device.or(weaker.dest_device),
        }
    }

    /// Whether the installation uses the image of the boot medium, if there is one.
    pub fn may_take_own_image(&self) -> bool {
        self.stream.is_none() && self.image_url.is_empty() && self.image_file.is_none()
    }

    /// Whether the options name an image.
    pub fn names_image(&self) -> bool {
        self.offline || !self.may_take_own_image()
    }

    fn names_ignition(&self) -> bool {
        self.ignition_file.is_some() || self.ignition_url.is_some()
    }
}

fn both<T>(mut first: Vec<T>, second: Vec<T>) -> Vec<T> {
    first.extend(second);
    first
}
