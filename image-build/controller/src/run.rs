//! Executes the steps for one resource.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::{Api, ResourceExt as _};
use landfall_host_media::HostVersion;
use landfall_network_plan::Document;
use serde_json::{Value, json};

use crate::claim;
use crate::context::Context;
use crate::host::{Host, HostKey};
use crate::images::{ImageUrls, Rendered};
use crate::network::{is_for_network, network_of};
use crate::outcome::Wanted;
use crate::reconcile::{Claim, ImageView, Next, SecretView, Step, View, next_step};
use crate::resource::{FINALIZER, PreprovisioningImage, is_secret_name};
use crate::run_error::{LONGEST_RUN, MOST_STEPS, RunError, failed};
use crate::served::Origin;
use crate::status::Status;

/// Executes all steps that a resource needs now. Returns when the resource needs its next
/// run.
pub(crate) async fn reconcile(
    resource: Arc<PreprovisioningImage>,
    context: Arc<Context>,
) -> Result<Action, RunError> {
    if context.own_writes.are_after(&resource) {
        return Ok(Action::await_change());
    }
    let key = resource.key();
    let uid = resource.uid().to_owned();
    let run = Run::new((*resource).clone(), &context);
    let result = tokio::time::timeout(LONGEST_RUN, run.finish())
        .await
        .unwrap_or(Err(RunError::TimedOut));
    if !context.exists(&key, &uid) {
        // The resource disappeared during the run, which may have published an image.
        context.withdraw(&key);
    }
    if result.is_ok() {
        context.failures.clear(&key);
    }
    context.run_ended(&key);
    context.health.run(result.is_ok());
    Ok(match result? {
        Next::OnChange => Action::await_change(),
        Next::After(delay) => Action::requeue(delay),
    })
}

/// One run for one resource.
struct Run<'c> {
    context: &'c Context,
    key: HostKey,
    resource: PreprovisioningImage,
    resources: Api<PreprovisioningImage>,
    secrets: Api<Secret>,
    secret: Option<Secret>,
    secret_view: SecretView,
    /// The rendered image, before it is published.
    image: Option<HostVersion>,
    image_view: ImageView,
    origin: Option<Origin>,
    written: Option<Status>,
}

impl<'c> Run<'c> {
    fn new(resource: PreprovisioningImage, context: &'c Context) -> Self {
        let key = resource.key();
        let client = context.client.clone();
        Self {
            resources: Api::namespaced(client.clone(), &key.namespace),
            secrets: Api::namespaced(client, &key.namespace),
            context,
            key,
            resource,
            secret: None,
            secret_view: SecretView::NotRead,
            image: None,
            image_view: ImageView::NotRendered,
            origin: None,
            written: None,
        }
    }

    async fn finish(mut self) -> Result<Next, RunError> {
        for _ in 0..MOST_STEPS {
            let step = self.next_step();
            tracing::debug!("{}: {step:?}", self.key);
            if let Step::Done(next) = step {
                return Ok(next);
            }
            match self.execute(step).await {
                // The resource was deleted, and the watch will report this.
                Err(error) if error.is_not_found() => return Ok(Next::OnChange),
                result => result?,
            }
        }
        Err(RunError::TooManySteps)
    }

    fn next_step(&self) -> Step {
        let formats = self.context.images.formats(self.resource.architecture());
        let published = self.context.served.published(&self.key);
        next_step(&View {
            resource: &self.resource,
            is_writer: self.context.leadership.is_held(),
            formats,
            secret: &self.secret_view,
            image: &self.image_view,
            published: published.as_deref(),
            extra_kernel_params: &self.context.settings.extra_kernel_params,
            written: self.written.as_ref(),
            now: Timestamp::now(),
        })
    }

    async fn execute(&mut self, step: Step) -> Result<(), RunError> {
        match step {
            Step::AddFinalizer => {
                let mut finalizers = self.resource.finalizers().to_vec();
                finalizers.push(FINALIZER.to_owned());
                self.set_finalizers("add the finalizer", finalizers).await
            }
            Step::RemoveFinalizer => {
                let mut finalizers = self.resource.finalizers().to_vec();
                finalizers.retain(|name| name != FINALIZER);
                self.set_finalizers("remove the finalizer", finalizers)
                    .await
            }
            Step::ReadSecret => self.read_secret().await,
            Step::ClaimSecret => self.claim_secret().await,
            Step::Render(wanted) => {
                self.render(wanted);
                Ok(())
            }
            Step::Publish => {
                self.publish();
                Ok(())
            }
            Step::Withdraw => {
                self.context.withdraw(&self.key);
                Ok(())
            }
            Step::WriteStatus(status) => self.write_status(*status).await,
            Step::Done(_) => Ok(()),
        }
    }

    /// Replaces the list of finalizers. The API server rejects this if another program
    /// has changed the resource.
    async fn set_finalizers(
        &mut self,
        what: &'static str,
        finalizers: Vec<String>,
    ) -> Result<(), RunError> {
        let body = json!({"metadata": {
            "resourceVersion": self.resource.resource_version(),
            "finalizers": finalizers,
        }});
        self.resource = self.patched(what, body, false).await?;
        Ok(())
    }

