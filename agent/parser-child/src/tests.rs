//! The behaviour of a session if no child can be started.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::*;

/// Answers each question with the text of the question.
pub(crate) struct Echo;

impl Parser for Echo {
    const NAME: &'static str = "echo";
    const IS_NEEDED: bool = true;
    const LIMIT: Duration = Duration::from_secs(2);
    const TOTAL: Duration = Duration::from_secs(5);
    const LARGEST_ANSWER: usize = 100;
    type Question = String;
    type Answer = String;

    fn new(_: Input) -> Self {
        Self
    }

    fn answer(&mut self, question: String) -> String {
        question
    }
}

/// A program that runs this script instead of becoming a parser.
pub(crate) fn shell(script: &str) -> Program {
    Program {
        path: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into()],
    }
}

#[test]
fn a_parser_runs_here_if_its_child_cannot_be_confined() {
    let ends_early = shell("exit 3");
    for program in [Program::at("/nonexistent/landfall-agent"), ends_early] {
        let input = File::open("/dev/null").unwrap();
        let mut session = Session::<Echo>::start_by(&program, input).unwrap();
        assert_eq!(session.process(), None);
        assert_eq!(session.ask("a".to_owned()).unwrap(), "a");
    }
}

/// The untrusted data may have caused the end of the child, so the agent must not parse
/// them itself.
#[test]
fn a_parser_does_not_run_here_if_its_child_ends_later() {
    let greets = shell(r"printf '\002\000\000\000[]'; exit 3");
    let input = File::open("/dev/null").unwrap();
    let mut session = Session::<Echo>::start_by(&greets, input).unwrap();
    assert!(session.process().is_some());
    let fault = session.ask("a".to_owned()).unwrap_err();
    assert_eq!(fault.to_string(), "its parser has ended with exit code 3");
}

fn ask(script_text: &str, question: &str) -> (Session<Echo>, Result<String, String>) {
    let greets = format!(r"printf '\002\000\000\000[]'; {script_text}");
    let input = File::open("/dev/null").unwrap();
    let mut session = Session::<Echo>::start_in(&shell(&greets), input).unwrap();
    let answer = session.ask(question.to_owned());
    (session, answer.map_err(|fault| fault.to_string()))
}

/// The late answer could be mistaken for the answer to the next question.
#[test]
fn a_child_that_was_late_is_asked_no_more() {
    let late = "sleep 3; printf '\\003\\000\\000\\000\"a\"'; exec sleep 1000";
    let (mut session, answer) = ask(late, "a");
    let words = "its parser has no answer after 2 s";
    assert_eq!(answer.unwrap_err(), words);
    assert_eq!(session.process(), None);
    std::thread::sleep(Duration::from_millis(1500));
    let asked = std::time::Instant::now();
    let fault = session.ask("b".to_owned()).unwrap_err();
    assert_eq!(fault.to_string(), words);
    assert!(asked.elapsed() < Duration::from_secs(1));
}

#[test]
fn a_child_that_makes_progress_is_not_late_until_its_time_is_over() {
    let progress = "printf '\\377\\377\\377\\377'; sleep 1";
    let answers = format!(
        "for i in 1 2 3; do {progress}; done; printf '\\003\\000\\000\\000\"a\"'; exec sleep 9"
    );
    assert_eq!(ask(&answers, "a").1.unwrap(), "a");
    let (_, answer) = ask(&format!("while :; do {progress}; done"), "a");
    let words = "its parser has taken 5 s for all its answers";
    assert_eq!(answer.unwrap_err(), words);
}

#[test]
fn each_part_that_a_child_has_read_is_progress() {
    let text = "printf '\\002\\000\\000\\000[]\\377\\377\\377\\377\\377\\377\\377\\377\\003\\000\\000\\000\"a\"'; sleep 9";
    let input = File::open("/dev/null").unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let session = Session::<Echo>::start_in(&shell(text), input).unwrap();
    let mut session = session.on_progress(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(session.ask("a".to_owned()).unwrap(), "a");
    let with_answer = 3;
    assert_eq!(count.load(Ordering::Relaxed), with_answer);
}

#[test]
fn the_text_of_a_child_has_a_length_and_no_control_characters() {
    assert_eq!(plain_text("a\u{1b}[2J\nb"), "a[2Jb");
    assert_eq!(plain_text(&"a".repeat(1000)).len(), LONGEST_TEXT);
}
