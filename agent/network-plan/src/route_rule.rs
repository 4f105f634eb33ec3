//! Rules of the kernel's routing policy, which choose the routing table of a
//! packet.

use std::fmt;

use landfall_boot_params::IpPrefix;

/// One rule, for one address family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteRule {
    pub is_ipv4: bool,
    /// The kernel checks rules with a smaller number first.
    pub priority: u32,
    /// Source network of the packets.
    pub from: Option<IpPrefix>,
    /// Destination network of the packets.
    pub to: Option<IpPrefix>,
    /// The interface that receives the packets.
    pub incoming: Option<String>,
    /// The firewall's mark of the packets, and the mask of the bits that the kernel
    /// compares. Without a mask the kernel compares all bits.
    pub mark: Option<(u32, Option<u32>)>,
    pub action: RuleAction,
    /// The routing table to look up.
    pub table: u32,
    /// Ignore routes of the table whose prefix length is this or shorter.
    pub suppress_prefix_length: Option<u32>,
}

/// What a rule does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// Looks the packet up in the table.
    Lookup,
    /// Silently drops the packet.
    Blackhole,
    /// Drops it and reports to the sender that the destination is unreachable.
    Unreachable,
    /// Drops it and reports to the sender that it is prohibited.
    Prohibit,
}

impl RuleAction {
    /// The kernel's number (`FR_ACT_*`, linux/fib_rules.h).
    pub fn number(self) -> u8 {
        match self {
            RuleAction::Lookup => 1,
            RuleAction::Blackhole => 6,
            RuleAction::Unreachable => 7,
            RuleAction::Prohibit => 8,
        }
    }
}

/// Formats the rule as a keyfile does, in nmstate's order.
impl fmt::Display for RouteRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "priority {}", self.priority)?;
        if let Some(to) = self.to {
            write!(f, " to {to}")?;
        }
        match (self.from, self.to) {
            (Some(from), _) => write!(f, " from {from}")?,
            (None, Some(_)) => {}
            (None, None) if self.is_ipv4 => f.write_str(" from 0.0.0.0/0")?,
            (None, None) => f.write_str(" from ::/0")?,
        }
        if let Some(name) = &self.incoming {
            write!(f, " iif {name}")?;
        }
        if let Some(length) = self.suppress_prefix_length {
            write!(f, " suppress_prefixlength {length}")?;
        }
        match self.action {
            RuleAction::Lookup => {}
            RuleAction::Blackhole => f.write_str(" type blackhole")?,
            RuleAction::Unreachable => f.write_str(" type unreachable")?,
            RuleAction::Prohibit => f.write_str(" type prohibit")?,
        }
        write!(f, " table {}", self.table)?;
        match self.mark {
            Some((mark, Some(mask))) => write!(f, " fwmark {mark}/{mask}"),
            Some((mark, None)) => write!(f, " fwmark {mark}"),
            None => Ok(()),
        }
    }
}
