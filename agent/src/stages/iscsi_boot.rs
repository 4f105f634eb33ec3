//! The stage that logs in to the iSCSI targets of the firmware's table (iBFT), so that the
//! disk of a host that boots from iSCSI is there before the inventory.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use landfall_devices::permission::WritePermission;
use landfall_iscsi::kernel::{self, Kernel};
use landfall_iscsi::session::{Session, SessionError, Way, sessions};
use landfall_iscsi::{BootNic, BootTable, BootTarget, watch};
use landfall_network::NetworkState;
use landfall_network::state::{MadeOf, NicState};
use landfall_report::status::begin_step;
use landfall_sys::backoff::Backoff;
use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;
use tokio::time::timeout_at;

use super::Boot;
use crate::commands;

/// How long all targets together may wait for their NICs: a switch may take 30 s to forward,
/// and DHCP as long again.
const NIC_LIMIT: Duration = Duration::from_secs(60);
/// How long one target may be out of reach, or busy.
const LOGIN_LIMIT: Duration = Duration::from_secs(60);
/// How long the kernel may look for the disk of a session.
const DISK_LIMIT: Duration = Duration::from_secs(10);
const DISK_LOOK: Duration = Duration::from_millis(100);

impl Boot {
    /// Logs in to the targets. A target that cannot be reached or refuses is a line on the
    /// console, and the boot goes on: the disk may not be the one to install.
    ///
    /// In a live system the initramfs or iscsid has done it.
    pub(super) async fn log_in_to_boot_targets(&self) {
        if self.live.is_some() || WritePermission::by_boot().is_err() {
            return;
        }
        // The iBFT is a firmware table, not a device, so nothing else loads its driver.
        landfall_init::modprobe(&"iscsi_ibft".into());
        let system = SystemPath::live();
        let Some(table) = BootTable::read(&system.join("sys")) else {
            return;
        };
        for fault in &table.faults {
            tracing::warn!("the firmware's table of iSCSI targets (iBFT): {fault}");
        }
        if table.targets.is_empty() {
            return;
        }
        begin_step("logging in to the firmware's iSCSI targets");
        landfall_init::modprobe(&kernel::MODULE.into());
        let deadline = tokio::time::Instant::now() + NIC_LIMIT;
        let has_other_paths = table.targets.len() > 1;
        let mut ways = Vec::new();
        for (number, target) in (0..).zip(table.targets) {
            if let Some(card) = self.card_of(&system, &target) {
                tracing::info!("{target} is left to {card}, which logs in by itself");
                continue;
            }
            let nic = match &target.nic {
                Some(nic) => self.nic_to(nic, &target, deadline).await,
                None => None,
            };
            ways.push(Way {
                initiator: table.initiator.clone(),
                target,
                nic,
                has_other_paths,
                number,
            });
        }
        let begin = move || {
            begin_all(&system, ways);
            Ok(())
        };
        if let Err(failure) = commands::blocking(begin).await {
            tracing::warn!("the login to the iSCSI targets ended early: {failure}");
        }
    }

    /// The card with a session of its own to this target, if there is one: a second login
    /// would show the disk twice.
    fn card_of(&self, system: &SystemPath, target: &BootTarget) -> Option<String> {
        let session = sessions(system).into_iter().find(|known| {
            let same_portal = known.portal.is_none_or(|portal| portal == target.portal);
            !known.is_software && known.target == target.name && same_portal
        });
        if let Some(session) = session {
            return Some(format!("the card of host{}", session.kernel.host));
        }
        // Cards with an iSCSI function of its own show its address, and no NIC has it.
        let mac = target.nic.as_ref()?.mac;
        if self
            .network
            .borrow()
            .nics
            .iter()
            .any(|nic| has_mac(nic, mac))
        {
            return None;
        }
        let hosts = system.join("sys/class/iscsi_host");
        let mut names = sysfs::names(&hosts).into_iter();
        let has_address =
            |name: &String| sysfs::number(&hosts.join(name).join("hwaddress")) == Some(mac);
        Some(format!("the card of {}", names.find(has_address)?))
    }

