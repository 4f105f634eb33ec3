//! Reads `route-rules`.

use landfall_boot_params::IpPrefix;

use super::described::{Interfaces, State};
use super::fields::Fields;
use super::loopback;
use super::routes::{MAIN_TABLE, network};
use crate::route_rule::{RouteRule, RuleAction};

/// The maximum number of rules; more are a fault. No host needs as many.
const MOST_RULES: usize = 1024;
/// The priority that nmstate gives to the first rule without a priority.
const FIRST_PRIORITY: u32 = 30_000;

const KEYS: &[&str] = &[
    "family",
    "state",
    "ip-from",
    "ip-to",
    "priority",
    "route-table",
    "fwmark",
    "fwmask",
    "action",
    "iif",
    "suppress-prefix-length",
    "suppress_prefixlength",
];

/// A rule as in the document. `None` means that the document leaves out the key.
#[derive(Clone)]
struct Wanted {
    path: String,
    is_ipv4: bool,
    from: Option<IpPrefix>,
    to: Option<IpPrefix>,
    priority: Option<u32>,
    table: Option<u32>,
    mark: Option<u32>,
    mask: Option<u32>,
    action: Option<RuleAction>,
    incoming: Option<String>,
    suppress_prefix_length: Option<u32>,
}

/// Reads the list. Stores each rule in the profile of one interface, as nmstate
/// does, and returns all rules for the ramdisk.
pub(super) fn read(top: &Fields, all: &mut Interfaces) -> Vec<RouteRule> {
    let Some(fields) = top.child("route-rules", &["config"]) else {
        return Vec::new();
    };
    let entries = fields.items_up_to(MOST_RULES, "config", KEYS);
    let wanted = entries.filter_map(|entry| read_one(&entry)).collect();
    let mut rules: Vec<RouteRule> = Vec::new();
    for (wanted, priority) in with_priorities(wanted) {
        let path = wanted.path.clone();
        let owner = owner(&wanted, top, all);
        let rule = wanted.finish(priority);
        if rules.contains(&rule) {
            continue;
        }
        if let Some(name) = owner {
            attach(&rule, &name, &path, top, all);
        }
        rules.push(rule);
    }
    rules
}

fn read_one(fields: &Fields) -> Option<Wanted> {
    let is_gone = fields.word("state", &[("absent", true)], false) == Some(true);
    let families = [("ipv4", true), ("ipv6", false)];
    let family = fields.word("family", &families, false);
    let mut networks = [None, None];
    for (place, key) in networks.iter_mut().zip(["ip-from", "ip-to"]) {
        if let Some(text) = fields.text(key).filter(|text| !text.is_empty()) {
            *place = network(text);
            if place.is_none() && !is_gone {
                fields.expected(key, "a network such as 192.0.2.0/24", text);
            }
        }
    }
    let [from, to] = networks;
    let priority = fields.number("priority", -1..=u32::MAX.into());
    let actions = [
        ("blackhole", RuleAction::Blackhole),
        ("unreachable", RuleAction::Unreachable),
        ("prohibit", RuleAction::Prohibit),
    ];
    let suppress = ["suppress-prefix-length", "suppress_prefixlength"];
    let mut suppress = suppress.iter();
    let suppress = suppress.find_map(|key| fields.unsigned(key, i32::MAX as u32));
    let is_ipv4 = |prefix: IpPrefix| prefix.address.is_ipv4();
    let families = [family, from.map(is_ipv4), to.map(is_ipv4)];
    let mut families = families.into_iter().flatten();
    let first = families.next();
    let wanted = Wanted {
        path: fields.path.clone(),
        is_ipv4: first.unwrap_or(true),
        from,
        to,
        priority: priority.and_then(|priority| u32::try_from(priority).ok()),
        table: fields.unsigned("route-table", u32::MAX),
        mark: fields.unsigned("fwmark", u32::MAX),
        mask: fields.unsigned("fwmask", u32::MAX),
        action: fields.word("action", &actions, false),
        incoming: fields.text("iif").map(str::to_owned),
        suppress_prefix_length: suppress,
    };
    if is_gone {
        return None;
    }
    if first.is_none() {
        fields.fault(
            "family",
            "expected family, ip-from or ip-to, found none of them",
        );
    }
    if families.any(|family| Some(family) != first) {
        fields.fault("ip-to", "expected a rule of one family, found both");
    }
    if wanted.mask.is_some() && wanted.mark.is_none() {
        fields.fault("fwmask", "expected fwmark as well, found none");
    }
    Some(wanted)
}

