//! Shows a journal in readable form: which events to show, and how long each
//! stage took.

use std::time::Duration;

use crate::journal::{Event, Source};

/// Parses a line of the agent: `[   12.345] stage: text`.
///
/// The kernel's own lines have six digits after the point. The stages are not
/// listed here, because the agent defines them and may get new ones.
#[must_use]
pub fn agent_line(line: &str) -> Option<(&str, &str)> {
    let (clock, rest) = line.strip_prefix('[')?.split_once("] ")?;
    let (_, fraction) = clock.split_once('.')?;
    let (stage, text) = rest.split_once(": ")?;
    let is_stage = stage.bytes().all(|b| matches!(b, b'a'..=b'z' | b'_'));
    (fraction.len() == 3 && is_stage).then_some((stage, text))
}

/// The guest's time in a line of the agent, since the start of its kernel.
#[must_use]
pub fn agent_clock(line: &str) -> Option<Duration> {
    agent_line(line)?;
    let (clock, _) = line.strip_prefix('[')?.split_once(']')?;
    Duration::try_from_secs_f64(clock.trim().parse().ok()?).ok()
}

/// Returns the speaker and the text to show. `None` for the many lines that would
/// hide the important ones.
#[must_use]
pub fn describe(event: &Event) -> Option<(&'static str, String)> {
    let text = event.text.as_str();
    match event.source {
        Source::Console => console(text),
        Source::Peer | Source::Host(_) => None,
        Source::Conductor => Some(("conductor", text.to_owned())),
        Source::Images => Some(("images", text.to_owned())),
        Source::Ironic => Some(("ironic", text.to_owned())),
        Source::Dhcp => text
            .find("DHCPACK")
            .map(|at| ("dhcp", text[at..].to_owned())),
        Source::Machine => {
            let event = text.split(" {").next().unwrap_or(text);
            Some(("machine", event.to_lowercase()))
        }
    }
}

fn console(line: &str) -> Option<(&'static str, String)> {
    if let Some((stage, text)) = agent_line(line) {
        return Some(("agent", format!("{stage}: {text}")));
    }
    let has = |part: &str| line.contains(part);
    if has("Linux version") {
        let version = line.split("Linux version ").nth(1)?.split(' ').next()?;
        return Some(("kernel", format!("Linux {version}")));
    }
    if line.starts_with("SeaBIOS")
        || line.starts_with("BdsDxe")
        || line.starts_with("Booting from")
        || has("iPXE 1.")
    {
        return Some(("firmware", line.to_owned()));
    }
    if has("Welcome to GRUB") || line.starts_with("GRUB: CoreOS") {
        return Some(("GRUB", line.trim_start_matches("GRUB: ").to_owned()));
    }
    if let Some(text) = line.strip_prefix("TEST-INITRD: ") {
        let wanted = ["config.ign", "net: static", "net: dhcp", "ignition --stage"];
        return wanted
            .iter()
            .any(|start| text.starts_with(start))
            .then(|| ("initramfs", text.to_owned()));
    }
    if line.starts_with("IGN: ") && has("[finished]") {
        let text = line.split("[finished]").nth(1)?.trim();
        return Some(("Ignition", text.to_owned()));
    }
    if line.starts_with("TEST-IMAGE-") {
        return Some(("system", line.to_owned()));
    }
    None
}

#[derive(Debug, Clone, Copy)]
pub struct Milestone {
    /// What has been reached.
    pub name: &'static str,
    /// The name of the stage that ends with this milestone.
    pub stage: &'static str,
    reached: fn(&Event) -> bool,
}

fn on_console(event: &Event, text: &str) -> bool {
    event.source == Source::Console && event.text.contains(text)
}

/// The milestones of an installation, in order.
pub const MILESTONES: [Milestone; 11] = [
    Milestone {
        name: "power on",
        stage: "",
        reached: |event| event.source == Source::Machine && event.text.starts_with("power on"),
    },
    Milestone {
        name: "the kernel's first line",
        stage: "firmware, boot loader",
        reached: |event| on_console(event, "Linux version"),
    },
    Milestone {
        name: "/init",
        stage: "kernel",
        reached: |event| agent_line(&event.text).is_some_and(|(stage, _)| stage == "init"),
    },
    Milestone {
        name: "the first lookup",
        stage: "/init, network, inventory",
        reached: |event| event.text.starts_with("lookup 200"),
    },
    Milestone {
        name: "the command to install",
        stage: "heartbeat, deploy steps",
        reached: |event| event.text.starts_with("command deploy.execute_deploy_step"),
    },
    Milestone {
        name: "the disk written",
        stage: "download, write, verify",
        reached: |event| on_console(event, "execute_deploy_step done"),
    },
    Milestone {
        name: "the reset",
        stage: "heartbeat, last commands",
        reached: |event| event.source == Source::Machine && event.text.starts_with("RESET"),
    },
    Milestone {
        name: "GRUB of the installed system",
        stage: "firmware",
        reached: |event| on_console(event, "GRUB: CoreOS-shaped"),
    },
    Milestone {
        name: "the installed kernel's first line",
        stage: "GRUB",
        reached: |event| on_console(event, "Linux version"),
    },
    Milestone {
        name: "Ignition",
        stage: "kernel, initramfs",
        reached: |event| on_console(event, "ignition --stage="),
    },
    Milestone {
        name: "the proof",
        stage: "Ignition, first boot",
        reached: |event| on_console(event, "TEST-IMAGE-OK"),
    },
];

/// The time of each milestone, up to the first milestone that was not reached.
#[must_use]
pub fn reached(events: &[Event]) -> Vec<(Milestone, Duration)> {
    let mut events = events.iter();
    MILESTONES
        .into_iter()
        .map_while(|milestone| {
            let event = events.find(|event| (milestone.reached)(event))?;
            Some((milestone, event.at))
        })
        .collect()
}

#[must_use]
pub fn missing(events: &[Event]) -> Option<Milestone> {
    MILESTONES.get(reached(events).len()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_lines_are_distinguished_from_kernel_lines() {
        let table = [
            ("[    1.234] network: eth0 up", Some(("network", "eth0 up"))),
            ("[   12.345] init: ready", Some(("init", "ready"))),
            ("[    1.234567] init: of the kernel", None),
            (
                "[    1.234] agent: node 1 found",
                Some(("agent", "node 1 found")),
            ),
            ("[    1.234] virtio1 0-1: no stage", None),
            ("Linux version", None),
        ];
        let clock = agent_clock("[   12.345] init: ready");
        assert_eq!(clock, Some(Duration::from_millis(12_345)));
        for (line, want) in table {
            assert_eq!(agent_line(line), want, "{line}");
            assert_eq!(agent_clock(line).is_some(), want.is_some(), "{line}");
        }
    }

    #[test]
    fn the_first_milestone_that_is_not_reached_is_named() {
        let event = |at, source, text: &str| Event {
            at: Duration::from_secs(at),
            source,
            text: text.to_owned(),
        };
        let events = [
            event(1, Source::Machine, "power on: Bios, TCG"),
            event(5, Source::Console, "[    0.000000] Linux version 6.1.0"),
            event(9, Source::Console, "GRUB: CoreOS-shaped test image"),
        ];
        assert_eq!(reached(&events).len(), 2);
        assert_eq!(missing(&events).map(|m| m.name), Some("/init"));
    }
}
