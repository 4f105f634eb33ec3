use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::Value;
use tracing::Level;

use super::*;
use crate::form::HINT;
use crate::status::{
    Host, LastError, Network, Nic, Progress, RejectedDisk, RootDisk, Step, WayStep,
};

/// Each file below `test_data/status-screen` is a `/status.json` of a machine. Next to
/// it are its screen and its block, as the operator sees them. `LANDFALL_UPDATE_SCREENS=1`
/// writes them again; review the difference. The end-to-end tests compare the screens with
/// those of real boots (tests/src/example_screen.rs).
#[test]
fn the_screens_are_as_reviewed() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("test_data/status-screen");
    let update = std::env::var_os("LANDFALL_UPDATE_SCREENS").is_some();
    let mut judged = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        let now = value["time"].as_f64().unwrap();
        let events: Vec<_> = value["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(event)
            .collect();
        let own_clock = value["clock"].as_str().map(str::to_owned);
        // Without an agent there is no form.
        let hint = if value["form"] == false { "" } else { HINT };
        let status: Status = serde_json::from_value(value).unwrap();
        let clock = own_clock.as_deref().unwrap_or("2026-11-24 11:22:33 UTC");
        let screen = screen(&status, &events, now, clock, hint, (80, 25));
        assert!(screen.len() <= 25, "{}", path.display());
        let lines: Vec<_> = screen.iter().map(|line| line.text.as_str()).collect();
        let block = block(&status, now, clock, hint);
        for line in lines
            .iter()
            .copied()
            .chain(block.iter().map(String::as_str))
        {
            assert!(
                line.len() <= 80 && line.is_ascii(),
                "{}: {line}",
                path.display()
            );
        }
        let words = lines.iter().flat_map(|line| line.split_whitespace());
        let all = words.collect::<Vec<_>>().join(" ");
        if let Some((_, clock)) = all.split_once("this machine's clock says ") {
            let (title, clock) = (lines[0], &clock[..10]);
            assert!(title.contains(clock), "{clock} is not the clock in {title}");
        }
        for (kind, lines) in [("screen", lines.join("\n")), ("block", block.join("\n"))] {
            let path = path.with_extension(kind);
            let shown = format!("{lines}\n");
            if update {
                fs::write(&path, shown).unwrap();
            } else {
                assert_eq!(
                    shown,
                    fs::read_to_string(&path).unwrap(),
                    "{}",
                    path.display()
                );
            }
        }
        judged += 1;
    }
    assert_eq!(judged, 19);
}

fn event(value: &Value) -> Event {
    Event {
        sequence: 0,
        time: value["time"].as_f64().unwrap(),
        stage: value["stage"].as_str().unwrap().to_owned(),
        level: value["level"].as_str().unwrap().parse::<Level>().unwrap(),
        text: value["text"].as_str().unwrap().to_owned(),
        progress: None,
    }
}

#[test]
fn many_nics_leave_room_for_the_log() {
    let mut status = Status::default();
    status.network.nics = (0..40)
        .map(|number| Nic {
            name: format!("eth{number}"),
            ..Nic::default()
        })
        .collect();
    let line = event_of("the last line");
    for size in [(80, 25), (128, 48), (200, 60), (40, 10)] {
        let screen = screen(&status, std::slice::from_ref(&line), 2.0, "", "", size);
        assert!(
            screen.last().unwrap().text.contains("the last line"),
            "{size:?}"
        );
    }
}

/// The NIC that matters is the last of eight, and the others have no cable.
#[test]
fn the_nic_that_came_farthest_is_seen() {
    let step = |step: &str, outcome: &str, text: &str| WayStep {
        step: step.into(),
        outcome: outcome.into(),
        text: text.into(),
        remedy: Some("do this".into()),
    };
    let mut status = Status::default();
    status.network.nics = (0..8)
        .map(|number| Nic {
            name: format!("eth{number}"),
            carrier: number >= 6,
            way: match number {
                ..6 => vec![step("carrier", "failed", "none")],
                6 => vec![step("carrier", "done", "ok")],
                _ => vec![
                    step("carrier", "done", "ok"),
                    step("address", "done", "192.0.2.10/24"),
                    step("route", "failed", "no route to 192.0.2.1"),
                ],
            },
            ..Nic::default()
        })
        .collect();
    let lines = screen(&status, &[], 2.0, "", "", (80, 25));
    let text = lines.into_iter().map(|line| line.text + "\n");
    let text: String = text.collect();
    let at = |part: &str| {
        text.find(part)
            .unwrap_or_else(|| panic!("no {part}: {text}"))
    };
    assert!(at("FAILED: no route to 192.0.2.1") < at("eth6:"), "{text}");
    at("no carrier: eth0, eth1, eth2, eth3, eth4, eth5\n");
}

