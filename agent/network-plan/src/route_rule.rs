//! Rules that choose the routing table of a packet.

use std::fmt;

use crate::plan::IpPrefix;

/// One rule of the kernel's routing policy, of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteRule {
    /// True for IPv4.
    pub is_ipv4: bool,
    /// Smaller is asked first.
    pub priority: u32,
    /// Where a packet comes from.
    pub from: Option<IpPrefix>,
    /// Where a packet goes to.
    pub to: Option<IpPrefix>,
    /// The interface over which a packet comes in.
    pub incoming: Option<String>,
    /// The firewall's mark of a packet, and which bits of it count.
    pub mark: Option<(u32, Option<u32>)>,
    /// What happens to the packet.
    pub action: RuleAction,
    /// The routing table that is asked.
    pub table: u32,
    /// Routes of the table with this prefix length or a shorter one do not count.
    pub suppress_prefix_length: Option<u32>,
}

/// What a rule does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// Its table is asked.
    Lookup,
    /// The packet disappears.
    Blackhole,
    /// The sender is told that there is no way.
    Unreachable,
    /// The sender is told that it is forbidden.
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

/// In the words of a keyfile, in nmstate's order.
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
