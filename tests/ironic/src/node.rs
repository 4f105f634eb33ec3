//! A node in Ironic, with an operator's actions on it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::bare_metal_api::BareMetalApi;

/// The time limit for changes without the agent: they need only a few calls to the BMC.
pub(super) const QUICK: Duration = Duration::from_secs(120);

/// The time limit for changes with the agent, from power on to the end of its work.
/// They take half a minute on an idle machine, and five to ten times as long on a busy
/// one.
pub(super) const WITH_AGENT: Duration = Duration::from_secs(900);

/// Pause between polls of a node that has to fail.
const PAUSE: Duration = Duration::from_millis(500);

pub struct Node {
    api: BareMetalApi,
    name: String,
    uuid: String,
}

/// The properties in which enrolments differ.
#[derive(Debug, Clone)]
pub struct Enrolment {
    pub name: String,
    /// The MAC address of the node's NIC.
    pub mac: String,
    /// Ironic's boot interface, such as `redfish-virtual-media` or `ipxe`.
    pub boot_interface: &'static str,
    /// Ironic's deploy interface: `direct` or `custom-agent`.
    pub deploy_interface: &'static str,
    /// How the node boots: `uefi` or `bios`.
    pub boot_mode: &'static str,
    /// The base URL of the BMC.
    pub bmc: String,
    /// The UUID of the machine at the BMC.
    pub system: String,
    /// Further fields of `driver_info`: kernel and ramdisk, or an ISO.
    pub media: Value,
    /// The ramdisk's network configuration.
    pub network_data: Option<Value>,
}

impl Enrolment {
    fn document(&self) -> Value {
        let mut driver_info = json!({
            "redfish_address": self.bmc,
            "redfish_system_id": format!("/redfish/v1/Systems/{}", self.system),
            "redfish_username": "admin",
            "redfish_password": "password",
        });
        if let (Some(all), Some(media)) = (driver_info.as_object_mut(), self.media.as_object()) {
            all.extend(media.clone());
        }
        let mut document = json!({
            "name": self.name,
            "driver": "redfish",
            "boot_interface": self.boot_interface,
            "deploy_interface": self.deploy_interface,
            "rescue_interface": "agent",
            "raid_interface": "agent",
            "properties": {
                "cpu_arch": "x86_64",
                "capabilities": format!("boot_mode:{}", self.boot_mode),
            },
            "driver_info": driver_info,
        });
        if let Some(network_data) = &self.network_data {
            document["network_data"] = network_data.clone();
        }
        document
    }
}

impl Node {
    /// Enrols a node and requests the state "manageable", for which Ironic checks the
    /// BMC.
    pub async fn enrol(api: &BareMetalApi, enrolment: &Enrolment) -> Result<Self> {
        let document = enrolment.document();
        let made = api
            .request(Method::POST, "/v1/nodes", Some(&document))
            .await?;
        let uuid = made["uuid"].as_str().context("a node without uuid")?;
        let port = json!({"node_uuid": uuid, "address": enrolment.mac, "pxe_enabled": true});
        api.request(Method::POST, "/v1/ports", Some(&port)).await?;
        let node = Self {
            api: api.clone(),
            name: enrolment.name.clone(),
            uuid: uuid.to_owned(),
        };
        node.change("manage", json!({}), "manageable", QUICK)
            .await?;
        Ok(node)
    }

    /// Requests the provision state `target`, with the fields of `more` in the request.
    /// Waits until the node has the state `wanted`.
    pub(super) async fn change(
        &self,
        target: &str,
        more: Value,
        wanted: &str,
        within: Duration,
    ) -> Result<Value> {
        let mut request = more;
        request["target"] = target.into();
        self.ask(&request).await?;
        self.reaches(wanted, within)
            .await
            .with_context(|| format!("after {target}"))
    }

    /// Requests a provision state. The body, `request`, is `{"target": ..., ...}`.
    pub(super) async fn ask(&self, request: &Value) -> Result<()> {
        self.api
            .provision(&self.name, request)
            .await
            .with_context(|| format!("asking for {}", request["target"]))
    }

    pub(super) async fn reaches(&self, state: &str, within: Duration) -> Result<Value> {
        self.api.wait_for(&self.name, state, within).await
    }

