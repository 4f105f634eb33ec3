//! Replaces another deploy ramdisk by ours and reverts to the other one, with the
//! requests and settings of docs/platforms/ironic.md: first in the node's
//! `driver_info`, then in ironic.conf.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use landfall_tests::artifacts;
use landfall_tests::image_server::{self, ServedFile};
use landfall_tests::installation::BOOT;
use landfall_tests::journal::{Mark, Source};
use landfall_tests::lab::{Family, Lab};
use landfall_tests::media;
use serde_json::{Value, json};

use super::configuration::{BootFiles, Configuration};
use super::node::{QUICK, WITH_AGENT};
use super::plan::Plan;
use super::restarts::agent_boots;
use super::scenario::{Place, check_inventory, note};
use crate::documented_arguments::code;

const PAGE: &str = include_str!("../../../docs/platforms/ironic.md");

/// The page's paths of our kernel and our ramdisk. The server in the page's URLs has
/// the address of the lab's image server.
const OURS: [&str; 2] = [
    "dib/files/ipa-debian-master.kernel",
    "dib/files/ipa-debian-master.initramfs",
];

/// The page's names of the old kernel and the old ramdisk. The page writes `LEFT_OUT`
/// for their server.
pub const OTHERS: [&str; 2] = [
    "ironic-python-agent.kernel",
    "ironic-python-agent.initramfs",
];
const LEFT_OUT: &str = "http://...";

/// Debian's statically linked busybox (package busybox-static).
const SHELL: &str = "/bin/busybox";

/// The line of the other ramdisk on the console.
const OTHER_RUNS: &str = "OTHER RAMDISK: running";
/// A part of the first line that our ramdisk prints on the console.
const WE_RUN: &str = "init: landfall";

/// /init of the other ramdisk. It repeats its line, because a line of the kernel can
/// interrupt it.
fn init() -> String {
    format!(
        "#!{SHELL} sh
{SHELL} mkdir -p /dev
{SHELL} mount -t devtmpfs dev /dev
exec > /dev/ttyS0 2>&1 < /dev/ttyS0
while :; do
  echo '{OTHER_RUNS}'
  {SHELL} sleep 2
done
"
    )
}

/// The two kernels and ramdisks, under the names that the page gives them.
pub(super) async fn files(lab: &Lab) -> Result<Vec<ServedFile>> {
    let shell = std::fs::read(SHELL)
        .with_context(|| format!("reading {SHELL} (package busybox-static)"))?;
    let content = [
        (SHELL.trim_start_matches('/'), shell),
        ("init", init().into_bytes()),
    ];
    let other = lab.path("other-ramdisk.img");
    media::append_archive(lab, &content, &other).await?;
    let (kernel, ours) = (artifacts::kernel()?, artifacts::ramdisk()?);
    let files = [
        (OURS[0], &kernel),
        (OURS[1], &ours),
        (OTHERS[0], &kernel),
        (OTHERS[1], &other),
    ];
    let read = files.into_iter();
    read.map(|(name, path)| ServedFile::read(name, path))
        .collect()
}

impl Place {
    /// At first both the node and ironic.conf name the other ramdisk.
    pub(super) async fn replacement(&self, lab: &Lab, plan: &Plan) -> Result<()> {
        self.boots_the_other(lab).await?;
        self.node.patch(&request("set", OURS[0])?).await?;
        self.boots_ours(lab).await?;
        self.node.patch(&request("set", OTHERS[0])?).await?;
        self.boots_the_other(lab).await?;

        self.node.patch(&request("unset", "deploy_kernel")?).await?;
        let ours = Configuration {
            boot_files: BootFiles::OfConductor(OURS),
            ..plan.configuration
        };
        self.ironic.configure(lab, &ours).await?;
        self.boots_ours(lab).await?;
        self.ironic.configure(lab, &plan.configuration).await?;
        self.boots_the_other(lab).await
    }

