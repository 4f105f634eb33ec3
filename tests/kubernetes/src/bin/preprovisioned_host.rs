//! Connects a test with the real Ironic to Kubernetes: starts an API server and the
//! controller, creates the resource of one host with its Secret, as baremetal-operator
//! and a user do, and prints the URL of the host's image. Runs until somebody ends it.

#![allow(clippy::print_stdout)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use clap::Parser;
use landfall_kubernetes_tests::{Cluster, NAMESPACE};

const SECRET: &str = "host-network";

#[derive(Parser)]
struct Arguments {
    /// The builder with the feature controller
    #[arg(long)]
    builder: PathBuf,
    /// The base ISO
    #[arg(long)]
    iso: PathBuf,
    /// Address and port of the images
    #[arg(long)]
    listen: String,
    /// The name of the host
    #[arg(long)]
    host: String,
    /// Its network: network_data.json
    #[arg(long)]
    network_data: PathBuf,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let cluster = Cluster::start().await?;
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, cluster.server.kubeconfig("controller")?)?;
    let mut controller = Command::new(&arguments.builder)
        .arg("controller")
        .arg("--iso")
        .arg(&arguments.iso)
        .args(["--listen", &arguments.listen])
        .args(["--public-url", &format!("http://{}", arguments.listen)])
        .args(["--namespace", NAMESPACE, "--lease-namespace", NAMESPACE])
        .env("KUBECONFIG", &kubeconfig)
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("starting {}", arguments.builder.display()))?;
    let network = fs::read_to_string(&arguments.network_data)?;
    cluster.put_secret(SECRET, "networkData", &network).await?;
    cluster.create(&arguments.host, Some(SECRET)).await?;
    let status = cluster.accepted(&arguments.host).await?;
    let url = status["imageUrl"].as_str().context("no imageUrl")?;
    println!("{url}");
    // The test ends this process and all that it has started.
    let ended = tokio::task::spawn_blocking(move || controller.wait()).await??;
    anyhow::bail!("the controller has ended: {ended}")
}