/// A host with two NICs. One of them has failed at its last step.
fn one_of_two_failed() -> Status {
    let step = |step: &str, outcome: &str, text: &str| WayStep {
        step: step.into(),
        outcome: outcome.into(),
        text: text.into(),
        remedy: { outcome == "failed" }.then(|| "is the URL right?".into()),
    };
    let nic = |name: &str, address: &str, last: WayStep| Nic {
        name: name.into(),
        carrier: true,
        addresses: vec![address.into()],
        way: vec![
            step("carrier", "done", "ok"),
            step("address", "done", address),
            step("route", "done", "via 192.0.2.1"),
            step("TCP", "done", "ok"),
            last,
        ],
        ..Nic::default()
    };
    let mut status = Status {
        step: Some(Step::default()),
        service: Some("http://192.0.2.5/image.raw".into()),
        service_answers: true,
        node: Some("7f0c6d2a".into()),
        root_disk: Some(RootDisk {
            path: "/dev/sda".into(),
            why: "the smallest".into(),
            ..RootDisk::default()
        }),
        last_error: Some(LastError {
            stage: "disk".into(),
            text: "it broke".into(),
            remedy: Some("repair it".into()),
            ..LastError::default()
        }),
        ..Status::default()
    };
    status.network.source = Some("defaults".into());
    status.network.nics = vec![
        nic(
            "eth0",
            "192.0.2.10/24",
            step("HTTP", "failed", "status 302"),
        ),
        nic("eth1", "192.0.2.20/24", step("HTTP", "done", "status 200")),
    ];
    status
}

/// The facts of [`one_of_two_failed`] that are never left out.
const KEPT: [&str; 7] = [
    " NOW ",
    " ERROR   disk: it broke",
    "-> repair it",
    " NETWORK configured by defaults",
    "eth0: ",
    "HTTP    FAILED: status 302",
    "-> is the URL right?",
];

fn text_of(status: &Status, size: (usize, usize)) -> String {
    let lines = screen(status, &[], 1.0, "", "", size).into_iter();
    lines.map(|line| line.text + "\n").collect()
}

#[test]
fn facts_are_left_out_in_the_order_of_their_worth() {
    let status = one_of_two_failed();
    // The facts in the order in which the screen leaves them out. The NIC with the most
    // completed steps (eth1) comes first on the screen.
    let order = [
        "address 192.0.2.10/24",
        "address 192.0.2.20/24",
        "way     route, TCP, HTTP ok",
        "DISK    /dev/sda",
        "way     route, TCP ok",
        "eth1: ",
        "NODE    ",
        "SERVICE ",
    ];
    for (height, left_out) in [
        (23, 0),
        (22, 2),
        (21, 3),
        (20, 4),
        (19, 5),
        (18, 6),
        (17, 7),
        (16, 8),
    ] {
        let text = text_of(&status, (80, height));
        for (number, fact) in order.iter().enumerate() {
            let is_left_out = number < left_out;
            assert_eq!(!text.contains(fact), is_left_out, "{height} {fact}: {text}");
        }
        for fact in KEPT {
            assert!(text.contains(fact), "{height} {fact}: {text}");
        }
        let note = format!("({left_out} more lines: see /status.json)");
        assert_eq!(text.contains(&note), left_out > 0, "{height}: {text}");
    }
}

/// A machine with a shelf of disks has a long error if no disk matches.
#[test]
fn a_long_error_hides_no_other_failure() {
    let mut status = one_of_two_failed();
    if let Some(error) = &mut status.last_error {
        error.text += &"; /dev/sda: too small".repeat(400);
    }
    let text = text_of(&status, (80, 25));
    for fact in KEPT {
        assert!(text.contains(fact), "{fact}: {text}");
    }
    assert!(text.contains("more lines: see /status.json)"), "{text}");
}

/// The block has one line for all steps that are done. It still shows a route without a
/// gateway, because such a route is a sign of a wrong netmask.
#[test]
fn the_block_says_if_the_service_is_on_the_link() {
    let step = |step: &str, outcome: &str, text: &str| WayStep {
        step: step.into(),
        outcome: outcome.into(),
        text: text.into(),
        remedy: None,
    };
    for (route, expected) in [
        ("via 192.0.2.1", "           way     route, DNS ok"),
        (
            "on the link",
            "           way     route (on the link), DNS ok",
        ),
    ] {
        let mut status = Status::default();
        status.network.nics = vec![Nic {
            name: "eth0".into(),
            carrier: true,
            way: vec![
                step("carrier", "done", "ok"),
                step("route", "done", route),
                step("DNS", "done", "10.20.1.5"),
                step("TCP", "failed", "no route to host"),
            ],
            ..Nic::default()
        }];
        let lines = block(&status, 2.0, "", "");
        assert!(lines.iter().any(|line| line == expected), "{lines:#?}");
    }
}

