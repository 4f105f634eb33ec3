//! The facts of a status as lines.

use std::cmp::Reverse;

use super::{ScreenLine, Tone};
use crate::failure::with_remedy;
use crate::in_words;
use crate::status::{Nic, ON_LINK, RootDisk, Status, WayStep};
use crate::wrap::wrapped;

/// The maximum number of rejected disks to show, because the screen also needs room for
/// the network and the log.
const MOST_DISKS: usize = 3;

/// How much of the way to the service is shown.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Detail {
    /// Every step is on a separate line.
    Steps,
    /// The steps that are done share one line.
    Brief,
}

/// The importance of a fact. If the screen has no room for all facts, the least important
/// ones are left out first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    Address,
    /// The steps that are done, of a NIC that waits for nothing.
    Way,
    Disk,
    Plain,
    /// What the machine waits for.
    Waiting,
    /// The title and the machine, what the machine does now, the source of the network,
    /// a failure and its remedy, and the lines that say which part has failed. Never left
    /// out.
    Kept,
}

impl From<Tone> for Worth {
    fn from(tone: Tone) -> Self {
        match tone {
            Tone::Plain => Self::Plain,
            Tone::Waiting => Self::Waiting,
            Tone::Title | Tone::Failed => Self::Kept,
        }
    }
}

/// The lines of one fact.
#[derive(Clone)]
struct Fact {
    worth: Worth,
    lines: Vec<ScreenLine>,
}

/// Collects facts as lines of at most `width` characters.
#[derive(Clone)]
pub(super) struct Page {
    width: usize,
    facts: Vec<Fact>,
}

impl Page {
    pub(super) fn new(width: usize) -> Self {
        Self {
            width,
            facts: Vec::new(),
        }
    }

    pub(super) fn put(&mut self, tone: Tone, text: String) {
        self.facts.push(Fact {
            worth: Worth::Kept,
            lines: vec![ScreenLine { text, tone }],
        });
    }

    pub(super) fn wrapped(&mut self, tone: Tone, label: &str, text: &str, indent: usize) {
        self.add(Worth::Kept, tone, label, text, indent);
    }

    fn add(&mut self, worth: Worth, tone: Tone, label: &str, text: &str, indent: usize) {
        let lines = wrapped(label, text, indent, self.width).into_iter();
        let lines = lines.map(|text| ScreenLine { text, tone }).collect();
        self.facts.push(Fact { worth, lines });
    }

    /// The number of lines.
    pub(super) fn height(&self) -> usize {
        self.facts.iter().map(|fact| fact.lines.len()).sum()
    }

    pub(super) fn into_lines(self) -> Vec<ScreenLine> {
        let facts = self.facts.into_iter();
        facts.flat_map(|fact| fact.lines).collect()
    }

    /// Leaves out facts until the rest fits into `room` lines, and says how many lines
    /// are left out. Among equally important facts, the last ones are left out first.
    pub(super) fn fit(&mut self, room: usize) {
        let all = self.height();
        if all <= room {
            return;
        }
        // Reserve one line for the number of lines that are left out.
        let room = room.saturating_sub(1);
        let mut order: Vec<usize> = (0..self.facts.len()).collect();
        order.sort_by_key(|&index| (self.facts[index].worth, Reverse(index)));
        let mut height = all;
        for index in order {
            let fact = &mut self.facts[index];
            if height <= room || fact.worth == Worth::Kept {
                break;
            }
            height -= fact.lines.len();
            fact.lines.clear();
        }
        // If this is not enough, shorten long facts, such as an error that lists 50
        // disks.
        let height_with = |facts: &[Fact], most: usize| -> usize {
            facts.iter().map(|fact| fact.lines.len().min(most)).sum()
        };
        let most = { (1..=room).rev() }.find(|&most| height_with(&self.facts, most) <= room);
        let mut left = room;
        for fact in &mut self.facts {
            fact.lines.truncate(most.unwrap_or(1).min(left));
            left -= fact.lines.len();
        }
        let mut text = format!("({} more lines: see /status.json)", all - (room - left));
        text.truncate(self.width);
        self.put(Tone::Plain, text);
    }

    pub(super) fn title(&mut self, status: &Status, now: f64, clock: &str) {
        let left = format!(" Landfall {}  {}", status.build, name(status));
        let right = format!("up {}  {clock} ", duration(now));
        let gap = self.width.saturating_sub(left.len() + right.len()).max(1);
        let mut title = format!("{left}{}{right}", " ".repeat(gap));
        title.truncate(self.width);
        self.put(Tone::Title, title);
        self.host(status, "");
        self.put(Tone::Plain, "-".repeat(self.width));
    }

