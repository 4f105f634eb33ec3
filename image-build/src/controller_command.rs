//! Runs the sub-command `landfall-image controller`: the image service, with the
//! hosts of Kubernetes' resources.

mod log;

use anyhow::{Context as _, Result};
use landfall_controller::{Images, command};
use landfall_image_service::{Base, HostStore};

use crate::cli::ControllerArguments;
use crate::report::{Report, megabytes};
use crate::serve_command::{Running, base_files, common_version, runtime, tls};

pub(crate) fn run(arguments: &ControllerArguments) -> Result<()> {
    log::install();
    runtime(&arguments.service)?.block_on(control(arguments))
}

async fn control(arguments: &ControllerArguments) -> Result<()> {
    let report = Report::new(false);
    let service = &arguments.service;
    let public_url = service.public_url.clone();
    let public_url = public_url.context(
        "expected --public-url: the controller writes it into the resources, and BMCs use it",
    )?;
    let tls = tls(service)?;
    report.stage("reading the base");
    let store = HostStore::new(Base::load(&base_files(service))?);
    let base = megabytes(store.base().size());
    let images = Images::new(store.clone(), common_version(service)?, public_url);
    let running = Running::start(service, store, tls.as_ref(), &report)?;
    report.stage(&format!("waiting for the API server, base {base}"));
    let result = command::run(&arguments.controller, images).await;
    // Also after an error: a host may be reading its image.
    running.stop(&report).await;
    Ok(result?)
}