    /// The name of the device that leads to the target, once it has an address.
    async fn nic_to(
        &self,
        nic: &BootNic,
        target: &BootTarget,
        deadline: tokio::time::Instant,
    ) -> Option<String> {
        let mut network = self.network.clone();
        let is_ready =
            |state: &NetworkState| leads_out_of(state, nic).is_some_and(NicState::is_online);
        let ready = timeout_at(deadline, network.wait_for(is_ready)).await;
        let ready = ready.is_ok_and(|state| state.is_ok());
        let state = self.network.borrow();
        let device = leads_out_of(&state, nic).map(|device| device.name.clone());
        match device {
            Some(name) if ready => return Some(name),
            Some(name) => tracing::warn!(
                "{name}, over which the firmware reaches {target}, has no address after {} s; the agent tries any NIC -- check the cable, or boot with ip=ibft for the firmware's own address",
                NIC_LIMIT.as_secs()
            ),
            None => tracing::warn!(
                "the NIC with MAC {}, over which the firmware reaches {target}, is not there after {} s; the agent tries any NIC -- look for a missing driver above",
                nic.mac,
                NIC_LIMIT.as_secs()
            ),
        }
        None
    }
}

fn has_mac(nic: &NicState, mac: landfall_boot_params::MacAddr) -> bool {
    !nic.is_virtual && [Some(nic.mac), nic.permanent_mac].contains(&Some(mac))
}

/// The device over which this NIC's traffic goes: the VLAN of the table if the plan has it,
/// the bond or bridge that the NIC is a port of, or the NIC itself.
fn leads_out_of<'a>(state: &'a NetworkState, nic: &BootNic) -> Option<&'a NicState> {
    /// A VLAN on a bond on NICs is as deep as plans go.
    const DEEPEST: usize = 4;
    let mut device = state.nics.iter().find(|known| has_mac(known, nic.mac))?;
    for _ in 0..DEEPEST {
        let carries = |known: &&NicState| {
            matches!(known.made_of, Some(MadeOf::Vlan { id, parent })
                if Some(id) == nic.vlan && parent == Some(device.index))
        };
        if let Some(vlan) = state.nics.iter().find(carries) {
            return Some(vlan);
        }
        let Some(controller) = device.controller else {
            break;
        };
        device = state.nics.iter().find(|known| known.index == controller)?;
    }
    Some(device)
}

/// Logs in to all targets, and leaves a thread that keeps the sessions.
fn begin_all(system: &SystemPath, ways: Vec<Way>) {
    let kernel = match Kernel::open() {
        Ok(kernel) => kernel,
        Err(error) => {
            tracing::error!(
                "the firmware has iSCSI targets, but this kernel cannot use them: expected the module {}: {error} -- use a ramdisk whose kernel has it",
                kernel::MODULE
            );
            return;
        }
    };
    let kernel = Mutex::new(kernel);
    let begun = all_at_once(ways, |way| begin_or_say_why(&kernel, system, way));
    let kernel = kernel.into_inner().unwrap_or_else(PoisonError::into_inner);
    if begun.is_empty() {
        return;
    }
    // It runs as long as the process. The kernel keeps the connections by itself when the
    // agent is restarted.
    let keep = move || {
        if let Err(error) = watch::watch(kernel, begun) {
            tracing::error!(
                "the agent no longer hears of lost iSCSI connections: {error} -- start the host again"
            );
        }
    };
    if let Err(error) = thread::Builder::new().name("iscsi".to_owned()).spawn(keep) {
        tracing::warn!("a lost iSCSI connection will not come back: no thread: {error}");
    }
}

/// Calls `begin` for each in a thread of its own, so that a target without an answer does not
/// delay the others. A table has 16 targets at most. What there is keeps its order.
fn all_at_once<T: Send, R: Send>(all: Vec<T>, begin: impl Fn(T) -> Option<R> + Sync) -> Vec<R> {
    let begin = &begin;
    thread::scope(|scope| {
        let threads: Vec<_> = { all.into_iter() }
            .map(|each| scope.spawn(move || begin(each)))
            .collect();
        let threads = threads.into_iter();
        threads
            .filter_map(|thread| thread.join().ok().flatten())
            .collect()
    })
}

