//! The configuration in the container image of OpenShift's agent. Landfall's agent takes
//! the place of that agent.

/// Each option with its value: 00-defaults.conf of openshift/ironic-agent-image.
pub const DEFAULTS: [(&str, &str); 4] = [
    ("debug", "True"),
    ("collect_lldp", "True"),
    ("inspection_collectors", "default,logs"),
    ("inspection_dhcp_all_interfaces", "True"),
];