    /// Our agent inspects the node.
    async fn boots_ours(&self, lab: &Lab) -> Result<()> {
        let mark = lab.journal.mark();
        let clock = Instant::now();
        let inventory = self.node.inspect().await?;
        check_inventory(&inventory)?;
        agent_boots(lab, mark).await?;
        note(lab, "inspection", clock);
        ensure_not_on_the_console(lab, mark, OTHER_RUNS)
    }

    /// The other ramdisk has no agent, so the inspection that boots it is aborted.
    async fn boots_the_other(&self, lab: &Lab) -> Result<()> {
        let mark = lab.journal.mark();
        let clock = Instant::now();
        self.node.ask(&json!({"target": "inspect"})).await?;
        self.node.reaches("inspect wait", WITH_AGENT).await?;
        lab.journal
            .wait_for("the other ramdisk", mark, BOOT, |event| {
                event.source == Source::Console && event.text.contains(OTHER_RUNS)
            })
            .await?;
        ensure_not_on_the_console(lab, mark, WE_RUN)?;
        self.node.ask(&json!({"target": "abort"})).await?;
        self.node.fails("inspect failed").await?;
        self.node
            .change("manage", json!({}), "manageable", QUICK)
            .await?;
        note(lab, "boot of the other ramdisk", clock);
        Ok(())
    }
}

fn ensure_not_on_the_console(lab: &Lab, mark: Mark, text: &str) -> Result<()> {
    let found = lab.journal.find(mark, |event| {
        event.source == Source::Console && event.text.contains(text)
    });
    ensure!(found.is_none(), "the wrong ramdisk boots: {found:?}");
    Ok(())
}

/// The page's command `baremetal node VERB NODE` that contains `part`, as the JSON patch
/// that the command sends.
fn request(verb: &str, part: &str) -> Result<Value> {
    let command = format!("baremetal node {verb} NODE");
    let lines = code(PAGE);
    let line = lines
        .iter()
        .map(|(_, line)| line)
        .find(|line| line.starts_with(&command) && line.contains(part))
        .with_context(|| format!("the page has no '{command}' with {part}"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let members = words.windows(2).filter(|pair| pair[0] == "--driver-info");
    let server = Family::V4.url(image_server::PORT);
    let patch = members.map(|pair| match pair[1].split_once('=') {
        Some((name, value)) => json!({
            "op": "add", "path": format!("/driver_info/{name}"),
            "value": value.replace(LEFT_OUT, &server),
        }),
        None => json!({"op": "remove", "path": format!("/driver_info/{}", pair[1])}),
    });
    Ok(patch.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_requests() {
        let add = |member: &str, file: &str| {
            let value = image_server::url(Family::V4, file);
            json!({"op": "add", "path": format!("/driver_info/deploy_{member}"), "value": value})
        };
        for [kernel, ramdisk] in [OURS, OTHERS] {
            let both = json!([add("kernel", kernel), add("ramdisk", ramdisk)]);
            assert_eq!(request("set", kernel).unwrap(), both);
        }
        let both = json!([
            {"op": "remove", "path": "/driver_info/deploy_kernel"},
            {"op": "remove", "path": "/driver_info/deploy_ramdisk"},
        ]);
        assert_eq!(request("unset", "deploy_kernel").unwrap(), both);
        assert!(request("unset", "no such value").is_err());
    }

    #[test]
    fn the_settings_are_those_of_the_page() {
        let configuration = Configuration {
            boot_files: BootFiles::OfConductor(OURS),
            ..Configuration::default()
        };
        let written = configuration.boot_files("esp.img");
        let mut shown: Vec<String> = code(PAGE).into_iter().map(|(_, line)| line).collect();
        shown.retain(|line| line.starts_with("deploy_") && line.contains(" = "));
        assert_eq!(shown.len(), 2, "{shown:?}");
        for line in &shown {
            assert!(written.lines().any(|other| other == line), "{line}");
        }
    }
}
