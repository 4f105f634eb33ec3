//! A node of Ironic's, and what an operator does with it.

use std::time::Duration;

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};

use super::bare_metal_api::BareMetalApi;

/// Without the agent: a few calls of the BMC.
const QUICK: Duration = Duration::from_secs(120);

/// From power on to the end of what the agent does: half a minute on a quiet
/// machine, five to ten times of it on a busy one.
const WITH_AGENT: Duration = Duration::from_secs(900);

/// An enrolled node.
pub struct Node {
    api: BareMetalApi,
    name: String,
    uuid: String,
}

/// What the enrolment is made of beside what all have.
#[derive(Debug, Clone)]
pub struct Enrolment {
    /// The node's name.
    pub name: String,
    /// The address of its NIC.
    pub mac: String,
    /// `redfish-virtual-media` or `ipxe`.
    pub boot_interface: &'static str,
    /// `direct` or `custom-agent`.
    pub deploy_interface: &'static str,
    /// `uefi` or `bios`.
    pub boot_mode: &'static str,
    /// The BMC's base URL.
    pub bmc: String,
    /// The machine's UUID at the BMC.
    pub system: String,
    /// More members of `driver_info`: kernel and ramdisk, or an ISO.
    pub media: Value,
    /// Addresses for the ramdisk.
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
    /// Enrols a node and has its BMC checked: it becomes manageable.
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

    async fn change(
        &self,
        target: &str,
        more: Value,
        wanted: &str,
        within: Duration,
    ) -> Result<Value> {
        let mut request = more;
        request["target"] = target.into();
        self.api
            .provision(&self.name, &request)
            .await
            .with_context(|| format!("asking for {target}"))?;
        self.api
            .wait_for(&self.name, wanted, within)
            .await
            .with_context(|| format!("after {target}"))
    }

    /// The node's UUID.
    #[must_use]
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// Has it inspected; returns the stored inventory.
    pub async fn inspect(&self) -> Result<Value> {
        self.change("inspect", json!({}), "manageable", WITH_AGENT)
            .await?;
        self.api
            .get(&format!("/v1/nodes/{}/inventory", self.name))
            .await
    }

    /// Waits until the agent, which stays after an inspection, is known to be
    /// there: only then is there a fast track.
    pub async fn heard_of_the_agent(&self) -> Result<()> {
        self.api
            .wait_until(&self.name, "a heartbeat", QUICK, |node| {
                node["driver_internal_info"]["agent_url"].is_string()
            })
            .await
            .map(drop)
    }

    /// Makes it available, which cleans it.
    pub async fn provide(&self) -> Result<()> {
        self.change("provide", json!({}), "available", WITH_AGENT)
            .await
            .map(drop)
    }

    /// Deploys it. Undeploying forgets `instance_info`, so it is given each time.
    pub async fn deploy(&self, instance_info: &Value, request: &Value) -> Result<()> {
        self.api
            .patch(&self.name, &[("/instance_info", instance_info.clone())])
            .await?;
        self.change("active", request.clone(), "active", WITH_AGENT)
            .await
            .map(drop)
    }

    /// Has the ramdisk hand it over to a user with this password.
    pub async fn rescue(&self, password: &str) -> Result<()> {
        let password = json!({"rescue_password": password});
        self.change("rescue", password, "rescue", WITH_AGENT)
            .await
            .map(drop)
    }

    /// Brings it back from there.
    pub async fn unrescue(&self) -> Result<()> {
        self.change("unrescue", json!({}), "active", WITH_AGENT)
            .await
            .map(drop)
    }

    /// Undeploys it, which cleans it.
    pub async fn undeploy(&self) -> Result<()> {
        self.change("deleted", json!({}), "available", WITH_AGENT)
            .await
            .map(drop)
    }
}
