//! Carries out the installation that the kernel arguments `coreos.inst.*` order, without
//! Ironic. Reaches the servers, fetches and checks everything, writes the disk and
//! reboots the machine.
//!
//! The agent retries temporary errors forever, as coreos-installer's boot service does,
//! because nobody is there to order the installation again. On a permanent error it
//! leaves the machine on, with the reason on the console.

mod complete_disk;
mod disk;
mod order;
mod repeated_error;

use std::path::PathBuf;
use std::time::Duration;

use landfall_devices::permission::WritePermission;
use landfall_discovery::{Expected, Place, Wanted};
use landfall_disk::critical_section::CriticalSection;
use landfall_disk::image::proven_image::WrittenImage;
use landfall_http_client::{HttpOptions, ServiceClient};
use landfall_init::Ending;
use landfall_installation::{BootEntry, InstallOptions, Installation, OwnImage, Servers};
use landfall_report::failure::{Class, Failure, Result};
use landfall_report::status::{self, begin_step};
use landfall_settings::Settings;
use landfall_sys::backoff::Backoff;
use landfall_sys::state_file::StateFile;
use landfall_webhook::Webhook;

use self::complete_disk::CompleteDisk;
use self::order::Order;
use self::repeated_error::RepeatedError;
use super::own_image::own_image;
use super::remarks::REPEAT_INTERVAL;
use super::{Boot, failure_logs};
use crate::commands::{self, FirstBootNetwork, blocking};
use crate::http_options::{http_options, image_options};

/// The pauses between two attempts. The longest pause also limits how long the agent
/// waits after an operator has provided a missing file.
const SHORTEST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long the last report to the webhook may delay the restart.
const LAST_REPORT: Duration = Duration::from_secs(10);

/// The disk, its image, and the critical section of the commit.
type Written = (PathBuf, WrittenImage, CriticalSection);

impl Boot {
    /// The installation that this boot orders, if any. Warns if there is a webhook but no
    /// installation, because such a webhook has nothing to report.
    pub(super) fn unattended_order(&self) -> Option<Order> {
        let order = Order::of(&self.settings, self.live.is_some());
        if order.is_none() && self.settings.params.webhook.is_some() {
            tracing::warn!(
                "landfall.webhook is ignored: it reports installations by coreos.inst.*"
            );
        }
        order
    }

    /// Carries out the installation `order`. Returns how the boot ends; does not return
    /// if the machine must stay on. Fails if the agent must not write to disks on this
    /// machine.
    pub(super) async fn install_unattended(&mut self, order: &Order) -> Result<Ending> {
        let webhook = self.webhook();
        let outcome = self.install_and_report(order, &webhook).await;
        match &outcome {
            Ok(ending) => {
                let done = ending.in_words().to_owned();
                status::update(|status| status.done = Some(done));
                webhook.done();
            }
            Err(failure) => webhook.failed(failure),
        }
        webhook.wait_until_delivered(LAST_REPORT).await;
        outcome
    }

    /// The webhook of the settings.
    fn webhook(&self) -> Webhook {
        let url = self.settings.params.webhook.as_ref();
        match url.map(|_| webhook_client(&self.settings)) {
            None => Webhook::none(),
            Some(Ok(client)) => Webhook::start(url, &client, self.network.clone()),
            Some(Err(failure)) => {
                tracing::warn!("landfall.webhook gets no reports: {failure}");
                Webhook::none()
            }
        }
    }

    async fn install_and_report(&mut self, order: &Order, webhook: &Webhook) -> Result<Ending> {
        let permission = WritePermission::by_boot()?;
        order.report();
        // If the agent had already installed the disk before it was restarted, at most
        // the boot entry is still missing.
        let state = StateFile::new(self.state, "unattended-installation");
        let mut complete = match CompleteDisk::of_earlier_agent(&state) {
            Some(complete) => complete,
            None => {
                webhook.started();
                let (disk, written, section) =
                    self.install_until_done(order, permission, webhook).await;
                CompleteDisk::record(state, disk, written.kept, section)
            }
        };
        let made = complete
            .make_boot_entry(self.boot_entry(), permission)
            .await;
        if let Err(failure) = made {
            self.stay_after(&failure, webhook).await;
        }
        let disk = complete.path().to_owned();
        self.clock.save();
        // Remove the error of an earlier attempt from the status.
        status::retry_succeeded("agent");
        if order.skip_reboot {
            let done = "installed: reset this machine to boot the installed system";
            status::update(|status| status.done = Some(done.to_owned()));
            webhook.done();
            stay_and_say(|| {
                tracing::info!(
                    "{} is installed; this machine stays on because of coreos.inst.skip_reboot -- reset it to boot the installed system",
                    disk.display()
                );
            })
            .await;
        }
        let kexec = *self.settings.params.kexec;
        Ok(commands::into_installed_system(kexec, Some(disk)).await)
    }

