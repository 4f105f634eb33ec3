//! The arguments of `landfall-image release`.

use std::path::PathBuf;

use clap::Args;
use landfall_release::flavor_branch::FlavorBranch;

use super::{KernelArgumentTexts, OutputArguments, RamdiskArguments};

const RELEASE: &str = "RELEASE";

/// Build all files that sites and platforms fetch, and their SBOM.
#[derive(Debug, Args)]
#[command(
    override_usage = "landfall-image release --agent PATH KERNEL [OPTIONS] -o DIR",
    after_help = "\
Example:
  landfall-image release --agent ./landfall-agent \\
      --live-agent ./landfall-agent-live --kernel-package linux-image-amd64 \\
      --module-set server --firmware debian \\
      --name centos9-master --name debian-master -o release

DIR then holds:
  dib/, dib/files/      kernel and ramdisk under the names and in the archives
                        of the Ironic Python Agent, each with .sha256
  landfall.iso          the ISO that `landfall-image iso` makes
  esp.img               for Ironic's setting `bootloader`
  landfall-agent, landfall-image, landfall-image_VERSION_amd64.deb
  oci/                  container images and artefacts; read them with
                        `skopeo copy oci-archive:FILE:NAME docker://...`
  kubernetes.tar.gz     the manifests of the Kubernetes controller
  sbom.cdx.json         what all this is made of (CycloneDX)
  SHA256SUMS

Without --live-agent the container of the agent is left out, without
--builder-packages that of the builder. Both are reported.
The same input gives the same bytes: every timestamp is SOURCE_DATE_EPOCH, or 0."
)]
pub(crate) struct ReleaseArguments {
    #[command(flatten)]
    pub(crate) ramdisk: RamdiskArguments,
    #[command(flatten)]
    pub(crate) kernel_args: KernelArgumentTexts,
    /// Publish as ipa-FLAVOR-BRANCH; may be repeated
    #[arg(long = "name", value_name = "FLAVOR-BRANCH", default_value = concat!("landfall-", env!("CARGO_PKG_VERSION")), hide_default_value = true, help_heading = RELEASE)]
    pub(crate) names: Vec<FlavorBranch>,
    /// Agent for live systems, from `make live-agent`
    #[arg(long, value_name = "PATH", help_heading = RELEASE)]
    pub(crate) live_agent: Option<PathBuf>,
    /// A static landfall-image, not this program
    #[arg(long, value_name = "PATH", help_heading = RELEASE)]
    pub(crate) builder: Option<PathBuf>,
    /// .deb files for the builder's container
    #[arg(long, value_name = "PATH", help_heading = RELEASE)]
    pub(crate) builder_packages: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}
