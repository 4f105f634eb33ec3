//! Finds the lines of Ironic's log that report a fault of the agent. Has no side
//! effects.
//!
//! Every warning and error counts, except those that any agent would cause and
//! those that have nothing to do with an agent.

use super::plan::{Boot, Plan, Story};

/// Allowed lines: a part of the text, and the reason.
const ALLOWED: &[(&str, &str)] = &[
    (
        "Ironic has been configured to utilize SQLite",
        "the lab's database",
    ),
    (
        "\"available_for_dynamic_portgroup\"",
        "a notification that this release of Ironic cannot fill in, of a port made by the API",
    ),
    (
        "Could not discover the Session service path",
        "the emulated BMC has no sessions",
    ),
    (
        "Driver redfish does not support firmware",
        "the node has firmware_interface no-firmware",
    ),
    (
        "An agent token generation request is being refused",
        "a lookup after virtual media has brought the token: Ironic's agent asks there, too, \
         and the answer's configuration is wanted",
    ),
    (
        "is currently locked, skipping heartbeat processing",
        "the heartbeat at the end of a command comes while Ironic is still asking for its result",
    ),
    (
        "was found during inspection lookup with MAC addresses",
        "an ISO with both URLs has its inventory posted at each boot, by Ironic's agent, too",
    ),
    (
        "DHCP driver appears set to a plugin aside from \"neutron\"",
        "the lab's dnsmasq is not Ironic's",
    ),
];

/// After the last clean step, or when the node is undeployed, Ironic deletes the token
/// first and switches the host off afterwards (`_do_next_clean_step` in
/// ironic/conductor/cleaning.py, `_do_node_tear_down` in manager.py). Between these two
/// actions Ironic rejects a heartbeat, even from its own agent.
const CLEANED: &str = "Executing automated cleaning on node";
const NOTHING_LEFT: &str = "remaining steps: []";
const UNDEPLOYED: &str = "moved to provision state \"deleting\"";
const POWERED_OFF: &str = "power state to power off";
const TOKEN_FORGOTTEN: &str = "Invalid or missing agent_token received";

/// sushy-tools asks libvirt twice about a host. If the host is switched off in between,
/// sushy-tools answers 500, and sushy asks again.
const SWITCHED_OFF: (&str, &str) = (
    "WARNING sushy.connector",
    "Requested operation is not valid: domain is not running",
);

const RESTARTED: (&str, &str) = (
    "A conductor with hostname lab was previously registered",
    "it was killed, and is started again",
);

/// Lines that are allowed for this plan only, most of them because the plan makes
/// something fail: a part of the text, and the reason.
fn allowed_in(plan: &Plan) -> &'static [(&'static str, &'static str)] {
    match plan.story {
        _ if plan.rescue => &[(
            "this ramdisk has no rescue layer",
            "the first rescue has none",
        )],
        _ if plan.partition_image => &[
            (
                "does not support partition images",
                "the first image is one",
            ),
            (
                "Agent command deploy.get_deploy_steps",
                "the same, without the reason",
            ),
        ],
        Story::Operations => &[
            RESTARTED,
            (
                "moved to provision state \"clean failed\" from state \"clean wait\"",
                "the cleaning was aborted",
            ),
            (
                "Failed to send baremetal.runbook.create",
                "a notification that this release of Ironic cannot fill in",
            ),
            (
                "Agent driver requires agent_url in driver_internal_info",
                "at the end of a service Ironic forgets the agent before it asks it for logs",
            ),
        ],
        Story::Restarts => &[RESTARTED],
        Story::Refusals => &[
            RESTARTED,
            (
                "Rejected inspection data",
                "the first inventory is larger than this Ironic accepts",
            ),
            (
                "No logs were passed by the ramdisk",
                "so the second one has none",
            ),
        ],
        Story::Replacement => &[
            RESTARTED,
            (
                "moved to provision state \"inspect failed\" from state \"inspect wait\"",
                "the inspection that boots the other ramdisk was aborted",
            ),
        ],
        _ if plan.boot == Boot::Pxe => &[(
            "No IP addresses assigned for node",
            "the lab's dnsmasq is not Ironic's",
        )],
        Story::TwoDeployments | Story::OneDeployment => &[],
    }
}

/// Returns the lines of Ironic's log that report a fault of the agent.
pub fn complaints<'a>(lines: impl IntoIterator<Item = &'a str>, plan: &Plan) -> Vec<&'a str> {
    let allowed = [ALLOWED, allowed_in(plan)].concat();
    let mut forgotten = false;
    let speaks_against = |line: &&str| {
        let cleaned = line.contains(CLEANED) && line.contains(NOTHING_LEFT);
        let ends = cleaned || line.contains(UNDEPLOYED);
        forgotten = ends || (forgotten && !line.contains(POWERED_OFF));
        let (warning, reason) = SWITCHED_OFF;
        let is_allowed = allowed.iter().any(|(text, _)| line.contains(text))
            || (line.contains(warning) && line.contains(reason))
            || (forgotten && line.contains(TOKEN_FORGOTTEN));
        is_serious(line) && !is_allowed
    };
    lines.into_iter().filter(speaks_against).collect()
}

/// Whether the line is a warning or an error: `2026-11-21 03:31:55.141 1234
/// WARNING ironic.module [...] text`.
fn is_serious(line: &str) -> bool {
    let level = line.split(' ').nth(3).unwrap_or_default();
    matches!(level, "WARNING" | "ERROR" | "CRITICAL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_is_the_fourth_word() {
        let log = [
            "2026-11-21 03:31:55.141 12 WARNING ironic.drivers [-] the agent is strange",
            "2026-11-21 03:31:55.141 12 INFO ironic.drivers [-] a WARNING in the text",
            "2026-11-21 03:31:55.141 12 ERROR ironic.drivers [-] it went away",
            "    raise exception.WARNING",
            "2026-11-28 11:27:25.218 8 WARNING sushy.connector [-] Got server side error: \
             Requested operation is not valid: domain is not running, retrying",
        ];
        assert_eq!(complaints(log, &Plan::default()), [log[0], log[2]]);
    }

    #[test]
    fn only_a_host_that_is_about_to_be_switched_off_may_have_no_token() {
        let refused = "2026-11-24 02:57:48.550 8 ERROR ironic.conductor.manager [-] \
                       Invalid or missing agent_token received for node 1";
        let info =
            |text: &str| format!("2026-11-24 02:57:33.824 8 INFO ironic.conductor [-] {text}");
        let left = info("Executing automated cleaning on node 1, remaining steps: [{'step': 1}]");
        let cleaned = info("Executing automated cleaning on node 1, remaining steps: []");
        let off = info("Successfully set node 1 power state to power off by power off.");
        let deleting = info("Node 1 moved to provision state \"deleting\" from state \"wait\"");
        for ended in [&*cleaned, &deleting] {
            let log = [&*left, refused, ended, refused, &off, refused];
            assert_eq!(complaints(log, &Plan::default()), [refused, refused]);
        }
    }
}
