//! Adds the plan's policy routing rules to the kernel.

use std::io;

use landfall_network_plan::{IpPrefix, RouteRule, RuleAction};
use nix::errno::Errno;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::RouteProtocol;
use rtnetlink::packet_route::rule::{RuleAction as KernelAction, RuleAttribute};

use super::apply::{Changes, cause, unless};

/// The protocol of the rules that the agent adds.
pub(super) const PROTOCOL: RouteProtocol = RouteProtocol::Static;

impl Changes {
    /// Adds a rule. Succeeds without a change if the same rule exists.
    pub(super) async fn add_rule(&self, rule: &RouteRule) -> io::Result<()> {
        // Only a rule that looks up a route has a table.
        let table = match rule.action {
            RuleAction::Lookup => rule.table,
            _ => 0,
        };
        let mut request = self
            .handle
            .rule()
            .add()
            .table_id(table)
            .priority(rule.priority)
            .action(match rule.action {
                RuleAction::Lookup => KernelAction::ToTable,
                RuleAction::Blackhole => KernelAction::Blackhole,
                RuleAction::Unreachable => KernelAction::Unreachable,
                RuleAction::Prohibit => KernelAction::Prohibit,
            });
        if let Some(name) = &rule.incoming {
            request = request.input_interface(name.as_str());
        }
        let message = request.message_mut();
        message.header.family = if rule.is_ipv4 {
            AddressFamily::Inet
        } else {
            AddressFamily::Inet6
        };
        if let Some(IpPrefix { address, length }) = rule.from {
            message.header.src_len = length;
            message.attributes.push(RuleAttribute::Source(address));
        }
        if let Some(IpPrefix { address, length }) = rule.to {
            message.header.dst_len = length;
            message.attributes.push(RuleAttribute::Destination(address));
        }
        if let Some((mark, mask)) = rule.mark {
            message.attributes.push(RuleAttribute::FwMark(mark));
            let mask = mask.map(RuleAttribute::FwMask);
            message.attributes.extend(mask);
        }
        let suppressed = rule
            .suppress_prefix_length
            .map(RuleAttribute::SuppressPrefixLen);
        message.attributes.extend(suppressed);
        // Marks the rule as one of the agent's; the kernel's own have another protocol.
        message.attributes.push(RuleAttribute::Protocol(PROTOCOL));
        unless(request.execute().await.map_err(cause), Errno::EEXIST)
    }
}

/// Rules that let programs without VRF support use the VRF's table, after all other
/// rules. With them the agent reaches Ironic through any VRF.
pub(super) fn rules_of_vrf(table: u32) -> [RouteRule; 2] {
    /// The priority after the kernel's last rule (32767).
    const PRIORITY: u32 = 40_000;
    [true, false].map(|is_ipv4| RouteRule {
        is_ipv4,
        priority: PRIORITY,
        from: None,
        to: None,
        incoming: None,
        mark: None,
        action: RuleAction::Lookup,
        table,
        suppress_prefix_length: None,
    })
}