    async fn write_status(&mut self, status: Status) -> Result<(), RunError> {
        let body = status.patch(self.resource.resource_version());
        self.resource = self.patched("write the status", body, true).await?;
        self.context.health.status_written();
        self.written = Some(status);
        Ok(())
    }

    async fn patched(
        &self,
        what: &'static str,
        body: Value,
        is_status: bool,
    ) -> Result<PreprovisioningImage, RunError> {
        let parameters = PatchParams::default();
        let name = &self.key.name;
        let patch = Patch::Merge(body);
        let answer = if is_status {
            self.resources.patch_status(name, &parameters, &patch).await
        } else {
            self.resources.patch(name, &parameters, &patch).await
        };
        let resource = answer.map_err(failed(what))?;
        self.context.own_writes.note(&resource);
        Ok(resource)
    }

    async fn read_secret(&mut self) -> Result<(), RunError> {
        let name = self.resource.network_data_name();
        let uid = self.resource.uid();
        let served = &self.context.served;
        if let Some(version) = self.context.secret_version(&self.key.namespace, name)
            && served.is_of_secret(&self.key, uid, name, &version)
        {
            // The watch reports only Secrets with the label, and this copy has already
            // made an image from this version of the Secret. So the Secret is claimed.
            self.secret_view = SecretView::Read {
                version,
                claim: Claim::Made,
            };
            return Ok(());
        }
        // A name that no Secret can have must not become a part of a URL.
        let secret = if is_secret_name(name) {
            let secret = self.secrets.get_opt(name).await;
            secret.map_err(failed("read the Secret"))?
        } else {
            None
        };
        self.secret_view = match &secret {
            None => SecretView::Missing,
            Some(secret) => SecretView::Read {
                version: secret.resource_version().unwrap_or_default(),
                claim: match claim::claim(&mut secret.metadata.clone(), &self.resource) {
                    false => Claim::Made,
                    true if is_for_network(secret) => Claim::Needed,
                    true => Claim::Refused,
                },
            },
        };
        self.secret = secret;
        Ok(())
    }

    /// Claims the Secret by PUT, because image-customization-controller's role does not
    /// allow PATCH.
    async fn claim_secret(&mut self) -> Result<(), RunError> {
        let Some(mut secret) = self.secret.take() else {
            self.secret_view = SecretView::NotRead;
            return Ok(());
        };
        claim::claim(&mut secret.metadata, &self.resource);
        let name = secret.name_any();
        let parameters = PostParams::default();
        let answer = self.secrets.replace(&name, &parameters, &secret).await;
        let claimed = match answer.map_err(failed("claim the Secret")) {
            // The Secret was deleted in the meantime. Return no error: the caller would
            // treat the error as a deleted resource, and end the run.
            Err(error) if error.is_not_found() => {
                self.secret_view = SecretView::Missing;
                return Ok(());
            }
            answer => answer?,
        };
        self.secret_view = SecretView::Read {
            version: claimed.resource_version().unwrap_or_default(),
            claim: Claim::Made,
        };
        self.secret = Some(claimed);
        Ok(())
    }

    fn render(&mut self, wanted: Wanted) {
        let origin = Origin {
            uid: self.resource.uid().to_owned(),
            wanted,
        };
        let served = &self.context.served;
        if let Some(result) = served.result(&self.key, &origin) {
            self.image_view = result;
        } else if self.secret.is_none() && !origin.wanted.network_data.name.is_empty() {
            // `read_secret` took the Secret's version from the watch, and did not read
            // the Secret. But the format or the architecture has changed, so the image
            // must be made again, and that needs the Secret's content.
            served.remove_result(&self.key);
            self.secret_view = SecretView::NotRead;
            return;
        } else {
            self.image_view = match self.rendered(&origin.wanted) {
                Ok(Rendered { urls, version }) => {
                    if served.published(&self.key).as_ref() == Some(&urls.image) {
                        // The Secret has a new version with the same network.
                        served.is_published(&self.key, origin.clone(), urls.clone());
                    }
                    self.image = Some(version);
                    ImageView::Rendered(urls)
                }
                Err(reason) => {
                    tracing::warn!("{}: cannot generate an image: {reason}", self.key);
                    served.refused(&self.key, origin.clone(), reason.clone());
                    ImageView::Refused(reason)
                }
            };
        }
        self.origin = Some(origin);
    }

    fn rendered(&self, wanted: &Wanted) -> Result<Rendered, String> {
        let network = match &self.secret {
            None => Document::None,
            Some(secret) => network_of(secret)
                .map_err(|fault| format!("Secret {}: {fault}", secret.name_any()))?,
        };
        let host = Host {
            key: self.key.clone(),
            format: wanted.format,
            network,
        };
        let rendered = self.context.images.render(&host);
        rendered.map_err(|error| error.to_string())
    }

    fn publish(&mut self) {
        let urls: ImageUrls = match (&self.image_view, self.image.take()) {
            (ImageView::Rendered(urls), Some(image)) => {
                self.context.images.publish(&self.key, image);
                urls.clone()
            }
            _ => {
                // The image was withdrawn during this run. Read the Secret and render the
                // image again.
                self.image_view = ImageView::NotRendered;
                self.context.served.remove_result(&self.key);
                self.secret_view = SecretView::NotRead;
                return;
            }
        };
        if let Some(origin) = self.origin.clone() {
            self.context.served.is_published(&self.key, origin, urls);
        }
    }
}
