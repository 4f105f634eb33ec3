use std::fs;
use std::path::Path;

use serde_json::Value;
use tracing::Level;

use super::*;

/// Each file below `test_data/status-screen` is a `/status.json` of a machine. Next to
/// it are its screen and its block, as the operator sees them. `LANDFALL_UPDATE_SCREENS=1`
/// writes them again; review the difference.
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
        let status: Status = serde_json::from_value(value).unwrap();
        let clock = "2026-11-24 11:22:33 UTC";
        let screen = screen(&status, &events, now, clock, "", (80, 25));
        assert!(screen.len() <= 25, "{}", path.display());
        let lines: Vec<_> = screen.iter().map(|line| line.text.as_str()).collect();
        let block = block(&status, now, "");
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
    assert_eq!(judged, 16);
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
    let line = Event {
        sequence: 1,
        time: 1.0,
        stage: "disk".into(),
        level: Level::INFO,
        text: "the last line".into(),
        progress: None,
    };
    for size in [(80, 25), (128, 48), (200, 60), (10, 3)] {
        let screen = screen(&status, std::slice::from_ref(&line), 2.0, "", "", size);
        assert!(screen.len() <= size.1.max(10), "{size:?}");
        assert!(
            screen.last().unwrap().text.contains("the last line"),
            "{size:?}"
        );
        assert!(screen.iter().all(|line| line.text.len() <= size.0.max(40)));
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
