//! Children that misbehave: shell scripts in place of the agent.

use super::*;
use crate::tests::{Echo, shell};

fn nothing() -> File {
    File::open("/dev/null").unwrap()
}

/// The error if this script runs in place of a child that is starting.
fn fault_at_start(script: &str) -> String {
    let limit = Duration::from_secs(2);
    let child = Child::start_within(limit, &shell(script), "echo", nothing());
    child.unwrap_err().to_string()
}

/// The error of a question to a child that has started and then runs this script.
fn fault_of(script: &str) -> String {
    let started = Instant::now();
    let (mut child, missing) = Child::start(&shell(script), "echo", nothing()).unwrap();
    assert!(missing.is_empty());
    let fault = child
        .ask::<Echo>(&"question".to_owned(), &mut || ())
        .unwrap_err();
    let process = child.process().unwrap();
    drop(child);
    assert!(started.elapsed() < Duration::from_secs(10), "{script}");
    let left = std::path::Path::new("/proc").join(process.to_string());
    assert!(!left.exists(), "{script}: its process is still there");
    fault.to_string()
}

/// The shell command that sends the greeting of a child with no privilege left: an empty
/// list.
const GREETS: &str = r"printf '\002\000\000\000[]'; ";

#[test]
fn a_parser_that_misbehaves_gives_an_error_in_words() {
    for (script, words) in [
        ("exit 3", "has ended with exit code 3"),
        (
            "kill -SYS $$",
            "was killed: it made a system call that it may not make",
        ),
        (
            "kill -KILL $$",
            "was killed: it took too much time, or the host has no memory",
        ),
        (
            "kill -ABRT $$",
            "has failed, or needs more memory than it may have",
        ),
        ("kill -SEGV $$", "has crashed"),
        ("exec sleep 1000", "has no answer after 2 s"),
        ("while :; do :; done", "has no answer after 2 s"),
        (
            "exec cat /dev/zero",
            "gave a wrong answer: expected the JSON of a message, found other data",
        ),
        (
            "exec yes",
            "gave a wrong answer: expected at most 4096 bytes, found 175704697",
        ),
        (r"printf '\001\000\000\000'", "has ended with exit code 0"),
        (r"printf '\002'; exec sleep 1000", "has no answer after 2 s"),
    ] {
        let fault = fault_at_start(script);
        assert_eq!(fault, format!("its parser {words}"), "{script}");
    }
    for (script, words) in [
        ("exec sleep 1000", "has no answer after 2 s"),
        (
            "kill -SYS $$",
            "was killed: it made a system call that it may not make",
        ),
        ("exit 0", "has ended with exit code 0"),
        (
            r"printf '\145\000\000\000'; exec cat /dev/zero",
            "gave a wrong answer: expected at most 100 bytes, found 101",
        ),
        (
            r"printf '\002\000\000\000[]'; exec sleep 1000",
            "gave a wrong answer: expected the JSON of a message, found other data",
        ),
    ] {
        let script = format!("{GREETS}{script}");
        assert_eq!(fault_of(&script), format!("its parser {words}"), "{script}");
    }
}

#[test]
fn a_child_that_cannot_start_gives_an_error_in_words() {
    let program = Program::at("/nonexistent/landfall-agent");
    let fault = Child::start(&program, "echo", nothing()).unwrap_err();
    let words = "cannot start its parser: No such file or directory (os error 2)";
    assert_eq!(fault.to_string(), words);
}
