//! The names that the NICs will have in the installed system, for this machine or a
//! captured one. The sub-commands print these names.

use std::collections::BTreeMap;

use landfall_boot_params::CommandLine;
use landfall_devices::interface_names::{self, InterfaceName, NamingPolicy, Scheme};
use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

/// Maps the kernel's name of each NIC to the name that the agent and the installed system
/// give it. In the ramdisk the NICs already have these names.
pub(super) fn installed_names(
    root: &SystemPath,
    scheme: Option<Scheme>,
) -> BTreeMap<String, InterfaceName> {
    let line = sysfs::text(&root.join("proc/cmdline")).unwrap_or_default();
    let (policy, warnings) = match scheme {
        Some(scheme) => {
            let policy = NamingPolicy {
                scheme,
                ..NamingPolicy::default()
            };
            (policy, Vec::new())
        }
        None => NamingPolicy::from_command_line(&CommandLine::parse(&line)),
    };
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    interface_names::names(root, &policy)
        .into_iter()
        .map(|found| (found.kernel_name.clone(), found))
        .collect()
}
