//! The options of `landfall-image controller`, and the run of the program.

use std::env;
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use kube::{Client, Config};
use landfall_image_service::{Limits, listen_for};

use crate::controller::Controller;
use crate::images::Images;
use crate::leadership::LeaseSettings;
use crate::settings::Settings;

/// Only the kubelet, Prometheus and an operator connect, and the responses are short.
const HEALTH_LIMITS: Limits = Limits {
    connections: 64,
    quiet: Duration::from_secs(60),
    last_answers: Duration::from_secs(1),
};

const HEADING: &str = "CONTROLLER";

/// What the controller watches, and how its copies agree.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Namespace of the hosts; default: all namespaces
    #[arg(long, value_name = "NAME", env = "WATCH_NAMESPACE", hide_env_values = true, help_heading = HEADING)]
    pub namespace: Option<String>,
    /// Lease of the copy that writes
    #[arg(long, value_name = "NAME", default_value = "landfall-controller", help_heading = HEADING)]
    pub lease: String,
    /// Namespace of the lease; default: that of the pod
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE", hide_env_values = true, help_heading = HEADING)]
    pub lease_namespace: Option<String>,
    /// Name of this copy in the lease; default: the host name
    #[arg(long, value_name = "NAME", env = "POD_NAME", hide_env_values = true, help_heading = HEADING)]
    pub identity: Option<String>,
    /// This is the only copy: use no lease
    #[arg(long, conflicts_with = "lease", help_heading = HEADING)]
    pub no_lease: bool,
    /// Resources that are worked on at the same time
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1000), help_heading = HEADING)]
    pub concurrency: u16,
    /// Kernel arguments for hosts that boot a ramdisk
    #[arg(long, value_name = "TEXT", default_value = "", help_heading = HEADING)]
    pub extra_kernel_params: String,
    /// Address for /healthz, /readyz and /metrics
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8081", help_heading = HEADING)]
    pub health_listen: SocketAddr,
}

/// Why the controller cannot start.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error(
        "cannot find the API server: expected the service account of a pod, KUBECONFIG or ~/.kube/config"
    )]
    Config(#[source] Box<dyn Error + Send + Sync>),
    #[error("cannot use the configuration of the API server")]
    Client(#[source] Box<kube::Error>),
    #[error("cannot listen on {address} for /healthz")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
}

impl Arguments {
    /// The settings of the controller. If the user gives no namespace for the lease,
    /// the lease is in `default_namespace`.
    #[must_use]
    pub fn settings(&self, default_namespace: &str) -> Settings {
        let host_name = || {
            let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            // The process ID makes the name unique among several copies on one machine.
            format!("{}-{}", name.trim(), std::process::id())
        };
        let lease = (!self.no_lease).then(|| {
            let namespace = self.lease_namespace.as_deref().unwrap_or(default_namespace);
            let identity = self.identity.clone().unwrap_or_else(host_name);
            LeaseSettings::new(namespace, &self.lease, &identity)
        });
        Settings {
            // An empty WATCH_NAMESPACE stands for all, as in Go's operators.
            namespace: self.namespace.clone().filter(|name| !name.is_empty()),
            lease,
            extra_kernel_params: self.extra_kernel_params.clone(),
            concurrency: self.concurrency,
            ..Settings::default()
        }
    }
}

/// The API server and how to log in there.
pub struct Cluster(Config);

impl Cluster {
    /// Reads KUBECONFIG, ~/.kube/config or the service account of the pod. Does not
    /// connect to the server.
    ///
    /// # Errors
    /// If none of them exists, or none can be used.
    pub async fn find() -> Result<Self, CommandError> {
        // Without HOME, kube asks the C library for the user's directory. A static
        // program then loads the system's NSS modules, and libnss_systemd ends it with
        // SIGSEGV.
        let may_have_file = ["KUBECONFIG", "HOME"]
            .iter()
            .any(|name| env::var_os(name).is_some());
        let config = match may_have_file {
            true => Config::infer().await.map_err(Into::into),
            false => Config::incluster().map_err(Into::into),
        };
        config.map(Self).map_err(CommandError::Config)
    }
}

/// Runs the controller until the future `stopped` completes.
///
/// # Errors
/// If the configuration of the cluster is damaged, or the address for the health
/// checks cannot be used. An API server that does not answer is no error: the
/// controller waits for it.
pub async fn run(
    cluster: Cluster,
    arguments: &Arguments,
    images: Images,
    stopped: impl Future<Output = ()> + Send + 'static,
) -> Result<(), CommandError> {
    // kube uses the default crypto provider of the process. An error means that a
    // provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let Cluster(config) = cluster;
    let settings = arguments.settings(&config.default_namespace);
    tracing::info!("API server: {}", config.cluster_url);
    let client = Client::try_from(config).map_err(|error| CommandError::Client(Box::new(error)))?;
    let address = arguments.health_listen;
    let listen = |source| CommandError::Listen { address, source };
    let controller = Controller::new(client, images, settings);
    let health = listen_for(address, controller.health(), HEALTH_LIMITS).map_err(listen)?;
    controller.run(stopped).await;
    health.stop().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn settings(line: &str) -> Settings {
        let words = std::iter::once("program").chain(line.split_whitespace());
        let program = Program::try_parse_from(words).unwrap();
        program.arguments.settings("metal3")
    }

    #[test]
    fn the_lease_of_one_of_several_copies() {
        let lease = settings("--identity pod-a").lease.unwrap();
        assert_eq!(lease.namespace, "metal3");
        assert_eq!(lease.name, "landfall-controller");
        assert_eq!(lease.identity, "pod-a");
        assert!(lease.renew_deadline < lease.duration);
        let lease = settings("--lease-namespace a --lease b --identity c")
            .lease
            .unwrap();
        assert_eq!(
            [&lease.namespace, &lease.name, &lease.identity],
            ["a", "b", "c"]
        );
        assert!(settings("--no-lease").lease.is_none());
        assert!(Program::try_parse_from(["program", "--no-lease", "--lease", "a"]).is_err());
    }

    #[test]
    fn an_empty_namespace_stands_for_all() {
        for (line, expected) in [
            ("", None),
            ("--namespace=", None),
            ("--namespace a", Some("a")),
        ] {
            assert_eq!(settings(line).namespace.as_deref(), expected, "{line}");
        }
    }
}
