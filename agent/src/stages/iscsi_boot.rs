//! The stage that logs in to the iSCSI targets in the firmware's table (iBFT), so that
//! the disk of a host that boots from iSCSI is present before the inventory is
//! gathered.

use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use landfall_boot_params::NetArgs;
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
use tokio::sync::{oneshot, watch as watch_channel};
use tokio::time::{timeout, timeout_at};

use super::Boot;

/// How long the agent waits for an address of the NIC before it checks whether the NIC
/// exists at all. A switch may need 30 s before it forwards packets, and DHCP may need 30
/// s more.
const NIC_LIMIT: Duration = Duration::from_secs(60);
/// How long the boot waits for all targets: [`NIC_LIMIT`], and a login after it.
const BOOT_LIMIT: Duration = Duration::from_secs(65);
/// How long one target may be unreachable or busy. The limit is the same as for
/// NVMe/TCP: the storage has this time to start after a power cut of the whole room.
const LOGIN_LIMIT: Duration = Duration::from_secs(600);
/// How long the kernel may look for the disk of a session.
const DISK_LIMIT: Duration = Duration::from_secs(10);
const DISK_LOOK: Duration = Duration::from_millis(100);

impl Boot {
    /// Logs in to the targets. If a target cannot be reached or rejects the login, the
    /// agent reports this on the console and the boot continues, because the disk may
    /// not be the one to install. The agent retries for longer than the boot waits.
    ///
    /// In a live system the initramfs or iscsid has already logged in.
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
        if NetArgs::from_command_line(&self.settings.command_line).ignores_ibft_targets {
            tracing::info!(
                "rd.iscsi.firmware=0 is given, so the agent does not log in to the targets of the firmware's iSCSI table (iBFT)"
            );
            return;
        }
        for fault in &table.faults {
            tracing::warn!("the firmware's iSCSI table (iBFT): {fault}");
        }
        if table.targets.is_empty() {
            return;
        }
        begin_step("logging in to the firmware's iSCSI targets");
        landfall_init::modprobe(&kernel::MODULE.into());
        let has_other_paths = table.targets.len() > 1;
        let mut begun = Vec::new();
        for (number, target) in (0..).zip(table.targets) {
            if let Some(card) = self.card_of(&system, &target) {
                tracing::info!(
                    "the agent does not log in to {target}: {card} has a session of its own"
                );
                continue;
            }
            let way = Way {
                initiator: table.initiator.clone(),
                target,
                nic: None,
                has_other_paths,
                number,
                is_trial: false,
            };
            // Each target has its own task, thread and socket, so that a target that
            // does not answer does not delay the others. A table has at most 16
            // targets.
            let (end, ended) = oneshot::channel();
            tokio::spawn(log_in_over_nic(self.network.clone(), way, end));
            begun.push(ended);
        }
        if timeout(BOOT_LIMIT, join_all(begun)).await.is_err() {
            tracing::warn!(
                "the boot continues without a disk of the firmware's iSCSI targets; the agent tries to log in for {} min",
                LOGIN_LIMIT.as_secs() / 60
            );
        }
    }

    /// The card that has its own session to this target, if any. A second login would
    /// make the same disk appear twice.
    fn card_of(&self, system: &SystemPath, target: &BootTarget) -> Option<String> {
        let session = sessions(system).into_iter().find(|known| {
            let same_portal = known.portal.is_none_or(|portal| portal == target.portal);
            !known.is_software && known.target == target.name && same_portal
        });
        if let Some(session) = session {
            return Some(format!("the card of host{}", session.kernel.host));
        }
        // The target may name the MAC address of a card's own iSCSI function. No NIC has
        // this address, but the iSCSI host of the card shows it.
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
}

/// Waits for the NIC of the target, then starts a thread that logs in and keeps the
/// session. `end` is dropped when the disk is present, or when the boot need not wait
/// for the disk.
async fn log_in_over_nic(
    network: watch_channel::Receiver<NetworkState>,
    mut way: Way,
    end: oneshot::Sender<()>,
) {
    if let Some(nic) = way.target.nic.clone() {
        match nic_to(network, &nic, &way.target).await {
            Leaving::Over(name) => way.nic = Some(name),
            Leaving::ByRoute => (),
            Leaving::Never => return,
        }
    }
    let keep = move || keep_session(way, end);
    // The thread runs as long as the process. When the agent is restarted, the kernel
    // keeps the connection without the agent.
    if let Err(error) = thread::Builder::new().name("iscsi".to_owned()).spawn(keep) {
        tracing::error!(
            "cannot start the thread that logs in to an iSCSI target: {error} -- give this host more memory"
        );
    }
}

/// How packets to a target leave this machine.
#[derive(Debug, PartialEq, Eq)]
enum Leaving {
    /// Over the device of this name.
    Over(String),
    /// The machine does not have the NIC of the table.
    ByRoute,
    /// The NIC got no address.
    Never,
}

