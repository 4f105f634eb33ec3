mod browser;

use landfall_documentation::events_schema::{EventsSchema, Form};
use landfall_report::status::{Host, LastError, Network, Nic, Progress, Status, Step, WayStep};

use super::*;

fn status() -> Status {
    Status {
        host: Host {
            name: "node7".into(),
            product: "Rocket \"9000\"".into(),
            serial: "S<1>".into(),
            boot_mode: "uefi".into(),
            ..Host::default()
        },
        service: Some("https://ironic.example.org:6385".into()),
        step: Some(Step {
            name: "looking for Ironic".into(),
            since: 10.0,
        }),
        progress: Some(Progress {
            what: "writing the image".into(),
            done: 50,
            total: Some(100),
            rate: 10,
            remaining: Some(5),
        }),
        network: Network {
            nics: vec![Nic {
                name: "eth0".into(),
                mac: "52:54:00:00:00:01".into(),
                carrier: true,
                speed: Some(1000),
                way: vec![WayStep {
                    step: "TLS".into(),
                    outcome: "failed".into(),
                    text: "unknown authority".into(),
                    remedy: Some("add the authority".into()),
                }],
                ..Nic::default()
            }],
            ..Network::default()
        },
        last_error: Some(LastError {
            time: 12.0,
            stage: "disk".into(),
            text: "<script>alert(1)</script>".into(),
            remedy: Some("check the disk".into()),
        }),
        ..Status::default()
    }
}

#[test]
fn the_page_shows_fault_and_remedy_and_escapes_text() {
    let page = html::page(&status(), &[], 20.0);
    for expected in [
        "<h1>node7</h1>",
        "looking for Ironic, for 10 s",
        "https://ironic.example.org:6385 has not answered yet",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "check the disk",
        "add the authority",
        " max=\"100\" value=\"50\">50 bytes</progress>",
        "S&lt;1&gt;",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    assert!(!page.contains("<script"), "{page}");
}

#[test]
fn the_metrics_are_in_the_format_of_prometheus() {
    let process = metrics::Process {
        resident_bytes: 4096,
        open_files: 12,
    };
    let text = metrics::text(&status(), &process, 20.0);
    for expected in [
        "landfall_info{version=\"0.1.0\",host=\"node7\",product=\"Rocket \\\"9000\\\"\",serial=\"S<1>\",boot_mode=\"uefi\",node=\"\"} 1",
        "landfall_step_seconds{step=\"looking for Ironic\"} 10.000",
        "landfall_progress_bytes{what=\"writing the image\"} 50",
        "landfall_nic_speed_bits_per_second{nic=\"eth0\",mac=\"52:54:00:00:00:01\"} 1000000000",
        "process_open_fds 12",
    ] {
        assert!(
            text.lines().any(|line| line == expected),
            "{expected}: {text}"
        );
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let name = name.split('{').next().unwrap();
        assert!(text.contains(&format!("# TYPE {name} gauge\n")), "{line}");
    }
}

#[tokio::test]
async fn the_logs_of_a_fatal_error_are_there_after_one() {
    let state = tempfile::tempdir().unwrap();
    let before = logs_of_failure(state.path());
    assert_eq!(before.status(), StatusCode::NOT_FOUND);
    landfall_logs::keep_for_anyone(state.path());
    let after = logs_of_failure(state.path());
    assert_eq!(after.status(), StatusCode::OK);
    assert_eq!(after.headers()["content-type"], "application/gzip");
    let body = axum::body::to_bytes(after.into_body(), 8 << 20)
        .await
        .unwrap();
    let members = landfall_logs::fixtures::unpack_tar_gz(&body);
    assert!(members.contains_key("status.json"), "{:?}", members.keys());
}

#[tokio::test]
async fn the_status_has_the_form_of_the_schema() {
    landfall_report::start(landfall_report::Output::Stderr, false);
    tracing::warn!("a line of the log");
    let answer = answer(Page::Json);
    let body = axum::body::to_bytes(answer.into_body(), 8 << 20).await;
    let status: serde_json::Value = serde_json::from_slice(&body.unwrap()).unwrap();
    let schema = EventsSchema::read().unwrap();
    assert_eq!(schema.fault(Form::Status, &status), None);
    let events = status["events"].as_array().unwrap();
    assert!(!events.is_empty() && status["time"].is_f64(), "{status:#}");
}
