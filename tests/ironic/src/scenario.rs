//! Runs a scenario: enrols a node, runs the plan's story on it, and checks the results.

use std::fs::File;
use std::io::Read;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use landfall_tests::config_drive;
use landfall_tests::ignition::{INSTALLED_SYSTEM_LATER_BOOT, INSTALLED_SYSTEM_OK, Proof};
use landfall_tests::image_server;
use landfall_tests::installation::{FIRST_BOOT, check_applied};
use landfall_tests::journal::{Event, Mark, Source};
use landfall_tests::lab::{Family, GUEST_V4, Lab};
use landfall_tests::site::MAC;
use serde_json::Value;

use super::configuration::SSH_KEY;
use super::controller::Controller;
use super::guest::{Guest, POWER_ON};
use super::node::Node;
use super::plan::{Addresses, Boot, Deploy, Plan, Story, network_data};
use super::{Ironic, RESCUE_RAMDISK, complaints, keep, rescue_login};

/// Enrols a node and runs the plan's story on it. The disk must boot after each
/// deployment, and Ironic's log must contain nothing against the agent.
pub async fn run(lab: &Lab, plan: &Plan) -> Result<()> {
    let place = Place::start(lab, plan).await?;
    let result = place.play(lab, plan).await;
    if let Err(error) = &result {
        lab.journal
            .record(Source::Machine, format!("the scenario ended: {error:#}"));
    }
    if keep::wanted() {
        keep::until_interrupted(lab, &plan.configuration).await?;
    }
    result?;
    no_key_on_the_console(lab)?;
    nothing_held_against_the_agent(lab, plan)
}

/// In characters: the maximum length of a status message (docs/compatibility.md).
const MESSAGE_LIMIT: usize = 255;

/// The password of the user who rescues the node.
const PASSWORD: &str = "a password of the lab";

/// A lab with one enrolled node in the state manageable.
pub struct Place {
    pub(super) ironic: Ironic,
    pub(super) guest: Guest,
    pub(super) node: Node,
    pub(super) instance_info: Value,
    _controller: Option<Controller>,
}

impl Place {
    /// Starts all services and enrols the node.
    pub async fn start(lab: &Lab, plan: &Plan) -> Result<Self> {
        let files = plan.files(lab).await?;
        let has_dhcp = plan.addresses == Addresses::Dhcp;
        let dhcp_for = has_dhcp.then(|| (MAC, plan.network_boot(lab)));
        let clock = Instant::now();
        let image = files[0].clone();
        let ironic = Ironic::start(lab, &plan.configuration, files, dhcp_for).await?;
        let instance_info = plan.instance_info(lab, &image)?;
        note(lab, "start of the services", clock);
        let guest = plan.guest(lab);
        let system = guest.define(lab).await?;
        let clock = Instant::now();
        let controller = match plan.boot {
            Boot::ControllerIso => {
                let arguments = plan.own_iso_arguments();
                Some(Controller::start(lab, &arguments, &network_data()).await?)
            }
            _ => None,
        };
        let url = controller.as_ref().map(|made| &*made.image_url);
        let enrolment = plan.enrolment(lab, &guest, &system, url)?;
        let node = Node::enrol(&ironic.api, &enrolment).await?;
        note(lab, "enrolment", clock);
        Ok(Self {
            ironic,
            guest,
            node,
            instance_info,
            _controller: controller,
        })
    }

    async fn play(&self, lab: &Lab, plan: &Plan) -> Result<()> {
        match plan.story {
            Story::TwoDeployments | Story::OneDeployment => self.deployments(lab, plan).await?,
            Story::Operations => self.operations(lab, plan).await?,
            Story::Restarts => self.restarts(lab, plan).await?,
            Story::Refusals => self.refusals(lab, plan).await?,
            Story::Replacement => self.replacement(lab, plan).await?,
        }
        if plan.rescue {
            self.rescue(lab).await?;
        }
        if let Some(registry) = &self.ironic.registry {
            registry.check_redirection(&self.ironic.images)?;
        }
        Ok(())
    }