/// Waits until the NIC in the table, or its VLAN, has an address. A login over another
/// NIC could reach another network, and in that network another machine with the same
/// address.
async fn nic_to(
    mut network: watch_channel::Receiver<NetworkState>,
    nic: &BootNic,
    target: &BootTarget,
) -> Leaving {
    let began = tokio::time::Instant::now();
    for limit in [NIC_LIMIT, LOGIN_LIMIT] {
        let is_ready =
            |state: &NetworkState| leads_out_of(state, nic).is_some_and(NicState::is_online);
        if let Ok(Ok(state)) = timeout_at(began + limit, network.wait_for(is_ready)).await
            && let Some(device) = leads_out_of(&state, nic)
        {
            return Leaving::Over(device.name.clone());
        }
        let state = network.borrow();
        let Some(known) = state.nics.iter().find(|known| has_mac(known, nic.mac)) else {
            tracing::warn!(
                "found no NIC with MAC {} in {} s, over which the firmware reaches {target}; the agent follows the routes instead -- look above for a NIC without a driver",
                nic.mac,
                limit.as_secs()
            );
            return Leaving::ByRoute;
        };
        let place = match nic.vlan {
            Some(id) => format!("VLAN {id} on {}", known.name),
            None => known.name.clone(),
        };
        let next = match limit == LOGIN_LIMIT {
            true => "does not log in".to_owned(),
            false => format!("waits for {} min", LOGIN_LIMIT.as_secs() / 60),
        };
        tracing::warn!(
            "{place} has no address after {} s, and the firmware reaches {target} over it; the agent {next} -- check the cable, or boot with ip=ibft for the firmware's own network",
            limit.as_secs()
        );
    }
    Leaving::Never
}

fn has_mac(nic: &NicState, mac: landfall_boot_params::MacAddr) -> bool {
    !nic.is_virtual && [Some(nic.mac), nic.permanent_mac].contains(&Some(mac))
}

/// The device that carries this NIC's traffic: the VLAN in the table. If the table has no
/// VLAN: the bond or bridge that has the NIC as a port, or else the NIC itself. `None` if
/// the NIC or the VLAN does not exist: without the VLAN tag, a login would reach another
/// network.
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
    nic.vlan.is_none().then_some(device)
}

/// Logs in to the target, and keeps the session as long as the process lives.
fn keep_session(way: Way, end: oneshot::Sender<()>) {
    let mut kernel = match Kernel::open() {
        Ok(kernel) => kernel,
        Err(error) => {
            tracing::error!(
                "cannot log in to {way}: expected the kernel module {}, found none: {error} -- use a ramdisk whose kernel has it",
                kernel::MODULE
            );
            return;
        }
    };
    let system = SystemPath::live();
    let mut end = Some(end);
    let Some(session) = begin_or_say_why(&mut kernel, &system, way, &mut end) else {
        return;
    };
    drop(end);
    if let Err(error) = watch::watch(kernel, session) {
        tracing::error!(
            "cannot receive the kernel's iSCSI events: {error}; the agent does not restore a lost connection -- start the host again before you write to its disks"
        );
    }
}

fn begin_or_say_why(
    kernel: &mut Kernel,
    system: &SystemPath,
    way: Way,
    end: &mut Option<oneshot::Sender<()>>,
) -> Option<Session> {
    let result = match Session::of_earlier_run(system, &way) {
        Some(session) => {
            tracing::info!(
                "the kernel still has the session to {way} of an earlier run of the agent"
            );
            Ok(session)
        }
        None => begin(kernel, &way, end),
    };
    match result {
        Ok(session) => {
            // The earlier run of the agent may have ended before its scan. A second scan
            // changes nothing.
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

/// Retries while the target cannot be reached, or while it gives an answer that a
/// storage may also give while it starts. After such an answer the boot does not wait
/// any longer, because the usual cause is a wrong setting.
fn begin(
    kernel: &mut Kernel,
    way: &Way,
    end: &mut Option<oneshot::Sender<()>>,
) -> Result<Session, SessionError> {
    let began = Instant::now();
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
    let mut reported = None;
    loop {
        match Session::begin(kernel, way.clone()) {
            Err(error) if error.may_pass() && began.elapsed() < LOGIN_LIMIT => {
                if !error.is_temporary() {
                    *end = None;
                }
                let text = error.to_string();
                if reported.as_ref() != Some(&text) {
                    tracing::warn!(
                        "cannot log in to {way} yet, the agent tries for {} min: {text} -- {}",
                        LOGIN_LIMIT.as_secs() / 60,
                        error.remedy()
                    );
                    reported = Some(text);
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
    use landfall_iscsi::Lun;
    use landfall_network::lab::{address, nic};
    use landfall_network::state::AddressOrigin;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_login_goes_over_the_nic_of_the_table_only() {
        let (machine, network) = watch_channel::channel(NetworkState::default());
        let boot_nic = BootNic {
            record: "ethernet0".to_owned(),
            mac: nic(2, false).mac,
            vlan: None,
        };
        let target = BootTarget {
            record: "target0".to_owned(),
            name: "iqn.2003-01.org.example:disk".to_owned(),
            portal: ([192, 0, 2, 1], 3260).into(),
            lun: Lun::from_firmware("0000000000000000").unwrap(),
            nic: Some(boot_nic.clone()),
            chap: None,
        };
        let leaving = async || {
            let began = tokio::time::Instant::now();
            let leaving = nic_to(network.clone(), &boot_nic, &target).await;
            (leaving, began.elapsed())
        };
        assert_eq!(leaving().await, (Leaving::ByRoute, NIC_LIMIT));
        machine.send_modify(|state| state.nics = vec![nic(1, false), nic(2, false)]);
        assert_eq!(leaving().await, (Leaving::Never, LOGIN_LIMIT));
        machine.send_modify(|state| {
            let lease = address("192.0.2.2/24", AddressOrigin::RouterAdvertisement);
            state.nics[1].addresses.push(lease);
        });
        let over = Leaving::Over("eth2".to_owned());
        assert_eq!(leaving().await, (over, Duration::ZERO));
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
        assert_eq!(name(&plain, Some(7)), None);
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
        assert_eq!(name(&stacked, Some(8)), None);
    }
}
