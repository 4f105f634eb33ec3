//! Runs the agent's commands from README and docs as they are written there, and
//! compares their output with the output on the pages.

use std::path::Path;

use landfall_documentation::blocks;
use landfall_documentation::options_page;
use landfall_documentation::page::pages;
use landfall_documentation::run::Reader;

#[test]
fn the_agents_commands_run_as_the_pages_show_them() {
    let program = Path::new(env!("CARGO_BIN_EXE_landfall-agent"));
    let path = format!(
        "{}:{}",
        program.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let (mut count, mut differences) = (0, Vec::new());
    for page in pages().unwrap() {
        let directory = tempfile::tempdir().unwrap();
        let reader = Reader {
            directory: directory.path(),
            program: "landfall-agent",
            path: path.clone(),
        };
        let (ran, found) = reader.follow(&blocks(&page)).unwrap();
        count += ran;
        differences.extend(found);
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(count >= 20, "found {count} commands");
}

#[test]
fn the_page_of_options_is_the_help() {
    let introduction = "The programs in the ramdisk read their settings from the kernel command \
        line and from files: [kernel-arguments.md](kernel-arguments.md). What `install` does is \
        on [a page of its own](install.md).";
    let program = Path::new(env!("CARGO_BIN_EXE_landfall-agent"));
    options_page::check("docs/landfall-agent.md", program, introduction).unwrap();
}
