//! [`NetworkPlan`] → dracut's network arguments.
//!
//! The way back from [`NetworkPlan::from_boot_args`]: for a plan from another
//! source that the installed system is to have on its first boot, and for the
//! builder of an image. The arguments cannot say everything (metrics, DHCP for
//! one family alone), so they are read again before they are given out, and
//! whatever does not come back is told.

mod global;
mod interface;
mod ip;
mod unsaid;

use landfall_boot_params::{CommandLine, NetArgs};

use crate::plan::{Interface, NetworkPlan};

/// A plan as arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootArgs {
    /// One argument each, in an order that counts: `ip=eth0:dhcp`. None has
    /// white space in it. How long a command line may be is for the caller to
    /// know.
    pub arguments: Vec<String>,
    /// What the arguments do not say of the plan, one line each; empty if
    /// reading them gives the same plan.
    pub unsaid: Vec<String>,
}

impl NetworkPlan {
    /// Writes the plan as kernel arguments, in the grammar of NetworkManager's
    /// generator.
    ///
    /// `BOOTIF=` is not among them: a NIC that is bound to an address is called
    /// by it. Neither is `rd.neednet=1`, unless the plan waits for all its NICs.
    pub fn to_boot_args(&self) -> BootArgs {
        let mut arguments = global::arguments(self);
        // `rd.route=` without an interface means the first: the one for every
        // NIC, which no other argument has a name for.
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
        let mut unsaid = Vec::new();
        // Such a word would be read as two, or as half of one.
        arguments.retain(|argument| {
            let is_word = !argument.contains(|c: char| c == '"' || c.is_whitespace());
            if !is_word {
                unsaid.push(format!("{argument}: no argument can have this character"));
            }
            is_word
        });
        let line = CommandLine::parse_lines(&arguments.join("\n"));
        let said = NetworkPlan::from_boot_args(&NetArgs::from_command_line(&line));
        unsaid.append(&mut unsaid::differences(self, &said));
        BootArgs { arguments, unsaid }
    }
}

#[cfg(test)]
mod tests;