fn begin_or_say_why(kernel: &Mutex<Kernel>, system: &SystemPath, way: Way) -> Option<Session> {
    if let Some(session) = Session::of_earlier_run(system, &way) {
        tracing::info!("the session to {way} is there already");
        return Some(session);
    }
    match begin(kernel, &way) {
        Ok(session) => {
            match session.scan() {
                Ok(()) => report_disk(system, &session),
                Err(error) => tracing::warn!("{way}: {error} -- {}", error.remedy()),
            }
            Some(session)
        }
        Err(error) => {
            tracing::error!("cannot log in to {way}: {error} -- {}", error.remedy());
            None
        }
    }
}

/// Retries while the target is out of reach or busy.
fn begin(kernel: &Mutex<Kernel>, way: &Way) -> Result<Session, SessionError> {
    let began = Instant::now();
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
    let mut said = None;
    loop {
        match Session::begin(kernel, way.clone()) {
            Err(error) if error.is_temporary() && began.elapsed() < LOGIN_LIMIT => {
                let text = error.to_string();
                if said.as_ref() != Some(&text) {
                    tracing::warn!(
                        "cannot log in to {way} yet, the agent retries for {} s: {text}",
                        LOGIN_LIMIT.as_secs()
                    );
                    said = Some(text);
                }
                thread::sleep(backoff.pause());
            }
            ended => return ended,
        }
    }
}

fn report_disk(system: &SystemPath, session: &Session) {
    let (way, lun) = (&session.way, session.way.target.lun);
    let deadline = Instant::now() + DISK_LIMIT;
    loop {
        let disks = session.disks(system);
        if !disks.is_empty() {
            tracing::info!("/dev/{} is LUN {lun} of {way}", disks.join(", /dev/"));
            return;
        }
        if Instant::now() > deadline {
            tracing::warn!(
                "logged in to {way}, but it shows no disk with LUN {lun} after {} s -- compare the LUN in the firmware's iSCSI settings with the one that the array gives this initiator",
                DISK_LIMIT.as_secs()
            );
            return;
        }
        thread::sleep(DISK_LOOK);
    }
}

#[cfg(test)]
mod tests {
    use landfall_network::lab::nic;

    use super::*;

    /// The first target answers only after the login to the last one has begun.
    #[test]
    fn no_target_waits_for_another_one() {
        let (began, last) = std::sync::mpsc::channel();
        let last = Mutex::new(last);
        let ended = all_at_once(vec![1, 2, 3], |number| match number {
            1 => {
                let last = last.lock().unwrap();
                last.recv_timeout(Duration::from_secs(20)).ok()
            }
            2 => None,
            _ => {
                began.send(1).unwrap();
                Some(number)
            }
        });
        assert_eq!(ended, [1, 3]);
    }

    #[test]
    fn a_session_goes_over_the_device_above_the_nic() {
        let boot_nic = |vlan| BootNic {
            record: "ethernet0".to_owned(),
            mac: nic(2, false).mac,
            vlan,
        };
        let name = |nics: &[NicState], vlan| {
            let state = NetworkState {
                nics: nics.to_vec(),
                ..NetworkState::default()
            };
            leads_out_of(&state, &boot_nic(vlan)).map(|device| device.name.clone())
        };
        let plain = [nic(1, false), nic(2, false)];
        assert_eq!(name(&plain, None).as_deref(), Some("eth2"));
        assert_eq!(name(&plain, Some(7)).as_deref(), Some("eth2"));
        assert_eq!(name(&plain[..1], None), None);
        let mut port = nic(2, false);
        port.controller = Some(5);
        let mut bond = nic(5, false);
        bond.is_virtual = true;
        let mut vlan = nic(6, false);
        vlan.is_virtual = true;
        vlan.made_of = Some(MadeOf::Vlan {
            id: 7,
            parent: Some(5),
        });
        let stacked = [port, bond, vlan];
        assert_eq!(name(&stacked, None).as_deref(), Some("eth5"));
        assert_eq!(name(&stacked, Some(7)).as_deref(), Some("eth6"));
        assert_eq!(name(&stacked, Some(8)).as_deref(), Some("eth5"));
    }
}
