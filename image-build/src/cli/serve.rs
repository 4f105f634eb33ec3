//! The arguments of `landfall-image serve`.

use clap::Args;

use super::{HostArguments, ServiceArguments};

/// Serve each host its own ISO and ramdisk over HTTP.
#[derive(Debug, Args)]
#[command(
    override_usage = "landfall-image serve --iso BASE.iso --hosts DIR [OPTIONS]",
    after_help = "\
Example:
  landfall-image serve --iso landfall.iso --hosts ./hosts \\
      --listen 192.0.2.1:8080 --public-url http://192.0.2.1:8080
  curl -I http://192.0.2.1:8080/node1.iso

The service copies the base files into memory once, and makes the few bytes of a
host when a client asks for them. It serves:
  /NAME.iso        the ISO with the host's network; with Range
  /ID/NAME.iso     one version of it; --public-url prints these URLs
  /NAME.initramfs  the ramdisk with the host's network
  /NAME.ipxe       an iPXE script that loads kernel and ramdisk
  /vmlinuz         the kernel
  /                a page for browsers: hosts, images, networks, who read what
  /status.json     who read what, and when
  /metrics         for Prometheus
  /healthz /readyz for Kubernetes and load balancers
It keeps no state: run any number of copies behind a load balancer or a cache.
A change of the hosts' files takes effect at once; SIGHUP also reads a new base.
If there is any fault, all hosts keep their old content."
)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    pub(crate) service: ServiceArguments,
    #[command(flatten)]
    pub(crate) hosts: HostArguments,
    /// Read the hosts' files again only after SIGHUP
    #[arg(long)]
    pub(crate) no_watch: bool,
}
