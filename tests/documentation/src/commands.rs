//! Reads the commands of our programs out of code blocks.

use crate::blocks::{Block, Use};

/// A command of a transcript, and what it prints.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    pub command: String,
    pub output: String,
}

/// The commands of a transcript with their output. A command that ends with a backslash
/// continues on the next line.
pub fn transcript(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let text = text.replace("\\\n", " ");
    for line in text.lines() {
        let command = line.strip_prefix("# ").or_else(|| line.strip_prefix("$ "));
        if let Some(command) = command {
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

/// The lines with commands in a block, whole: with pipes and comments.
pub fn command_lines(block: &Block) -> Vec<String> {
    match block.used {
        Use::Commands | Use::Script | Use::NotRun | Use::Transcript => {}
        _ => return Vec::new(),
    }
    let joined = block.text.replace("\\\n", " ");
    let lines = joined.lines().map(|line| {
        let prompt = line.strip_prefix("# ").or_else(|| line.strip_prefix("$ "));
        prompt.unwrap_or(line).trim().to_owned()
    });
    lines.collect()
}

/// The commands of a program in a block, each with its arguments only. A part of a pipe,
/// a redirection and a comment are no arguments; `...` stands for some, so such a
/// command is left out.
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
    fn only_the_arguments_of_the_program_are_a_command() {
        let block = |text: &str| Block {
            page: "p".to_owned(),
            line: 1,
            used: Use::NotRun,
            text: text.to_owned(),
        };
        let found = |text: &str| commands_of(&block(text), "p");
        assert_eq!(
            found("p a | q\n# p b > c\np d ... e\nxp f\n"),
            ["p a", "p b"]
        );
        assert_eq!(found("p a \\\n  b  # why\n"), ["p a    b"]);
    }
}
