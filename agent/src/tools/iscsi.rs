//! `iscsi`: prints the iSCSI targets in the firmware's table (iBFT) that a boot logs in to.
//! The secrets are not printed.

use std::path::PathBuf;

use clap::Args;
use landfall_iscsi::connect::connect_and_log_in;
use landfall_iscsi::session::{SessionError, Way};
use landfall_iscsi::{BootTable, BootTarget};
use landfall_report::failure::{Failure, Result};
use landfall_sys::system_path::SystemPath;

use super::stdout;

/// `iscsi`
#[derive(Debug, Args)]
pub struct Arguments {
    /// Read the table from this /sys
    #[arg(long, value_name = "DIR")]
    sysfs: Option<PathBuf>,
    /// Log in to each target and end the connection
    ///
    /// The kernel gets no session, so no disk appears.
    ///
    /// The sessions of the agent stay as they are.
    #[arg(long)]
    log_in: bool,
}

/// Prints a line for each target. With `--log-in`, also tries each login.
///
/// # Errors
/// If the directory cannot be read, if there is no table, or if a login fails.
pub fn run(arguments: &Arguments) -> Result<()> {
    let sysfs = match &arguments.sysfs {
        Some(directory) => SystemPath::captured(directory).map_err(|error| {
            Failure::invalid_params(format!("cannot read {}: {error}", directory.display()))
        })?,
        None => SystemPath::live().join("sys"),
    };
    let table = BootTable::read(&sysfs).ok_or_else(|| {
        Failure::other("expected a table of iSCSI targets from the firmware (iBFT), found none")
            .hint("boot from iSCSI in the firmware's settings, and load the module iscsi_ibft")
    })?;
    for fault in &table.faults {
        tracing::warn!("{fault}");
    }
    if !table.initiator.is_empty() {
        stdout::line(format!("initiator {}", table.initiator))?;
    }
    for target in &table.targets {
        stdout::line(described(target))?;
    }
    if arguments.log_in {
        return log_in_to_all(table);
    }
    Ok(())
}

fn described(target: &BootTarget) -> String {
    let nic = target.nic.as_ref().map_or_else(String::new, |nic| {
        let vlan = nic
            .vlan
            .map_or_else(String::new, |id| format!(", VLAN {id}"));
        format!(", over the NIC with MAC {}{vlan}", nic.mac)
    });
    let chap = match &target.chap {
        None => "without CHAP".to_owned(),
        Some(chap) if chap.reverse.is_some() => format!("mutual CHAP as {}", chap.name),
        Some(chap) => format!("CHAP as {}", chap.name),
    };
    let (record, lun) = (&target.record, target.lun);
    format!("{record}: LUN {lun} of {target}{nic}, {chap}")
}

fn log_in_to_all(table: BootTable) -> Result<()> {
    let has_other_paths = table.targets.len() > 1;
    let mut failed = 0;
    for (number, target) in (0..).zip(table.targets) {
        let way = Way {
            initiator: table.initiator.clone(),
            target,
            nic: None,
            has_other_paths,
            number,
            is_trial: true,
        };
        match connect_and_log_in(way.target.portal, None, &way.wish()) {
            Ok(connected) => stdout::line(format!(
                "{}: logged in at {}",
                way.target.record, connected.portal
            ))?,
            Err(fault) => {
                failed += 1;
                let error = SessionError::from(fault);
                tracing::error!("{}: {error} -- {}", way.target.record, error.remedy());
            }
        }
    }
    match failed {
        0 => Ok(()),
        failed => Err(Failure::other(format!(
            "expected every login to succeed, {failed} failed"
        ))),
    }
}