    async fn deployments(&self, lab: &Lab, plan: &Plan) -> Result<()> {
        let clock = Instant::now();
        let inventory = self.node.inspect().await?;
        check_inventory(&inventory)?;
        note(lab, "inspection", clock);
        if plan.configuration.fast_track {
            self.node.until_agent_known().await?;
        }

        let clock = Instant::now();
        self.node.provide().await?;
        note(lab, "providing", clock);
        if plan.partition_image {
            self.refuse_partition_image(plan).await?;
        }

        self.deploy(lab, plan).await?;
        if plan.configuration.fast_track {
            // There must be two power-ons: one for the agent, one for the installed system.
            ensure_power_cycles(lab, 2)?;
        }
        if plan.story == Story::OneDeployment {
            return Ok(());
        }
        self.undeploy(lab).await?;
        self.deploy(lab, plan).await
    }

    /// Deploys a partition image. The agent must refuse it, and Ironic must show
    /// the reason.
    async fn refuse_partition_image(&self, plan: &Plan) -> Result<()> {
        let info = plan.partition_image(&self.instance_info);
        let request = plan.request(&Proof::new(plan.host_name()));
        self.node.begin_to_deploy(&info, &request).await?;
        let error = self.node.fails("deploy failed").await?;
        let reason = "this agent does not support partition images";
        ensure!(
            error.contains(reason),
            "expected '{reason}', found '{error}'"
        );
        Ok(())
    }

    /// Undeploys the node, waits until Ironic has cleaned it, and checks the disk.
    pub(super) async fn undeploy(&self, lab: &Lab) -> Result<()> {
        let clock = Instant::now();
        self.node.undeploy().await?;
        note(lab, "undeploying", clock);
        ensure_no_table(&self.guest)
    }

    /// First, a ramdisk without a rescue layer must reject the rescue. Then, with a
    /// rescue layer, a user logs in to the ramdisk. The disk stays unchanged.
    async fn rescue(&self, lab: &Lab) -> Result<()> {
        self.node.ask_for_rescue(PASSWORD).await?;
        let error = self.node.fails("rescue failed").await?;
        let reason = "this ramdisk has no rescue layer";
        ensure!(
            error.contains(reason),
            "expected '{reason}', found '{error}'"
        );

        let ramdisk = image_server::url(Family::V4, RESCUE_RAMDISK);
        self.node
            .set(&[("/driver_info/rescue_ramdisk", ramdisk.into())])
            .await?;
        let mark = lab.journal.mark();
        let clock = Instant::now();
        self.node.rescue(PASSWORD).await?;
        note(lab, "rescue", clock);
        rescue_login::check(lab, mark, PASSWORD).await?;
        config_drive::partitions(&self.guest.disk.display().to_string()).await?;
        let clock = Instant::now();
        self.node.unrescue().await?;
        note(lab, "end of the rescue", clock);
        installed_system_again(lab, mark).await
    }

    /// Deploys the node and boots its disk.
    pub(super) async fn deploy(&self, lab: &Lab, plan: &Plan) -> Result<()> {
        self.deploy_across(lab, plan, async |_| Ok(())).await
    }

    /// Like [`Self::deploy`]. Calls `event` after the request for deployment, with
    /// the position of the request in the journal.
    pub(super) async fn deploy_across(
        &self,
        lab: &Lab,
        plan: &Plan,
        event: impl AsyncFnOnce(Mark) -> Result<()>,
    ) -> Result<()> {
        let mark = lab.journal.mark();
        let clock = Instant::now();
        let proof = Proof::new(plan.host_name());
        self.node
            .begin_to_deploy(&self.instance_info, &plan.request(&proof))
            .await?;
        event(mark).await?;
        self.node.is_deployed().await?;
        note(lab, "deployment", clock);
        self.kept_status_message(lab).await?;
        let clock = Instant::now();
        installed_system(lab, mark).await?;
        note(lab, "first boot", clock);
        let disk = self.guest.disk.display().to_string();
        config_drive::partitions(&disk).await?;
        if plan.deploy == Deploy::InstallCoreos {
            check_applied(&lab.journal, mark, &proof)?;
        }
        if plan.addresses == Addresses::Secret {
            let address = format!(" {GUEST_V4}/24;");
            let text = ["net: addresses: ", &address];
            lab.journal.line(Source::Console, mark, &text)?;
        }
        Ok(())
    }

