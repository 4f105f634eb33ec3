//! [`NetworkPlan`] → dracut's network arguments.
//!
//! This is the reverse of [`NetworkPlan::from_boot_args`]. `plan-network --arguments`
//! prints the result, for image builders and for an installed system whose first boot
//! needs a plan from another source. The arguments cannot express everything (metrics,
//! DHCP for one family only). So this module reads the written arguments back and reports
//! the differences.

mod differences;
mod global;
mod interface;
mod ip;

use landfall_boot_params::{CommandLine, NetArgs};

use crate::plan::{Interface, NetworkPlan};

/// A plan as kernel arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootArgs {
    /// The arguments, one per entry, such as `ip=eth0:dhcp`. The order is significant.
    /// No argument contains white space. The caller checks the length of the command
    /// line.
    pub arguments: Vec<String>,
    /// The parts of the plan that the arguments do not express, one line each;
    /// empty if reading the arguments gives the same plan.
    pub lost: Vec<String>,
}

impl NetworkPlan {
    /// Writes the plan as kernel arguments, in the grammar of NetworkManager's
    /// generator.
    ///
    /// `BOOTIF=` is not among the arguments, because they identify a NIC by its hardware
    /// address instead. `rd.neednet=1` is among them only if the plan waits for all its
    /// NICs.
    pub fn to_boot_args(&self) -> BootArgs {
        let mut arguments = global::arguments(self);
        // The interface for every NIC has no name in an argument. It must be first,
        // because `rd.route=` without an interface applies to the first interface.
        let (any, named): (Vec<_>, Vec<_>) = self
            .interfaces
            .iter()
            .partition(|interface| interface::device(interface).is_some_and(|d| d.is_empty()));
        let ordered: Vec<&Interface> = any.into_iter().chain(named).collect();
        let mut links = Vec::new();
        for interface in &ordered {
            arguments.extend(ip::arguments(interface, self));
            links.extend(interface::link_arguments(interface, &self.interfaces));
        }
        arguments.append(&mut links);
        for interface in &ordered {
            arguments.extend(ip::routes(interface));
        }
        arguments.extend(global::waiting(self));
        let mut lost = Vec::new();
        // A reader would split such an argument in two, or misread its quotes.
        arguments.retain(|argument| {
            let is_word = !argument.contains(|c: char| c == '"' || c.is_whitespace());
            if !is_word {
                lost.push(format!(
                    "{argument}: a kernel argument cannot contain white space or quotes"
                ));
            }
            is_word
        });
        let line = CommandLine::parse_lines(&arguments.join("\n"));
        let found = NetworkPlan::from_boot_args(&NetArgs::from_command_line(&line));
        lost.append(&mut differences::between(self, &found));
        BootArgs { arguments, lost }
    }
}

#[cfg(test)]
mod tests;
