//! `book lay-out DIRECTORY` writes the source of the book for mdBook, `book check
//! DIRECTORY` looks for broken links in the book that mdBook has made.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use landfall_documentation::book::{broken_links, lay_out};

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [command, directory] if command == "lay-out" => lay_out(Path::new(directory)),
        [command, directory] if command == "check" => {
            let broken = broken_links(Path::new(directory))?;
            match broken.len() {
                0 => Ok(()),
                count => bail!("{count} broken links:\n{}", broken.join("\n")),
            }
        }
        _ => bail!("usage: book lay-out|check DIRECTORY"),
    }
}

#[allow(clippy::print_stderr, reason = "a program")]
fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("book: FAILED {error:#}");
            ExitCode::FAILURE
        }
    }
}