fn event_of(text: &str) -> Event {
    Event {
        sequence: 1,
        time: 1.0,
        stage: "disk".into(),
        level: Level::INFO,
        text: text.into(),
        progress: None,
    }
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof!["[ -~]{0,200}", any::<String>(), Just(String::new())]
}

prop_compose! {
    fn ways()(
        steps in prop::collection::vec((texts(), texts(), prop::option::of(texts())), 0..8),
        outcome in "done|waiting|failed",
    ) -> Vec<WayStep> {
        steps.into_iter().map(|(step, text, remedy)| WayStep {
            step, outcome: outcome.clone(), text, remedy,
        }).collect()
    }
}

prop_compose! {
    fn nics()(
        name in texts(), carrier: bool, speed: Option<u32>, addresses in prop::collection::vec(texts(), 0..4),
        neighbour in prop::option::of(texts()), way in ways(),
        bond_mode in prop::option::of(texts()), ports in prop::collection::vec(texts(), 0..4),
    ) -> Nic {
        Nic { name, carrier, speed, addresses, neighbour, way, bond_mode, ports, ..Nic::default() }
    }
}

prop_compose! {
    fn statuses()(
        host in prop::collection::vec(texts(), 4),
        memory: Option<u64>,
        facts in prop::collection::vec(prop::option::of(texts()), 6),
        rejected in 0_usize..6,
        nics in prop::collection::vec(nics(), 0..12),
        progress: Option<(u64, Option<u64>, u64, Option<u64>)>,
        error in prop::option::of((texts(), texts(), prop::option::of(texts()))),
    ) -> Status {
        let [name, vendor, product, serial] = <[String; 4]>::try_from(host).unwrap();
        let [service, node, step, disk, done, source] = <[Option<String>; 6]>::try_from(facts).unwrap();
        let disk = disk.map(|why| RootDisk {
            path: why.clone(),
            rejected: vec![RejectedDisk { path: why.clone(), why: why.clone() }; rejected],
            remedy: Some(why.clone()),
            why,
        });
        let error = error.map(|(stage, text, remedy)| LastError { time: 1e9, stage, text, remedy });
        let step = step.map(|name| Step { name, since: -1.0 });
        let progress = progress.map(|(done, total, rate, remaining)| Progress {
            what: "writing".into(), done, total, rate, remaining,
        });
        Status {
            host: Host { name, vendor, product, serial, memory, ..Host::default() },
            network: Network { source, nics, ..Network::default() },
            service, node, step, progress, root_disk: disk, last_error: error, done,
            ..Status::default()
        }
    }
}

proptest! {
    #[test]
    fn any_status_fits_on_any_terminal(
        status in statuses(), columns in 0_usize..300, rows in 0_usize..80, text in texts(),
    ) {
        let status = crate::status::masked(&status);
        let events = [event_of(&crate::printable(&text)), event_of("last")];
        let clock = "2026-11-24 11:22:33 UTC";
        for size in [(columns, rows), (10, 5), (20, 10), (80, 24)] {
            let (width, height) = (size.0.max(1), size.1.max(1));
            let screen = screen(&status, &events, 100.0, clock, HINT, size);
            prop_assert!(screen.len() <= height, "{} lines in {size:?}", screen.len());
            for line in screen {
                prop_assert!(line.text.len() <= width, "{size:?}: {:?}", line.text);
                prop_assert!(is_plain(&line.text), "{:?}", line.text);
            }
        }
        for line in block(&status, 100.0, clock, HINT) {
            prop_assert!(line.len() <= 80 && is_plain(&line), "{line:?}");
        }
    }
}

fn is_plain(line: &str) -> bool {
    line.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

#[test]
fn no_form_is_offered_that_would_refuse_to_change_the_network() {
    let known = Status {
        node: Some("n".into()),
        ..Status::default()
    };
    let writing = Status {
        progress: Some(Progress::default()),
        ..Status::default()
    };
    let done = Status {
        done: Some("locked down".into()),
        ..Status::default()
    };
    for (status, offered) in [
        (Status::default(), true),
        (known, false),
        (writing, false),
        (done, false),
    ] {
        let screen = screen(&status, &[], 1.0, "", HINT, (80, 25));
        let shown = screen.iter().any(|line| line.text.contains(HINT));
        assert_eq!(shown, offered, "{status:?}");
        let block = block(&status, 1.0, "", HINT);
        let shown = block.iter().any(|line| line.contains(HINT));
        assert_eq!(shown, offered, "{status:?}");
    }
}

#[test]
fn numbers_that_count_on_are_no_change() {
    let step = crate::status::Step {
        name: "x".into(),
        since: 1.0,
    };
    let one = Status {
        step: Some(step),
        ..Status::default()
    };
    let mut other = one.clone();
    other.progress = Some(crate::status::Progress::default());
    assert_eq!(essence(&one), essence(&other));
    other.node = Some("n".into());
    assert_ne!(essence(&one), essence(&other));
}
