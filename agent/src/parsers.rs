//! The parsers that run in a process of their own, by name.

use std::ffi::OsStr;
use std::process::ExitCode;

use landfall_inventory::lldp::LldpParser;
use landfall_parser_child::{Parser, serve};
use landfall_settings::ConfigParser;
use landfall_settings::media::MediumParser;

/// Runs the parser of this name. Fails if there is no such parser.
pub fn serve_named(name: &OsStr) -> ExitCode {
    match name.to_str() {
        Some(MediumParser::NAME) => serve::<MediumParser>(),
        Some(ConfigParser::NAME) => serve::<ConfigParser>(),
        Some(LldpParser::NAME) => serve::<LldpParser>(),
        _ => ExitCode::FAILURE,
    }
}
