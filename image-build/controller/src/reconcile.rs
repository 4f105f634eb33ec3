//! The next step for one resource. Pure: the same view gives the same step.
//!
//! [`crate::run`] executes the step, puts its result into the view, and requests the
//! next step until that is [`Step::Done`]. The order of the steps is that of
//! baremetal-operator's controller, with two differences that do not change the
//! contract. First, baremetal-operator's controller waits for the event of its own
//! write; Landfall's controller continues with the answer of the API server. Second,
//! Landfall's controller does not write a status that would not change.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::host::Format;
use crate::images::ImageUrls;
use crate::outcome::{Outcome, Wanted};
use crate::resource::{FINALIZER, PreprovisioningImage};
use crate::retry;
use crate::status::{ERROR, NetworkData, READY, Status};

/// What is known about one resource.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) resource: &'a PreprovisioningImage,
    /// This copy holds the lease, so it may write to Kubernetes.
    pub(crate) is_writer: bool,
    /// The formats for the resource's architecture; `None` without a base for it.
    pub(crate) formats: Option<&'a [Format]>,
    pub(crate) secret: &'a SecretView,
    pub(crate) image: &'a ImageView,
    /// The URL under which this copy serves the resource's image.
    pub(crate) published: Option<&'a str>,
    /// Kernel arguments for ramdisks.
    pub(crate) extra_kernel_params: &'a str,
    /// The status that this run wrote last.
    pub(crate) written: Option<&'a Status>,
    pub(crate) now: Timestamp,
}

/// The Secret that the resource names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SecretView {
    NotRead,
    Missing,
    Read { version: String, claim: Claim },
}

/// Whether the resource owns its Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Made,
    Needed,
    /// The Secret has content, but none for a network: it may belong to another program.
    /// If the resource owned the Secret, Kubernetes would delete both together.
    Refused,
}

/// The image for the current state of resource and Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ImageView {
    NotRendered,
    Refused(String),
    Rendered(ImageUrls),
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    AddFinalizer,
    RemoveFinalizer,
    ReadSecret,
    ClaimSecret,
    Render(Wanted),
    Publish,
    Withdraw,
    WriteStatus(Box<Status>),
    Done(Next),
}

/// When the resource is looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    OnChange,
    After(Duration),
}

const WAIT: Step = Step::Done(Next::OnChange);

/// The next step.
pub(crate) fn next_step(view: &View<'_>) -> Step {
    let resource = view.resource;
    if resource.is_being_deleted() {
        // A program that has set another finalizer may still need the image.
        let others = resource.finalizers().iter().any(|name| name != FINALIZER);
        return if others { WAIT } else { release_resource(view) };
    }
    if resource.is_assisted_services() {
        return release_resource(view);
    }
    if !resource.has_finalizer() {
        return if view.is_writer {
            Step::AddFinalizer
        } else {
            WAIT
        };
    }
    match wanted(view) {
        Ok(wanted) => image(view, wanted),
        Err(step) => step,
    }
}

/// The next step for a resource that is being deleted or belongs to assisted-service:
/// first withdraw its image, then remove our finalizer.
fn release_resource(view: &View<'_>) -> Step {
    if view.published.is_some() {
        Step::Withdraw
    } else if view.is_writer && view.resource.has_finalizer() {
        Step::RemoveFinalizer
    } else {
        WAIT
    }
}

/// The input of the image. `Err` contains the next step if the input is not known yet, or
/// if no image is possible.
fn wanted(view: &View<'_>) -> Result<Wanted, Step> {
    let resource = view.resource;
    let configuration_error = |message| write_outcome(view, &Outcome::ConfigurationError(message));
    let Some(formats) = view.formats else {
        return Err(configuration_error("Architecture not supported"));
    };
    let Some(format) = resource.choose_format(formats) else {
        return Err(configuration_error("No acceptable image format supported"));
    };
    Ok(Wanted {
        format,
        architecture: resource.architecture().to_owned(),
        network_data: network_data(view)?,
    })
}

fn network_data(view: &View<'_>) -> Result<NetworkData, Step> {
    let name = view.resource.network_data_name();
    if name.is_empty() {
        return Ok(NetworkData::default());
    }
    match view.secret {
        SecretView::NotRead => Err(Step::ReadSecret),
        SecretView::Missing => Err(write_outcome(view, &Outcome::MissingNetworkData)),
        SecretView::Read {
            claim: Claim::Needed,
            ..
        } if view.is_writer => Err(Step::ClaimSecret),
        SecretView::Read { version, .. } => Ok(NetworkData {
            name: name.to_owned(),
            version: version.clone(),
        }),
    }
}

fn image(view: &View<'_>, wanted: Wanted) -> Step {
    let urls = match view.image {
        ImageView::NotRendered => return Step::Render(wanted),
        ImageView::Refused(reason) => {
            let reason = reason.clone();
            return write_outcome(view, &Outcome::Refused { wanted, reason });
        }
        ImageView::Rendered(urls) => urls,
    };
    // Publishing replaces the host's previous image. Before that, the status must no
    // longer say that the previous URL is ready.
    let status = Status::read(&view.resource.status);
    if status.is_true(READY) && status.image_url != urls.image {
        if view.is_writer {
            return write_outcome(view, &Outcome::ConfigChanged);
        }
        if view.published.is_some() {
            return WAIT;
        }
    }
    if view.published != Some(urls.image.as_str()) {
        return Step::Publish;
    }
    let extra_kernel_params = match wanted.format {
        Format::Iso => String::new(),
        Format::Initrd => view.extra_kernel_params.to_owned(),
    };
    let urls = urls.clone();
    write_outcome(
        view,
        &Outcome::Ready {
            wanted,
            urls,
            extra_kernel_params,
        },
    )
}

/// The step that writes the outcome into the status. If the status already contains the
/// outcome, or if this copy may not write, the run ends.
fn write_outcome(view: &View<'_>, outcome: &Outcome) -> Step {
    let old = Status::read(&view.resource.status);
    let new = outcome.apply(&old, view.resource.generation(), view.now);
    // An API server with an older CRD drops fields that it does not know. Writing
    // them again would not help.
    let is_known = new == old || view.written == Some(&new);
    if view.is_writer && !is_known {
        return Step::WriteStatus(Box::new(new));
    }
    // The watch does not report a Secret that is missing or not claimed, so the
    // controller must read the Secret again after a delay.
    let is_unwatched = match outcome {
        Outcome::MissingNetworkData => true,
        Outcome::Refused { .. } => matches!(
            view.secret,
            SecretView::Read {
                claim: Claim::Refused,
                ..
            }
        ),
        _ => false,
    };
    match is_unwatched && view.is_writer {
        true => {
            let since = old
                .condition(ERROR)
                .map(|error| error.last_transition_time.0);
            let since = since.unwrap_or(view.now);
            let delay = retry::missing_secret(since, view.now, view.resource.uid());
            Step::Done(Next::After(delay))
        }
        false => WAIT,
    }
}

#[cfg(test)]
mod tests;