    /// Adds the facts about the machine, preceded by `name`.
    pub(super) fn host(&mut self, status: &Status, name: &str) {
        let host = &status.host;
        let machine = format!("{} {}", host.vendor, host.product);
        let serial = Some(format!("serial {}", host.serial)).filter(|_| !host.serial.is_empty());
        let secure_boot = match host.secure_boot {
            Some(true) => ", Secure Boot",
            Some(false) => ", no Secure Boot",
            None => "",
        };
        let boot = Some(format!("{}{secure_boot}", host.boot_mode.to_uppercase()));
        let memory = host.memory.map(|memory| format!("{memory} MiB"));
        let name = Some(name.to_owned());
        let facts = [name, Some(machine.trim().to_owned()), serial, boot, memory];
        let mut line = String::new();
        for fact in { facts.into_iter().flatten() }.filter(|fact| !fact.is_empty()) {
            if line.is_empty() {
                line = fact;
            } else if 1 + line.len() + 3 + fact.len() <= self.width {
                line = format!("{line} | {fact}");
            } else {
                self.wrapped(Tone::Plain, " ", &line, 2);
                line = fact;
            }
        }
        if !line.is_empty() {
            self.wrapped(Tone::Plain, " ", &line, 2);
        }
    }

    pub(super) fn facts(&mut self, status: &Status, now: f64, detail: Detail) {
        match (&status.done, &status.step) {
            (Some(done), _) => self.fact(Worth::Kept, Tone::Plain, "NOW", done),
            (None, Some(step)) => {
                let text = format!("{}, for {}", step.name, duration(now - step.since));
                self.fact(Worth::Kept, Tone::Plain, "NOW", &text);
            }
            (None, None) => {}
        }
        if let Some(progress) = &status.progress {
            self.fact(Worth::Kept, Tone::Plain, "", &progress.to_string());
        }
        if let Some(error) = &status.last_error {
            let ago = duration(now - error.time);
            let text = format!("{}: {} ({ago} ago)", error.stage, error.text);
            self.fact(Worth::Kept, Tone::Failed, "ERROR", &text);
            if let Some(remedy) = &error.remedy {
                self.fact(Worth::Kept, Tone::Failed, "", &format!("-> {remedy}"));
            }
        }
        if let Some(service) = &status.service {
            let tone = match status.service_answers {
                true => Tone::Plain,
                false => Tone::Waiting,
            };
            let answers = status.service_in_words();
            let text = format!("{service} {answers}");
            self.fact(tone.into(), tone, "SERVICE", &text);
        }
        if let Some(node) = &status.node {
            self.fact(Worth::Plain, Tone::Plain, "NODE", node);
        }
        if let Some(disk) = &status.root_disk {
            self.disk(disk);
        }
        let network = &status.network;
        if let Some(source) = &network.source {
            let text = format!("configured by {source}");
            self.fact(Worth::Kept, Tone::Plain, "NETWORK", &text);
        }
        for fault in &network.faults {
            let (fault, remedy) = with_remedy(fault);
            let text = format!("FAULT {fault}");
            self.fact(Worth::Kept, Tone::Failed, "", &text);
            if let Some(remedy) = remedy {
                self.fact(Worth::Kept, Tone::Failed, "", &format!("-> {remedy}"));
            }
        }
        // Before the network is configured, the agent has not looked for NICs.
        if network.nics.is_empty() && (network.source.is_some() || network.no_nic.is_some()) {
            let (why, remedy) = with_remedy(network.no_nic.as_deref().unwrap_or_default());
            let colon = if why.is_empty() { "" } else { ": " };
            let text = format!("no NIC found{colon}{why}");
            self.fact(Worth::Kept, Tone::Failed, "", &text);
            if let Some(remedy) = remedy {
                self.fact(Worth::Kept, Tone::Failed, "", &format!("-> {remedy}"));
            }
        }
        self.nics(&network.nics, detail);
    }

    fn disk(&mut self, disk: &RootDisk) {
        let mut fact = |label, text: &str| self.fact(Worth::Disk, Tone::Plain, label, text);
        fact("DISK", &format!("{}: {}", disk.path, disk.why));
        if let Some(others) = disk.rejected_in_words(MOST_DISKS) {
            fact("", &format!("not chosen: {others}"));
            if let Some(remedy) = &disk.remedy {
                fact("", &format!("-> {remedy}"));
            }
        }
    }

