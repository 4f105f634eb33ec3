//! The facts of a status as lines.

use super::{ScreenLine, Tone};
use crate::failure::with_remedy;
use crate::in_words;
use crate::status::{Nic, ON_LINK, RootDisk, Status, WayStep};
use crate::wrap::wrapped;

/// How many disks that were not chosen are shown: the network and the log need room as
/// well.
const MOST_DISKS: usize = 3;

/// How much of the way to the service is shown.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Detail {
    /// Every step is on a separate line.
    Steps,
    /// The steps that are done share one line.
    Brief,
}

/// Collects lines of at most `width` characters.
#[derive(Clone)]
pub(super) struct Page {
    width: usize,
    pub(super) lines: Vec<ScreenLine>,
}

impl Page {
    pub(super) fn new(width: usize) -> Self {
        Self {
            width,
            lines: Vec::new(),
        }
    }

    pub(super) fn put(&mut self, tone: Tone, text: String) {
        self.lines.push(ScreenLine { text, tone });
    }

    pub(super) fn wrapped(&mut self, tone: Tone, label: &str, text: &str, indent: usize) {
        for line in wrapped(label, text, indent, self.width) {
            self.put(tone, line);
        }
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
            (Some(done), _) => self.fact(Tone::Plain, "NOW", done),
            (None, Some(step)) => {
                let text = format!("{}, for {}", step.name, duration(now - step.since));
                self.fact(Tone::Plain, "NOW", &text);
            }
            (None, None) => {}
        }
        if let Some(progress) = &status.progress {
            self.fact(Tone::Plain, "", &progress.to_string());
        }
        if let Some(error) = &status.last_error {
            let ago = duration(now - error.time);
            let text = format!("{}: {} ({ago} ago)", error.stage, error.text);
            self.fact(Tone::Failed, "ERROR", &text);
            if let Some(remedy) = &error.remedy {
                self.fact(Tone::Failed, "", &format!("-> {remedy}"));
            }
        }
        if let Some(service) = &status.service {
            let tone = match status.service_answers {
                true => Tone::Plain,
                false => Tone::Waiting,
            };
            let answers = status.service_in_words();
            self.fact(tone, "SERVICE", &format!("{service} {answers}"));
        }
        if let Some(node) = &status.node {
            self.fact(Tone::Plain, "NODE", node);
        }
        if let Some(disk) = &status.root_disk {
            self.disk(disk);
        }
        let network = &status.network;
        if let Some(source) = &network.source {
            self.fact(Tone::Plain, "NETWORK", &format!("configured by {source}"));
        }
        for fault in &network.faults {
            self.fact(Tone::Failed, "", &format!("FAULT {fault}"));
        }
        // Before the network is configured, the agent has not looked for NICs.
        if network.nics.is_empty() && (network.source.is_some() || network.no_nic.is_some()) {
            let (why, remedy) = with_remedy(network.no_nic.as_deref().unwrap_or_default());
            let colon = if why.is_empty() { "" } else { ": " };
            self.fact(Tone::Failed, "", &format!("no NIC found{colon}{why}"));
            if let Some(remedy) = remedy {
                self.fact(Tone::Failed, "", &format!("-> {remedy}"));
            }
        }
        self.nics(&network.nics, detail);
    }

    fn disk(&mut self, disk: &RootDisk) {
        self.fact(Tone::Plain, "DISK", &format!("{}: {}", disk.path, disk.why));
        if let Some(others) = disk.rejected_in_words(MOST_DISKS) {
            self.fact(Tone::Plain, "", &format!("not chosen: {others}"));
            if let Some(remedy) = &disk.remedy {
                self.fact(Tone::Plain, "", &format!("-> {remedy}"));
            }
        }
    }

    /// With [`Detail::Brief`], the NICs that have completed most steps come first,
    /// and NICs without a carrier share a line if another NIC has a carrier: a server
    /// may have eight NICs of which one is in use.
    fn nics(&mut self, nics: &[Nic], detail: Detail) {
        if detail == Detail::Steps {
            nics.iter().for_each(|nic| self.nic(nic, detail));
            return;
        }
        let done = |nic: &&Nic| nic.way.iter().filter(|step| step.outcome == "done").count();
        let (mut linked, unplugged): (Vec<_>, Vec<_>) = nics.iter().partition(|nic| nic.carrier);
        linked.sort_by_key(|nic| std::cmp::Reverse(done(nic)));
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
        let text = format!("no carrier: {}", names.join(", "));
        self.fact(Tone::Waiting, "", &text);
        self.fact(
            Tone::Waiting,
            "",
            "-> check cable and switch port, if one of them is meant",
        );
    }

    fn fact(&mut self, tone: Tone, label: &str, text: &str) {
        self.wrapped(tone, &format!(" {label:<8}"), text, 9);
    }

    fn nic(&mut self, nic: &Nic, detail: Detail) {
        self.fact(
            Tone::Plain,
            "",
            &format!("{}: {}", nic.name, nic.in_words()),
        );
        let (done, open): (Vec<_>, Vec<_>) =
            nic.way.iter().partition(|step| step.outcome == "done");
        if detail == Detail::Steps {
            for step in &done {
                self.step(Tone::Plain, step, "");
            }
        } else {
            if !nic.addresses.is_empty() {
                self.step_text(Tone::Plain, "address", &nic.addresses.join(", "));
            }
            let names: Vec<_> = { done.iter() }
                .filter(|step| !["carrier", "address"].contains(&step.step.as_str()))
                .map(|step| match step.text.as_str() {
                    // A sign of a wrong netmask, if the next step fails.
                    ON_LINK => format!("{} ({ON_LINK})", step.step),
                    _ => step.step.clone(),
                })
                .collect();
            if !names.is_empty() {
                self.step_text(Tone::Plain, "way", &format!("{} ok", names.join(", ")));
            }
        }
        for step in open {
            match step.outcome.as_str() {
                "failed" => self.step(Tone::Failed, step, "FAILED: "),
                _ => self.step(Tone::Waiting, step, ""),
            }
        }
    }

    fn step(&mut self, tone: Tone, step: &WayStep, word: &str) {
        self.step_text(tone, &step.step, &format!("{word}{}", step.text));
        if let Some(remedy) = &step.remedy {
            self.step_text(tone, "", &format!("-> {remedy}"));
        }
    }

    fn step_text(&mut self, tone: Tone, label: &str, text: &str) {
        self.wrapped(tone, &format!("{:11}{label:<8}", ""), text, 19);
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