    /// Waits for a failure state and returns `last_error`.
    pub(super) async fn fails(&self, state: &str) -> Result<String> {
        let deadline = Instant::now() + WITH_AGENT;
        loop {
            let node = self.api.node(&self.name).await?;
            if node["provision_state"] == state {
                return Ok(node["last_error"].as_str().unwrap_or_default().to_owned());
            }
            let found = &node["provision_state"];
            ensure!(
                Instant::now() < deadline,
                "waiting for {state}: still {found}"
            );
            sleep(PAUSE).await;
        }
    }

    /// Sets fields of the node. The paths are JSON pointers.
    pub(super) async fn set(&self, members: &[(&str, Value)]) -> Result<()> {
        self.api.patch(&self.name, members).await.map(drop)
    }

    /// Changes the node by a JSON patch.
    pub(super) async fn patch(&self, patch: &Value) -> Result<()> {
        let path = format!("/v1/nodes/{}", self.name);
        self.api
            .request(Method::PATCH, &path, Some(patch))
            .await
            .map(drop)
    }

    /// Creates a runbook of these steps and allows it for this node.
    pub(super) async fn add_runbook(&self, name: &str, steps: Value) -> Result<()> {
        let runbook = json!({"name": name, "steps": steps});
        let put = async |path: String| self.api.request(Method::PUT, &path, None).await;
        self.api
            .request(Method::POST, "/v1/runbooks", Some(&runbook))
            .await?;
        put(format!("/v1/runbooks/{name}/traits/{name}")).await?;
        put(format!("/v1/nodes/{}/traits/{name}", self.name)).await?;
        Ok(())
    }

    #[must_use]
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// Inspects the node and returns the stored inventory.
    pub async fn inspect(&self) -> Result<Value> {
        self.change("inspect", json!({}), "manageable", WITH_AGENT)
            .await?;
        self.api
            .get(&format!("/v1/nodes/{}/inventory", self.name))
            .await
    }

    /// The status text of the agent's last heartbeat, as Ironic keeps it.
    pub(super) async fn status_message(&self) -> Result<String> {
        let node = self.api.node(&self.name).await?;
        let kept = &node["driver_internal_info"];
        ensure!(
            kept["agent_last_heartbeat"].is_string(),
            "expected the time of the last heartbeat, found {kept}"
        );
        let message = kept["agent_status_message"].as_str();
        let message = message.with_context(|| format!("no status message in {kept}"))?;
        Ok(message.to_owned())
    }

    /// Waits until Ironic knows the agent that keeps running after an inspection.
    /// Fast track requires this.
    pub async fn until_agent_known(&self) -> Result<()> {
        self.api
            .wait_until(&self.name, "a heartbeat", QUICK, |node| {
                node["driver_internal_info"]["agent_url"].is_string()
            })
            .await
            .map(drop)
    }

    /// Makes the node available. Ironic cleans it for that.
    pub async fn provide(&self) -> Result<()> {
        self.change("provide", json!({}), "available", WITH_AGENT)
            .await
            .map(drop)
    }

    /// Deploys the node and waits for the end.
    pub async fn deploy(&self, instance_info: &Value, request: &Value) -> Result<()> {
        self.begin_to_deploy(instance_info, request).await?;
        self.is_deployed().await
    }

    /// Starts a deployment. Undeploying deletes `instance_info`, so each deployment
    /// sets it.
    pub(super) async fn begin_to_deploy(
        &self,
        instance_info: &Value,
        request: &Value,
    ) -> Result<()> {
        self.set(&[("/instance_info", instance_info.clone())])
            .await?;
        let mut request = request.clone();
        request["target"] = "active".into();
        self.ask(&request).await
    }

    /// Waits for the end of a deployment.
    pub(super) async fn is_deployed(&self) -> Result<()> {
        self.reaches("active", WITH_AGENT).await.map(drop)
    }

    /// Rescues the node: the ramdisk then lets a user log in with this password.
    pub async fn rescue(&self, password: &str) -> Result<()> {
        self.ask_for_rescue(password).await?;
        self.reaches("rescue", WITH_AGENT).await.map(drop)
    }

    /// Requests the rescue without waiting.
    pub(super) async fn ask_for_rescue(&self, password: &str) -> Result<()> {
        self.ask(&json!({"target": "rescue", "rescue_password": password}))
            .await
    }

    /// Ends the rescue.
    pub async fn unrescue(&self) -> Result<()> {
        self.change("unrescue", json!({}), "active", WITH_AGENT)
            .await
            .map(drop)
    }

    /// Undeploys the node. Ironic then cleans it.
    pub async fn undeploy(&self) -> Result<()> {
        self.change("deleted", json!({}), "available", WITH_AGENT)
            .await
            .map(drop)
    }
}
