//! Offers the network form on the consoles, and starts the agent again with what the
//! operator has given.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use landfall_boot_params::NetArgs;
use landfall_report::failure::{Failure, Result};
use landfall_report::status::{self, DiskState, Status};
use landfall_settings::{FormArguments, Settings};
use landfall_sys::state_file::STATE_DIRECTORY;
use tokio::sync::mpsc;

use crate::network_form::{NetworkForm, OfferedNic, Values};

/// The kernel arguments that the operator wants to try.
pub(super) type Tried = mpsc::UnboundedReceiver<FormArguments>;
pub(super) type TryThem = mpsc::UnboundedSender<FormArguments>;

/// Offers the form on every console of the ramdisk.
pub(super) fn offer(settings: &Settings, try_them: TryThem) {
    let args = NetArgs::from_command_line(&settings.command_line);
    landfall_report::form::offer(move || {
        let status = status::now();
        let nics = offered(&status);
        let name_of = |mac: &str| {
            let nic = status.network.nics.iter().find(|nic| nic.mac == mac)?;
            Some(nic.name.clone())
        };
        let values = Values::of_arguments(&args, name_of);
        let try_them = try_them.clone();
        let try_arguments = move |arguments: &str| {
            if let Some(reason) = why_not(&status::now()) {
                return Err(reason.to_owned());
            }
            let arguments = FormArguments(arguments.to_owned());
            let sent = try_them.send(arguments);
            sent.map_err(|_| "the agent is ending".to_owned())
        };
        Box::new(NetworkForm::new(nics, values, Box::new(try_arguments)))
    });
}

/// The NICs that the form offers: those of the hardware.
fn offered(status: &Status) -> Vec<OfferedNic> {
    let nics = status.network.nics.iter();
    nics.filter(|nic| nic.driver.is_some())
        .map(|nic| OfferedNic {
            name: nic.name.clone(),
            description: nic.in_words(),
        })
        .collect()
}

/// Why the network must not change now.
fn why_not(status: &Status) -> Option<&'static str> {
    if status.done.is_some() {
        Some("the agent is ending")
    } else if status.node.is_some() {
        Some("Ironic already uses this network for its commands; reset the machine first")
    } else if status.progress.is_some() || status.disk_state == Some(DiskState::Writing) {
        Some("the disk is being written; reset the machine first")
    } else if status.disk_state == Some(DiskState::Complete) {
        Some("the disk is complete; reset the machine first")
    } else {
        None
    }
}

/// Waits until the operator tries a network, and stores it.
pub(super) async fn stored(tried: &mut Tried) -> Result<()> {
    let Some(arguments) = tried.recv().await else {
        // The form is not offered.
        return std::future::pending().await;
    };
    let stored = arguments.store(Path::new(STATE_DIRECTORY));
    stored.map_err(|error| Failure::other(format!("cannot store what the form gives: {error}")))?;
    tracing::info!("the form on the console changes the network; the agent starts again");
    Ok(())
}

/// Runs the agent from its start, in the same process: init sees no end of it. Returns
/// only if the kernel refuses.
pub(super) fn start_again() -> io::Error {
    Command::new("/proc/self/exe")
        .args(std::env::args_os().skip(1))
        .exec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_init::Ending;
    use landfall_report::status::Progress;

    #[test]
    fn the_network_stays_while_it_is_in_use() {
        assert_eq!(why_not(&Status::default()), None);
        let in_use = [
            Status {
                node: Some("n".into()),
                ..Status::default()
            },
            Status {
                progress: Some(Progress::default()),
                ..Status::default()
            },
            // Between the download and the commit.
            Status {
                disk_state: Some(DiskState::Writing),
                ..Status::default()
            },
            // The boot entry has failed.
            Status {
                disk_state: Some(DiskState::Complete),
                ..Status::default()
            },
            Status {
                done: Some(Ending::LockDown.in_words().into()),
                ..Status::default()
            },
        ];
        for status in in_use {
            assert!(why_not(&status).is_some(), "{status:?}");
        }
    }
}
