//! What a session does where no child can be started.

use super::*;

struct Echo;

impl Parser for Echo {
    const NAME: &'static str = "echo";
    const IS_NEEDED: bool = true;
    const LIMIT: Duration = Duration::from_secs(2);
    const LARGEST_ANSWER: usize = 100;
    type Question = String;
    type Answer = String;

    fn new(_: File) -> Self {
        Self
    }

    fn answer(&mut self, question: String) -> String {
        question
    }
}

/// The program that is started does this instead of becoming a parser.
fn script(text: &str) -> Program {
    Program {
        path: "/bin/sh".into(),
        arguments: vec!["-c".into(), text.into()],
    }
}

#[test]
fn a_parser_runs_here_if_its_child_cannot_be_confined() {
    let ends_early = script("exit 3");
    for program in [Program::at("/nonexistent/landfall-agent"), ends_early] {
        let input = File::open("/dev/null").unwrap();
        let mut session = Session::<Echo>::start_by(&program, input).unwrap();
        assert_eq!(session.process(), None);
        assert_eq!(session.ask("a".to_owned()).unwrap(), "a");
    }
}

/// What the child has read may be the reason for its end, so the agent must not read it.
#[test]
fn a_parser_does_not_run_here_if_its_child_ends_later() {
    let greets = script(r"printf '\002\000\000\000[]'; exit 3");
    let input = File::open("/dev/null").unwrap();
    let mut session = Session::<Echo>::start_by(&greets, input).unwrap();
    assert!(session.process().is_some());
    let fault = session.ask("a".to_owned()).unwrap_err();
    assert_eq!(fault.to_string(), "its parser has ended with exit code 3");
}

#[test]
fn the_text_of_a_child_has_a_length_and_no_control_characters() {
    assert_eq!(plain_text("a\u{1b}[2J\nb"), "a[2Jb");
    assert_eq!(plain_text(&"a".repeat(1000)).len(), LONGEST_TEXT);
}
