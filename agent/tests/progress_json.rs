//! Checks that the real program writes only events with `--progress-json`.

#![allow(clippy::unwrap_used, reason = "for tests")]

use std::collections::BTreeSet;
use std::fs::File;
use std::process::Command;
use std::time::Duration;

use landfall_disk::fixtures::gpt_image;
use landfall_documentation::events_schema::{EventsSchema, Form};
use landfall_http_client::fixtures::{Asked, Reply, Server};
use serde_json::Value;

const MIB: usize = 1 << 20;
/// A text that each secret in these tests contains.
const SECRET: &str = "S3CRET";

/// Serves the image. The first connection breaks in the middle. The next one answers so
/// late that the program must report progress before the answer.
fn server(image: Vec<u8>) -> Server {
    let is_image = |asked: &Asked| asked.line.contains("/image.raw");
    Server::start(move |asked| match Reply::correct(&image, "\"1\"", asked) {
        reply if is_image(asked) && asked.earlier == 0 => reply.cut(image.len() / 2),
        reply => {
            if is_image(asked) && asked.earlier == 1 {
                std::thread::sleep(Duration::from_secs(6));
            }
            reply
        }
    })
}

/// The events of `write-image` with these further options, and the exit code.
fn events_of(more: &[&str]) -> (Vec<Value>, Option<i32>) {
    let server = server(gpt_image(32 * MIB as u64, 512));
    let url = server.url.replace("http://", "http://user:S3CRET@") + "?signature=S3CRET";
    let disk = tempfile::NamedTempFile::new().unwrap();
    disk.as_file().set_len(64 * MIB as u64).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_landfall-agent"))
        .args(["--progress-json", "--debug", "write-image", &url])
        .arg(disk.path())
        .arg("--allow-this-machine")
        .args(more)
        .stdin(File::open("/dev/null").unwrap())
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!stderr.contains(SECRET), "{stderr}");
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
    (stderr.lines().map(parse).collect(), output.status.code())
}

#[test]
fn every_line_is_an_event_of_the_schema_without_a_gap_and_without_secrets() {
    let schema = EventsSchema::read().unwrap();
    let wrong = format!("sha256:{}", "0123456789abcdef".repeat(4));
    for (more, code, level) in [
        (&[][..], Some(0), "warn"),
        (&["--image-digest", wrong.as_str()], Some(1), "error"),
    ] {
        let (events, ended) = events_of(more);
        assert_eq!(ended, code, "{events:#?}");
        for (event, number) in events.iter().zip(1_u64..) {
            assert_eq!(schema.fault(Form::Event, event), None);
            assert_eq!(event["sequence"], number, "{event}");
        }
        let levels: BTreeSet<&str> = { events.iter() }
            .filter_map(|event| event["level"].as_str())
            .collect();
        assert!(
            levels.contains("info") && levels.contains(level),
            "{levels:?}"
        );
        let progress = events.iter().find(|event| event["progress"].is_object());
        let progress = &progress.unwrap()["progress"];
        assert_eq!(progress["total"], 32 * MIB, "{progress}");
        let url = "http://***@127.0.0.1:";
        let has_url = |event: &&Value| event["text"].as_str().unwrap().contains(url);
        assert!(events.iter().any(|event| has_url(&event)), "{events:#?}");
    }
}
