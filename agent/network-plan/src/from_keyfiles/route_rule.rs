//! Reads routing rules: `routing-rule1=priority 1000 from 192.0.2.0/24 table 200`.

use landfall_boot_params::IpPrefix;
use landfall_boot_params::dracut_net::is_interface_name;

use super::connection::Draft;
use super::keys::Keys;
use crate::route_rule::{RouteRule, RuleAction};

/// The maximum number of rules of a section; more are a fault.
const MOST_RULES: usize = 1024;
/// The kernel's RT_TABLE_MAIN.
const MAIN_TABLE: u32 = 254;
/// The name of the keys, without their number.
const KEY: &str = "routing-rule";

/// The rules in both sections of a file. Each rule also stays in the settings of its
/// profile, for the installed system.
pub(super) fn read_all(draft: &Draft) -> Vec<RouteRule> {
    let mut rules = Vec::new();
    for (section, is_ipv4) in [("ipv4", true), ("ipv6", false)] {
        let found = draft.keys.numbered(section, &[KEY]);
        if found.len() > MOST_RULES {
            let words = format!("expected at most {MOST_RULES} rules, found {}", found.len());
            draft.keys.fault(section, KEY, words);
            continue;
        }
        let found = found.into_iter();
        rules.extend(found.filter_map(|key| read(&draft.keys, section, key, is_ipv4)));
    }
    rules
}

/// Reads one rule. A rule with a condition that the ramdisk does not support is ignored
/// with a warning, because without the condition it would apply to other packets.
fn read(keys: &Keys, section: &str, key: &str, is_ipv4: bool) -> Option<RouteRule> {
    let text = keys.string(section, key)?;
    let mut rule = RouteRule {
        is_ipv4,
        priority: 0,
        from: None,
        to: None,
        incoming: None,
        mark: None,
        action: RuleAction::Lookup,
        table: MAIN_TABLE,
        suppress_prefix_length: None,
    };
    let mut has_priority = false;
    let mut words = text.split_ascii_whitespace();
    while let Some(word) = words.next() {
        let value = words.next().unwrap_or_default();
        let is_valid = match word {
            "priority" | "pref" | "order" => {
                has_priority = true;
                set(value.parse().ok(), &mut rule.priority)
            }
            "from" => set(network(value, is_ipv4), &mut rule.from),
            "to" => set(network(value, is_ipv4), &mut rule.to),
            "iif" | "dev" if is_interface_name(value) => {
                rule.incoming = Some(value.to_owned());
                true
            }
            "table" | "lookup" => set(table(value), &mut rule.table),
            "type" => set(action(value), &mut rule.action),
            "fwmark" => set(mark(value).map(Some), &mut rule.mark),
            "suppress_prefixlength" => set(
                value.parse().ok().map(Some),
                &mut rule.suppress_prefix_length,
            ),
            _ => {
                let word = super::keys::shown(word);
                let words = format!("the ramdisk has no rules with {word}; the rule is ignored");
                keys.warn(section, key, words);
                return None;
            }
        };
        if !is_valid {
            let expected = format!("a valid value of {word}");
            keys.expected(section, key, expected, value);
            return None;
        }
    }
    if !has_priority {
        let expected = "a rule with its priority";
        keys.expected(section, key, expected, &text);
        return None;
    }
    Some(rule)
}

/// Stores a value; false if there is none.
fn set<T>(value: Option<T>, place: &mut T) -> bool {
    let is_valid = value.is_some();
    if let Some(value) = value {
        *place = value;
    }
    is_valid
}

/// Parses a network. The outer `None` means that the text is invalid. The inner `None`
/// stands for all addresses, which needs no condition in the rule.
fn network(text: &str, is_ipv4: bool) -> Option<Option<IpPrefix>> {
    if text == "all" || text == "default" {
        return Some(None);
    }
    let prefix: IpPrefix = text.parse().ok()?;
    (prefix.address.is_ipv4() == is_ipv4).then(|| Some(prefix).filter(|prefix| prefix.length > 0))
}

fn table(text: &str) -> Option<u32> {
    match text {
        "main" => Some(MAIN_TABLE),
        "default" => Some(253),
        "local" => Some(255),
        number => number.parse().ok(),
    }
}

fn action(text: &str) -> Option<RuleAction> {
    Some(match text {
        "unicast" => RuleAction::Lookup,
        "blackhole" => RuleAction::Blackhole,
        "unreachable" => RuleAction::Unreachable,
        "prohibit" => RuleAction::Prohibit,
        _ => return None,
    })
}

/// Parses `MARK` or `MARK/MASK`, each number in decimal digits or in hexadecimal digits
/// after `0x`.
fn mark(text: &str) -> Option<(u32, Option<u32>)> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    match text.split_once('/') {
        Some((mark, mask)) => Some((number(mark)?, Some(number(mask)?))),
        None => Some((number(text)?, None)),
    }
}
