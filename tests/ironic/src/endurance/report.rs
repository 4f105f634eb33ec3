//! The report of a run, as text and as JSON. Has no side effects.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use super::cast::{Expected, Link, Trouble};
use super::day::Day;
use super::deployments::Ended;
use super::measurements::median;
use super::poor_link::Counts;

/// The figures of a run.
pub struct Figures {
    pub ended: Vec<Ended>,
    pub frames: Frames,
    pub conductor_restarts: u32,
    pub conductor_cpu: f64,
    /// The time from the first request for a deployment to the end of the last
    /// deployment.
    pub lasted: Duration,
    pub day: Option<Day>,
}

#[derive(Debug, Clone, Copy)]
pub struct Frames {
    pub all: u64,
    pub lost: u64,
    pub doubled: u64,
    pub delayed: u64,
}

impl From<&Counts> for Frames {
    fn from(counts: &Counts) -> Self {
        Self {
            all: counts.frames.load(Ordering::Relaxed),
            lost: counts.lost.load(Ordering::Relaxed),
            doubled: counts.doubled.load(Ordering::Relaxed),
            delayed: counts.delayed.load(Ordering::Relaxed),
        }
    }
}

/// The fault of a node or of its agent. `None` if the node ended as planned and the
/// agent did not crash.
#[must_use]
pub fn fault(ended: &Ended) -> Option<String> {
    let Ended { state, reason, .. } = ended;
    let name = ended.part.name();
    let trouble = ended.part.trouble.in_words();
    let end = match ended.part.trouble.expected() {
        Expected::Active if state == "active" => None,
        Expected::Active => Some(format!("expected active, found {state}: {reason}")),
        Expected::FailsWith(text) if state == "deploy failed" && reason.contains(text) => None,
        Expected::FailsWith(text) => Some(format!(
            "expected a failure with '{text}', found {state}: {reason}"
        )),
    };
    let end = end.or_else(|| {
        let agent_ended = state != "active" || ended.ending == Some("power off");
        (!agent_ended).then(|| format!("the agent has not switched off: {:?}", ended.ending))
    });
    let end = end.or_else(|| {
        let crashes = &ended.crashes;
        (!crashes.is_empty()).then(|| format!("the agent has ended by itself: {crashes:?}"))
    });
    end.map(|text| format!("{name} ({trouble}): {text}"))
}

fn seconds(ended: &[&Ended]) -> (u64, u64) {
    let all: Vec<u64> = ended.iter().map(|one| one.after.as_secs()).collect();
    let most = all.iter().max().copied().unwrap_or_default();
    (median(all), most)
}

/// The tables in Markdown.
#[must_use]
pub fn text(figures: &Figures) -> String {
    let mut groups = BTreeMap::<(Trouble, bool), Vec<&Ended>>::new();
    for ended in &figures.ended {
        let poor = ended.part.link == Link::Poor;
        groups
            .entry((ended.part.trouble, poor))
            .or_default()
            .push(ended);
    }
    let mut text = String::from(
        "| trouble | link | nodes | active | failed as planned | repeated | s, median | s, most | peak MiB | files |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for ((trouble, poor), group) in groups {
        let link = if poor { "poor" } else { "good" };
        let active = group.iter().filter(|one| one.state == "active").count();
        let failed = group
            .iter()
            .filter(|one| one.state != "active" && fault(one).is_none())
            .count();
        let repeated: usize = group.iter().map(|one| one.repeated.len()).sum();
        let (middle, most) = seconds(&group);
        let peak = group.iter().map(|one| one.peak_kib).max();
        let files = group.iter().map(|one| one.most_files).max();
        let _ = writeln!(
            text,
            "| {} | {link} | {} | {active} | {failed} | {repeated} | {middle} | {most} | {:.1} | {} |",
            trouble.in_words(),
            group.len(),
            peak.unwrap_or_default() as f64 / 1024.0,
            files.unwrap_or_default(),
        );
    }
    let Frames {
        all,
        lost,
        doubled,
        delayed,
    } = figures.frames;
    let _ = writeln!(
        text,
        "\nAll nodes have ended after {} s. The conductor was killed {} times and took {:.0} s of CPU time. \
         The poor links carried {all} frames: {lost} lost, {doubled} doubled, {delayed} delayed.",
        figures.lasted.as_secs(),
        figures.conductor_restarts,
        figures.conductor_cpu,
    );
    if let Some(day) = &figures.day {
        text += &day.text();
    }
    text
}

/// The figures of the run, with the values of every node.
#[must_use]
pub fn json(figures: &Figures) -> Value {
    let nodes: Vec<Value> = figures
        .ended
        .iter()
        .map(|one| {
            json!({
                "name": one.part.name(),
                "link": format!("{:?}", one.part.link),
                "trouble": format!("{:?}", one.part.trouble),
                "state": one.state,
                "reason": one.reason,
                "seconds": one.after.as_secs_f64(),
                "repeated": one.repeated,
                "ending": one.ending,
                "crashes": one.crashes,
                "peak_kib": one.peak_kib,
                "most_files": one.most_files,
                "fault": fault(one),
            })
        })
        .collect();
    let frames = figures.frames;
    json!({
        "nodes": nodes,
        "seconds": figures.lasted.as_secs_f64(),
        "conductor": {
            "restarts": figures.conductor_restarts,
            "cpu_seconds": figures.conductor_cpu,
        },
        "frames": {
            "all": frames.all, "lost": frames.lost,
            "doubled": frames.doubled, "delayed": frames.delayed,
        },
        "day": figures.day.as_ref().map(Day::json),
    })
}