    /// Checks that Ironic keeps the status text of the agent's last heartbeat, as
    /// docs/events.md says. The agent may have sent the heartbeat between two commands
    /// or during a command.
    async fn kept_status_message(&self, lab: &Lab) -> Result<()> {
        let message = self.node.status_message().await?;
        lab.journal
            .record(Source::Machine, format!("Ironic keeps: {message}"));
        let is_of_agent = ["waiting for commands from Ironic", "running "]
            .into_iter()
            .any(|step| message.starts_with(step));
        ensure!(
            is_of_agent && message.chars().count() <= MESSAGE_LIMIT,
            "Ironic keeps the status message {message:?}"
        );
        Ok(())
    }
}

/// Checks that the console shows the key of `sshkey=` only in the kernel's own lines
/// about its command line.
fn no_key_on_the_console(lab: &Lab) -> Result<()> {
    let shown = lab.journal.find(lab.journal.start(), |event| {
        event.source == Source::Console
            && event.text.contains(SSH_KEY)
            && !event.text.contains("ommand line")
    });
    ensure!(shown.is_none(), "the console shows the key: {shown:?}");
    Ok(())
}

fn nothing_held_against_the_agent(lab: &Lab, plan: &Plan) -> Result<()> {
    let events = lab.journal.events();
    let log = events
        .iter()
        .filter(|event| event.source == Source::Ironic)
        .map(|event| event.text.as_str());
    let complaints = complaints::complaints(log, plan);
    ensure!(
        complaints.is_empty(),
        "Ironic's log holds against the agent:\n{}",
        complaints.join("\n")
    );
    Ok(())
}

/// Records in the journal how long a part of the scenario took.
pub(super) fn note(lab: &Lab, what: &str, since: Instant) {
    let seconds = since.elapsed().as_secs_f64();
    lab.journal
        .record(Source::Machine, format!("{what} took {seconds:.1} s"));
}

fn ensure_power_cycles(lab: &Lab, wanted: usize) -> Result<()> {
    let events = lab.journal.events();
    let power_on = |event: &&Event| event.source == Source::Machine && event.text == POWER_ON;
    let found = events.iter().filter(power_on).count();
    ensure!(
        found == wanted,
        "expected {wanted} times power on, found {found}"
    );
    Ok(())
}

async fn installed_system(lab: &Lab, mark: Mark) -> Result<()> {
    lab.journal
        .wait_for("the installed system", mark, FIRST_BOOT, |event| {
            event.source == Source::Console && event.text.contains(INSTALLED_SYSTEM_OK)
        })
        .await?;
    // The installed system then switches the host off. Do not wait for that: Ironic has
    // already read the power state from the BMC.
    Ok(())
}

/// Waits for a later boot of the installed system, in which Ignition has nothing to
/// do.
pub(super) async fn installed_system_again(lab: &Lab, mark: Mark) -> Result<()> {
    lab.journal
        .wait_for("the installed system", mark, FIRST_BOOT, |event| {
            event.source == Source::Console && event.text.contains(INSTALLED_SYSTEM_LATER_BOOT)
        })
        .await
        .map(drop)
}

/// Checks that the inventory matches the guest.
pub(super) fn check_inventory(stored: &Value) -> Result<()> {
    let inventory = &stored["inventory"];
    let disk = &inventory["disks"][0];
    ensure!(
        disk["name"] == "/dev/vda" && disk["serial"] == "disk0",
        "the inventory's first disk is {disk}"
    );
    let nic = &inventory["interfaces"][0];
    ensure!(
        nic["mac_address"] == MAC,
        "the inventory's first NIC is {nic}"
    );
    Ok(())
}

/// The number of 512-byte sectors that ironic-python-agent erases at the start of a
/// disk, for a GPT.
const ERASED_SECTORS: usize = 33;

/// Fails unless these sectors are empty after cleaning: no firmware may recognise the
/// disk as bootable.
fn ensure_no_table(guest: &Guest) -> Result<()> {
    let mut start = vec![0; ERASED_SECTORS * 512];
    File::open(&guest.disk)
        .and_then(|mut disk| disk.read_exact(&mut start))
        .with_context(|| format!("reading {}", guest.disk.display()))?;
    ensure!(
        start.iter().all(|byte| *byte == 0),
        "the disk has something in its first {ERASED_SECTORS} sectors after cleaning"
    );
    Ok(())
}