    /// With [`Detail::Brief`], the NICs that have completed most steps come first. If a
    /// NIC has a carrier, the NICs without a carrier share a line, because a server may
    /// have eight NICs of which one is in use. A NIC keeps its own lines if the reason
    /// for its missing carrier is known.
    fn nics(&mut self, nics: &[Nic], detail: Detail) {
        if detail == Detail::Steps {
            nics.iter().for_each(|nic| self.nic(nic, detail));
            return;
        }
        let done = |nic: &&Nic| nic.way.iter().filter(|step| step.outcome == "done").count();
        let (mut linked, unplugged): (Vec<_>, Vec<_>) = nics.iter().partition(|nic| nic.carrier);
        linked.sort_by_key(|nic| Reverse(done(nic)));
        let is_plain = |nic: &&Nic| {
            { nic.way.iter() }.all(|step| ["none", "none yet"].contains(&step.text.as_str()))
        };
        let (unplugged, with_reason): (Vec<_>, Vec<_>) = unplugged.into_iter().partition(is_plain);
        for nic in linked.iter().chain(&with_reason) {
            self.nic(nic, detail);
        }
        if linked.is_empty() || unplugged.len() < 2 {
            unplugged.iter().for_each(|nic| self.nic(nic, detail));
            return;
        }
        let names: Vec<_> = unplugged.iter().map(|nic| nic.name.as_str()).collect();
        for text in [
            &*format!("no carrier: {}", names.join(", ")),
            "-> check cable and switch port, if one of them is meant",
        ] {
            self.fact(Worth::Waiting, Tone::Waiting, "", text);
        }
    }

    fn fact(&mut self, worth: Worth, tone: Tone, label: &str, text: &str) {
        self.add(worth, tone, &format!(" {label:<8}"), text, 9);
    }

    fn nic(&mut self, nic: &Nic, detail: Detail) {
        let (done, open): (Vec<_>, Vec<_>) =
            nic.way.iter().partition(|step| step.outcome == "done");
        // The line with the name of the NIC is as important as its most important open
        // step.
        let worth = { open.iter() }.map(|step| Worth::from(tone(step))).max();
        let text = format!("{}: {}", nic.name, nic.in_words());
        self.fact(worth.unwrap_or(Worth::Plain), Tone::Plain, "", &text);
        if detail == Detail::Steps {
            for step in &done {
                self.step(step);
            }
        } else {
            if !nic.addresses.is_empty() {
                let text = nic.addresses.join(", ");
                self.step_text(Worth::Address, Tone::Plain, "address", &text);
            }
            let names: Vec<_> = { done.iter() }
                .filter(|step| !["carrier", "address"].contains(&step.step.as_str()))
                .map(|step| match step.text.as_str() {
                    // Show that the route has no gateway: if the next step fails, this is
                    // a sign of a wrong netmask.
                    ON_LINK => format!("{} ({ON_LINK})", step.step),
                    _ => step.step.clone(),
                })
                .collect();
            if !names.is_empty() {
                // Before an open step this line is more important: it says how far the
                // NIC came.
                let worth = match open.is_empty() {
                    true => Worth::Way,
                    false => Worth::Plain,
                };
                let text = format!("{} ok", names.join(", "));
                self.step_text(worth, Tone::Plain, "way", &text);
            }
        }
        for step in open {
            self.step(step);
        }
    }

    fn step(&mut self, step: &WayStep) {
        let tone = tone(step);
        let word = match tone {
            Tone::Failed => "FAILED: ",
            _ => "",
        };
        let text = format!("{word}{}", step.text);
        self.step_text(tone.into(), tone, &step.step, &text);
        if let Some(remedy) = &step.remedy {
            self.step_text(tone.into(), tone, "", &format!("-> {remedy}"));
        }
    }

    fn step_text(&mut self, worth: Worth, tone: Tone, label: &str, text: &str) {
        self.add(worth, tone, &format!("{:11}{label:<8}", ""), text, 19);
    }
}

fn tone(step: &WayStep) -> Tone {
    match step.outcome.as_str() {
        "done" => Tone::Plain,
        "failed" => Tone::Failed,
        _ => Tone::Waiting,
    }
}

fn name(status: &Status) -> &str {
    match status.host.name.as_str() {
        "" => "(no host name)",
        name => name,
    }
}

pub(super) fn duration(seconds: f64) -> String {
    in_words(seconds.max(0.0) as u64)
}
