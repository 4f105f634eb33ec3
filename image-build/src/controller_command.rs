//! Runs the sub-command `landfall-image controller`: the image service, with the
//! hosts of Kubernetes' resources.

mod log;
mod served_images;

use std::sync::Arc;

use anyhow::{Context as _, Result};
use landfall_controller::command;
use landfall_image_service::{Base, HostStore};

use crate::cli::ControllerArguments;
use crate::report::{Report, megabytes};
use crate::serve_command::{Running, base_files, common_version, runtime, tls};
use served_images::ServedImages;

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
    let images = ServedImages::new(store.clone(), common_version(service)?, public_url);
    let running = Running::start(service, store.clone(), tls.as_ref(), &report)?;
    report.stage(&format!("waiting for the API server, base {base}"));
    let controlled = command::run(&arguments.controller, Arc::new(images), move || {
        store.set_ready(true);
    });
    // Also after an error: a host may be reading its image.
    let result = controlled.await;
    running.stop(&report).await;
    Ok(result?)
}