    async fn install_until_done(
        &mut self,
        order: &Order,
        permission: WritePermission,
        webhook: &Webhook,
    ) -> Written {
        let mut backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
        let mut error = RepeatedError::default();
        loop {
            let failure = match self.install_once(order, permission).await {
                Ok(written) => return written,
                Err(failure) => failure,
            };
            let failure = Failure {
                details: format!("install failed: {}", failure.details),
                ..failure
            };
            if !may_get_better(&failure) {
                let failure = match failure.hint {
                    Some(_) => failure,
                    None => failure.hint("correct the kernel arguments, or the files that they name, and reset this machine"),
                };
                match self.stay_after(&failure, webhook).await {}
            }
            let pause = backoff.pause();
            let seconds = pause.as_secs_f64().ceil();
            let text = format!("{}; trying again in {seconds:.0} s", failure.details);
            let hint = failure.hint.as_ref();
            let hint = hint.map(|hint| format!(" -- {hint}")).unwrap_or_default();
            match error.is_due(&failure.details) {
                true => tracing::error!("{text}{hint}"),
                // The status shows the error of each attempt, also one that is not
                // logged.
                false => status::report_retry("agent", &text, failure.hint.clone()),
            }
            webhook.retrying(&failure, pause);
            begin_step("waiting to install again");
            tokio::time::sleep(pause).await;
        }
    }

    /// Leaves the machine on after a permanent error, keeps the logs, and repeats the
    /// error with the address of the logs.
    async fn stay_after(&self, failure: &Failure, webhook: &Webhook) -> ! {
        let say = || tracing::error!("{}", self.with_address_of_logs(failure.clone()));
        say();
        // Report before `begin_step`, because the report names the current step.
        webhook.failed(failure);
        begin_step("waiting for a reset: the installation has failed");
        if self.pages.is_some() {
            failure_logs::keep(self.state).await;
        }
        loop {
            tokio::time::sleep(REPEAT_INTERVAL).await;
            say();
        }
    }

    async fn install_once(
        &mut self,
        order: &Order,
        permission: WritePermission,
    ) -> Result<Written> {
        let mut options = order.options()?;
        order.fill_in_image(&mut options, &self.settings.params)?;
        let own_image = own_image_for(&options).await?;
        order.refuse_stream(&options, own_image.is_some())?;
        for server in order::servers(&options, own_image.is_some())? {
            let wanted = Wanted {
                what: server.what,
                place: Place::Urls(server.urls),
                expected: Expected::File,
                // Use the timeout of the download, because a cache may fetch the whole
                // file before it sends the first byte.
                timeout: *self.settings.params.image_download_connection_timeout,
                must_be_trusted: true,
            };
            self.reach(&wanted).await?;
        }
        let named = options.dest_device.take();
        begin_step("choosing the disk");
        let disk = self.disk(named, order.uses_hints()).await?;
        begin_step("installing");
        tracing::info!("installing to {}", disk.path.display());
        options.dest_device = Some(disk.path.clone());
        let choice = commands::choice_of_this_boot(&self.settings).await;
        let network = FirstBootNetwork::handed_on(&self.settings.command_line, &choice, true);
        let servers = Servers::new(&image_options(&self.settings)?)?;
        options.verify |= *self.settings.params.verify;
        let boot_entry = self.boot_entry();
        blocking(move || {
            let own_image = |_| Ok(own_image.clone());
            let mut installation = Installation::prepare(&options, &servers, &own_image)?;
            // Use the chosen disk, even if another disk has its name by now.
            installation.disk = disk;
            installation.boot_entry = boot_entry;
            let changes = &mut installation.changes;
            if changes.firstboot_args.is_none() {
                changes.firstboot_args = network.arguments;
            }
            changes.network_keyfiles.extend(network.keyfiles);
            let (written, section) = installation.write(&servers.client, &permission)?;
            Ok((written.disk.clone(), written, section))
        })
        .await
    }

