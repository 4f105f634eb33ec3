//! Every quoted line of the console is one that our programs print, and every fence
//! names the kind of its content.

use std::fs;

use landfall_documentation::commands::runs;
use landfall_documentation::output::sentences;
use landfall_documentation::page::{pages, repository};
use landfall_documentation::programs_texts::ProgramsTexts;
use landfall_documentation::{Block, FORMS, Use, blocks};

fn all_blocks() -> anyhow::Result<Vec<Block>> {
    Ok(pages()?.iter().flat_map(blocks).collect())
}

#[test]
fn every_code_block_has_a_known_use() {
    let blocks = all_blocks().unwrap();
    let unknown: Vec<String> = { blocks.iter() }
        .filter(|block| block.used == Use::Unknown)
        .map(Block::place)
        .collect();
    assert!(unknown.is_empty(), "{}\n{FORMS}", unknown.join("\n"));
}

#[test]
fn code_blocks_that_no_test_runs_are_marked() {
    let blocks = all_blocks().unwrap();
    let idle: Vec<String> = { blocks.iter() }
        .filter(|block| {
            let used = &block.used;
            matches!(
                used,
                Use::Commands(_) | Use::Script | Use::Transcript(_) | Use::Service(_)
            )
        })
        .filter(|block| !runs(block))
        .map(Block::place)
        .collect();
    assert!(
        idle.is_empty(),
        "write `not-run: WHY`, because no test runs anything of\n{}\n{FORMS}",
        idle.join("\n")
    );
}

#[test]
fn a_fence_of_clients_follows_its_service() {
    for page in pages().unwrap() {
        let mut has_service = false;
        for block in blocks(&page) {
            has_service |= matches!(block.used, Use::Service(_));
            let has_its_service = has_service || block.used != Use::Client;
            assert!(has_its_service, "{}\n{FORMS}", block.place());
        }
    }
}

/// The lines of a block that one of our programs must be able to print.
fn quoted_lines(block: &Block) -> Vec<String> {
    match block.used {
        Use::Quoted => {
            let lines = block.text.lines().map(str::trim);
            lines
                .filter(|line| line.chars().any(char::is_alphabetic) && *line != "...")
                .map(str::to_owned)
                .collect()
        }
        Use::NotRunTranscript => sentences(&block.text),
        _ => Vec::new(),
    }
}

#[test]
fn every_quoted_line_is_printed_by_our_programs() {
    let texts = ProgramsTexts::read().unwrap();
    let mut unknown = Vec::new();
    let mut count = 0;
    for block in all_blocks().unwrap() {
        for line in quoted_lines(&block) {
            count += 1;
            if !texts.contain_line(&line) {
                unknown.push(format!("{}: {line}", block.place()));
            }
        }
    }
    assert!(
        unknown.is_empty(),
        "no source prints:\n{}",
        unknown.join("\n")
    );
    assert!(count > 20, "{count}");
}

#[test]
fn every_copy_is_that_of_the_file() {
    let flat = |text: &str| -> String {
        let lines = text.lines().map(str::trim_end);
        lines.collect::<Vec<_>>().join("\n")
    };
    for block in all_blocks().unwrap() {
        if let Use::InFile(file) = &block.used {
            let text = fs::read_to_string(repository().join(file)).unwrap();
            assert!(
                flat(&text).contains(flat(&block.text).trim_end()),
                "{} differs from {file}",
                block.place()
            );
        }
    }
}
