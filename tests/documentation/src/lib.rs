//! Reads the documentation and what it shows: the tests of several crates use it.

mod blocks;
pub mod book;
pub mod commands;
pub mod events_schema;
mod links;
pub mod messages;
pub mod options_page;
pub mod output;
pub mod page;
pub mod programs_texts;
pub mod run;
pub mod tables;

pub use blocks::{Block, FORMS, Use, blocks};
pub use links::{Link, anchors, links};
