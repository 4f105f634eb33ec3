//! The arguments of `landfall-image controller`.

use clap::Args;

use super::ServiceArguments;

/// Serve the images of Kubernetes' PreprovisioningImages (metal3).
#[derive(Debug, Args)]
#[command(
    override_usage = "landfall-image controller --iso BASE.iso --public-url URL [OPTIONS]",
    after_help = "\
Example:
  landfall-image controller --iso landfall.iso \\
      --listen 0.0.0.0:8084 --public-url http://192.0.2.1:8084

Takes the place of image-customization-controller: it makes an image for each
PreprovisioningImage, with the network of the Secret that it names, serves the
image, and writes its URL into the resource. Images are as with
`landfall-image serve`; the page, status and metrics are at --status-listen
(default 127.0.0.1:8085), not on the ports for the images. SIGHUP reads the
certificate again. It keeps no state: run several copies, of which one writes to
Kubernetes at a time. The API server's address and credentials come from the
pod's service account, or from KUBECONFIG."
)]
pub(crate) struct ControllerArguments {
    #[command(flatten)]
    pub(crate) service: ServiceArguments,
    #[command(flatten)]
    pub(crate) controller: landfall_controller::command::Arguments,
}