/// Gives each rule a priority, as nmstate does: the rule's own priority, otherwise the
/// priority of an equal rule, otherwise the next number above all priorities.
fn with_priorities(wanted: Vec<Wanted>) -> Vec<(Wanted, u32)> {
    let mut distinct: Vec<Wanted> = Vec::new();
    for rule in &wanted {
        if !distinct.iter().any(|known| rule.fits(known)) {
            distinct.push(rule.clone());
        }
    }
    let given = distinct.iter().filter_map(|rule| rule.priority);
    let mut last = given.max().unwrap_or(0).max(FIRST_PRIORITY - 1);
    let with_priority = |rule: Wanted| {
        let equal = |known: &Wanted| known.priority.filter(|_| rule.fits(known));
        let known = rule.priority.or_else(|| distinct.iter().find_map(equal));
        let priority = known.unwrap_or_else(|| {
            last = last.saturating_add(1);
            last
        });
        (rule, priority)
    };
    wanted.into_iter().map(with_priority).collect()
}

impl Wanted {
    /// True if the other rule has every value that this rule specifies.
    fn fits(&self, other: &Wanted) -> bool {
        fn fits<T: PartialEq>(wanted: &Option<T>, found: &Option<T>) -> bool {
            wanted.is_none() || wanted == found
        }
        let mark = |mark: Option<u32>| Some(mark.unwrap_or(0));
        self.is_ipv4 == other.is_ipv4
            && fits(&self.from, &other.from)
            && fits(&self.to, &other.to)
            && (fits(&self.priority, &other.priority)
                || (self.priority == Some(0) && other.priority.is_none()))
            && fits(&self.table.filter(|table| *table != 0), &other.table)
            && fits(&self.mark, &mark(other.mark))
            && fits(&self.mask, &mark(other.mask))
            && fits(&self.incoming, &other.incoming)
            && fits(&self.action, &other.action)
            && fits(&self.suppress_prefix_length, &other.suppress_prefix_length)
    }

    fn table_or_main(&self) -> u32 {
        self.table.filter(|table| *table != 0).unwrap_or(MAIN_TABLE)
    }

    fn finish(self, priority: u32) -> RouteRule {
        RouteRule {
            is_ipv4: self.is_ipv4,
            priority,
            table: self.table_or_main(),
            from: self.from,
            to: self.to,
            incoming: self.incoming,
            mark: self.mark.map(|mark| (mark, self.mask)),
            action: self.action.unwrap_or(RuleAction::Lookup),
            suppress_prefix_length: self.suppress_prefix_length,
        }
    }
}

/// The interface whose profile contains the rule, as in nmstate's generator. The first
/// of these that exists: the interface that the rule names, an interface with a route
/// in the rule's table, an interface whose automatic routes are in that table, the
/// first interface with this address family, the loopback interface.
fn owner(rule: &Wanted, top: &Fields, all: &Interfaces) -> Option<String> {
    if let Some(name) = &rule.incoming {
        if all.ignored.contains(name) {
            return None;
        }
        if all.position(name).is_none() {
            let path = format!("{}.iif", rule.path);
            let words = format!("no interface is called {name:?}");
            top.findings.fault(&path, words);
            return None;
        }
        return Some(name.clone());
    }
    // As in nmstate, compare the table exactly as written, even if it is 0.
    let table = rule.table.unwrap_or(MAIN_TABLE);
    let up = || all.list.iter().filter(|d| d.state != State::Absent);
    let mut names: Vec<&str> = up().map(|d| d.name.as_str()).collect();
    names.sort_unstable();
    let plan = |name: &str| {
        let index = all.position(name)?;
        Some(&all.list[index].family(rule.is_ipv4).plan)
    };
    let has_route = |name: &&&str| {
        let mut routes = plan(name).into_iter().flat_map(|plan| &plan.routes);
        routes.any(|route| route.table.unwrap_or(MAIN_TABLE) == table)
    };
    let has_automatic_routes = |name: &&&str| {
        plan(name).is_some_and(|plan| {
            let given = plan.settings.get("route-table");
            let given = given.and_then(|text| text.parse().ok());
            given.unwrap_or(MAIN_TABLE) == table
        })
    };
    let name = { names.iter().find(has_route) }
        .or_else(|| names.iter().find(has_automatic_routes))
        .copied();
    let with_address = || up().find(|d| d.family(rule.is_ipv4).enabled);
    let name = name.or_else(|| with_address().map(|d| d.name.as_str()));
    Some(name.unwrap_or(loopback::NAME).to_owned())
}

fn attach(rule: &RouteRule, name: &str, path: &str, top: &Fields, all: &mut Interfaces) {
    let described = match all.position(name) {
        Some(index) => &mut all.list[index],
        None if name == loopback::NAME => loopback::of(all),
        None => return,
    };
    let family = described.family_mut(rule.is_ipv4);
    if !family.enabled {
        let family = if rule.is_ipv4 { "ipv4" } else { "ipv6" };
        let words = format!(
            "nmstate stores the rule in the profile of {name}, which has no {family}: only the \
             ramdisk gets it"
        );
        return top.findings.warn(path, words);
    }
    let settings = &mut family.plan.settings;
    let count = settings
        .keys()
        .filter(|key| key.starts_with("routing-rule"))
        .count();
    settings.insert(format!("routing-rule{count}"), rule.to_string());
}
