//! The arguments that `landfall-image serve` and `landfall-image controller` share: both
//! run the image service.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use landfall_image_service::PublicUrl;

use super::SiteChangeArguments;

const LISTENERS: &str = "ADDRESSES";

#[derive(Debug, Clone, Args)]
pub(crate) struct ServiceArguments {
    /// The base ISO
    #[arg(long, value_name = "FILE")]
    pub(crate) iso: PathBuf,
    /// Kernel and ramdisk for network boot (default: those of the ISO)
    #[arg(long, value_name = "DIR")]
    pub(crate) pxe: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) site: SiteChangeArguments,
    /// For http; may be repeated (default [::]:8080)
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = LISTENERS)]
    pub(crate) listen: Vec<SocketAddr>,
    /// For https; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT", requires = "tls_cert", help_heading = LISTENERS)]
    pub(crate) tls_listen: Vec<SocketAddr>,
    /// Certificate chain (a PEM file)
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = LISTENERS)]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its private key (a PEM file)
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = LISTENERS)]
    pub(crate) tls_key: Option<PathBuf>,
    /// Show the page, status and metrics only here
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = LISTENERS)]
    pub(crate) status_listen: Option<SocketAddr>,
    /// How clients reach the service: http[s]://HOST[:PORT]
    #[arg(long, value_name = "URL", help_heading = LISTENERS)]
    pub(crate) public_url: Option<PublicUrl>,
    /// Open connections at most
    #[arg(long, value_name = "COUNT", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) max_connections: u32,
    /// Processor threads (default: one for each core)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Option<u16>,
}
