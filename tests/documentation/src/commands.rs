//! Reads the commands of our programs out of code blocks.

use crate::blocks::{Block, Use};

/// The programs whose commands tests run.
pub const PROGRAMS: [&str; 2] = ["landfall-agent", "landfall-image"];

/// A command of a transcript, and what it prints.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    pub command: String,
    pub output: String,
}

/// Whether a text calls the program. A path that ends with the program's name is only
/// an argument of another program.
pub fn calls(text: &str, program: &str) -> bool {
    let word = format!("{program} ");
    let mut found = text.match_indices(&word);
    found.any(|(at, _)| !text[..at].ends_with('/'))
}

/// Whether a text calls one of our programs.
pub fn is_ours(text: &str) -> bool {
    PROGRAMS.iter().any(|program| calls(text, program))
}

/// The command in a line of a transcript, without the prompt `# ` or `$ `; `None` if the
/// line has no prompt.
pub fn prompted(line: &str) -> Option<&str> {
    line.strip_prefix("# ").or_else(|| line.strip_prefix("$ "))
}

/// The commands of a transcript with their output. A command that ends with a backslash
/// continues on the next line.
pub fn transcript(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let text = text.replace("\\\n", " ");
    for line in text.lines() {
        if let Some(command) = prompted(line) {
            steps.push(Step {
                command: command.to_owned(),
                output: String::new(),
            });
        } else if let Some(step) = steps.last_mut() {
            step.output.push_str(line);
            step.output.push('\n');
        }
    }
    steps
}

/// The steps of a transcript that a test of the program runs: those that call the
/// program, and the steps of other programs after them, which show what the program has
/// written.
pub fn steps_of(text: &str, program: &str) -> Vec<Step> {
    let mut is_own = false;
    let steps = transcript(text).into_iter().filter(|step| {
        is_own = calls(&step.command, program) || is_own && !is_ours(&step.command);
        is_own
    });
    steps.collect()
}

/// All lines of a block that has commands, without prompts, and with continued lines
/// joined. The lines of a transcript's output are included. Empty for a block without
/// commands.
pub fn command_lines(block: &Block) -> Vec<String> {
    match block.used {
        Use::Commands(_)
        | Use::Script
        | Use::Transcript(_)
        | Use::Service(_)
        | Use::Client
        | Use::NotRun
        | Use::NotRunTranscript => {}
        _ => return Vec::new(),
    }
    let joined = block.text.replace("\\\n", " ");
    let lines = joined
        .lines()
        .map(|line| prompted(line).unwrap_or(line).trim().to_owned());
    lines.collect()
}

/// The lines of a block of single commands that a test of the program runs.
pub fn lines_of(block: &Block, program: &str) -> Vec<String> {
    let mut lines = command_lines(block);
    lines.retain(|line| {
        line.strip_prefix(program)
            .is_some_and(|rest| rest.starts_with(' '))
    });
    lines
}

/// Whether a test of any program runs something of the block.
pub fn runs(block: &Block) -> bool {
    PROGRAMS.iter().any(|program| match block.used {
        Use::Commands(_) => !lines_of(block, program).is_empty(),
        Use::Script => calls(&block.text, program),
        Use::Transcript(_) | Use::Service(_) => !steps_of(&block.text, program).is_empty(),
        _ => false,
    })
}

/// The calls of a program in a block, with their arguments, but without redirections,
/// comments, and what follows a pipe. Leaves out a call with `...`, because `...`
/// stands for arguments that are not shown.
pub fn commands_of(block: &Block, program: &str) -> Vec<String> {
    let program = format!("{program} ");
    let lines = command_lines(block);
    let commands = lines.iter().filter_map(|line| {
        let at = line.find(&program)?;
        let is_start = line[..at].chars().all(|c| !c.is_alphanumeric());
        let command = line[at..].split([';', '|', '>', '&']).next()?;
        let command = command.split("  #").next()?.trim();
        (is_start && !command.contains("...") && !command.contains('$')).then(|| command.to_owned())
    });
    commands.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_has_commands_and_output() {
        let step = |command: &str, output: &str| Step {
            command: command.to_owned(),
            output: output.to_owned(),
        };
        assert_eq!(
            transcript("# a \\\n  b\none\n\ntwo\n# c\n"),
            [step("a    b", "one\n\ntwo\n"), step("c", "")]
        );
    }

    #[test]
    fn commands_of_other_programs_run_after_those_of_ours() {
        let text = "$ ls a\n$ landfall-agent b\n$ ls c\n# landfall-image d\n# ls e\n";
        let commands = |program: &str| -> Vec<String> {
            let steps = steps_of(text, program).into_iter();
            steps.map(|step| step.command).collect()
        };
        assert_eq!(commands("landfall-agent"), ["landfall-agent b", "ls c"]);
        assert_eq!(commands("landfall-image"), ["landfall-image d", "ls e"]);
    }

    #[test]
    fn a_path_that_ends_with_the_name_of_a_program_calls_nothing() {
        assert!(calls("landfall-agent a", "landfall-agent"));
        assert!(!calls("curl -o out/landfall-agent a", "landfall-agent"));
        assert!(!calls("landfall-image a", "landfall-agent"));
    }

    fn block(used: Use, text: &str) -> Block {
        Block {
            page: "p".to_owned(),
            line: 1,
            used,
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_block_without_a_command_of_ours_does_not_run() {
        for (used, text, is_run) in [
            (Use::Commands(Vec::new()), "make\nlandfall-agent a\n", true),
            (Use::Commands(Vec::new()), "make landfall-agent\n", false),
            (Use::Commands(Vec::new()), "sudo landfall-agent a\n", false),
            (
                Use::Script,
                "for a in b; do landfall-image $a; done\n",
                true,
            ),
            (Use::Script, "curl -O a/landfall-agent b\n", false),
            (Use::Transcript(Vec::new()), "$ landfall-image a\n", true),
            (Use::Transcript(Vec::new()), "$ curl a\n", false),
        ] {
            assert_eq!(runs(&block(used, text)), is_run, "{text}");
        }
    }

    #[test]
    fn only_the_arguments_of_the_program_are_a_command() {
        let found = |text: &str| commands_of(&block(Use::NotRun, text), "p");
        assert_eq!(
            found("p a | q\n# p b > c\np d ... e\nxp f\n"),
            ["p a", "p b"]
        );
        assert_eq!(found("p a \\\n  b  # why\n"), ["p a    b"]);
    }
}