    fn boot_entry(&self) -> BootEntry {
        BootEntry::new(*self.settings.params.ignore_bootloader_failure)
    }
}

/// The client for the webhook. Even with `ipa-insecure` it verifies the server, because
/// the URL may contain a password.
fn webhook_client(settings: &Settings) -> Result<ServiceClient> {
    let options = HttpOptions {
        insecure: false,
        ..http_options(settings)?
    };
    ServiceClient::new(&options)
}

/// The image on the boot medium, if it is the one to install. The agent looks for this
/// image before it looks for any server, because a site with such a medium needs no image
/// server.
async fn own_image_for(options: &InstallOptions) -> Result<Option<OwnImage>> {
    if !options.may_take_own_image() {
        return Ok(None);
    }
    let must_be_there = options.offline;
    // After a failure the agent retries, because the drive may be readable a moment
    // later. It does not fall back to another image, because the operator wants the one
    // on the medium.
    let unfit = |failure: Failure| {
        failure.hint("insert only the medium with the image, or give coreos.inst.image_url=URL")
    };
    blocking(move || own_image(must_be_there).map_err(unfit)).await
}

/// Whether another attempt may succeed, because somebody may provide a file, repair a
/// server or plug in a disk. A fetched file that is invalid would be invalid again.
fn may_get_better(failure: &Failure) -> bool {
    let passes = matches!(
        failure.class,
        Class::DeviceNotFound | Class::ImageDownloadError | Class::ImageDownloadTimeoutError
    );
    passes && !failure.permanent
}

/// Leaves the machine on and repeats the message, so that the console still shows it
/// after hours.
async fn stay_and_say(say: impl Fn()) -> ! {
    loop {
        say();
        tokio::time::sleep(REPEAT_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use landfall_boot_params::CommandLine;
    use landfall_devices::identity::ChosenDisk;
    use landfall_disk::fixtures::{empty_file, exchange, loop_device};
    use landfall_disk::image::write_image::{ImageSource, WriteOptions};
    use landfall_download::fetch::Request;
    use landfall_download::proof::Proof;
    use landfall_handover::install_coreos::CoreosChanges;
    use landfall_http_client::fixtures::http_client;
    use landfall_settings::media::Media;
    use landfall_settings::{ConfigFiles, IgnitionParts};

    use super::*;

    /// The installation continues without reports, so the console must say why.
    #[test]
    fn a_webhook_that_cannot_be_used_says_why() {
        let mut settings = Settings::from_sources(
            CommandLine::parse("landfall.webhook=https://hooks.example.org"),
            Media::default(),
            ConfigFiles::default(),
            IgnitionParts::default(),
        );
        let text = "[DEFAULT]\ncertfile = /etc/client.pem\n";
        settings
            .params
            .read_file("/etc/ironic-python-agent.conf", text);
        let failure = webhook_client(&settings).unwrap_err();
        assert!(failure.details.contains("expected keyfile"), "{failure}");
    }

    #[test]
    fn only_temporary_errors_are_retried() {
        for (class, again) in [
            (Class::DeviceNotFound, true),
            (Class::ImageDownloadError, true),
            (Class::ImageChecksumError, false),
            (Class::ImageWriteError, false),
            (Class::InvalidCommandParamsError, false),
            (Class::DeploymentError, false),
        ] {
            assert_eq!(
                may_get_better(&Failure::new(class, "x")),
                again,
                "{class:?}"
            );
        }
        let refused = Failure::image_download("x").permanently();
        assert!(!may_get_better(&refused));
    }

    /// Nothing was written to the other disk, so the hints may choose again.
    #[test]
    fn the_disk_is_chosen_again_if_its_name_went_to_another_one() {
        let (first, second) = (empty_file(1 << 20), empty_file(1 << 20));
        let Some(device) = loop_device(first.path(), 512) else {
            return;
        };
        let installation = Installation {
            image: ImageSource::new(Request::new(["http://127.0.0.1:1/i"]), Proof::Nothing),
            disk: ChosenDisk::by_path(device.path()).unwrap(),
            options: WriteOptions::default(),
            changes: CoreosChanges::default(),
            boot_entry: BootEntry::Leave,
        };
        if !exchange(device.path(), second.path()) {
            return;
        }
        let permission = WritePermission::by_operator();
        let written = installation.write(&http_client(), &permission);
        let failure = written.map(drop).unwrap_err();
        assert!(failure.details.contains("found another one"), "{failure}");
        assert!(may_get_better(&failure));
    }
}
