//! The program that is started as the child: the agent itself.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::OnceLock;

/// The sub-command of the child. It is not shown in the help text.
const SUB_COMMAND: &str = "parse-foreign-bytes";

static OFFERED: OnceLock<Program> = OnceLock::new();

/// A program that becomes a parser if it is started with these arguments, followed by the
/// name of the parser.
#[derive(Debug, Clone)]
pub struct Program {
    pub path: PathBuf,
    pub arguments: Vec<OsString>,
}

impl Program {
    /// A program that calls [`asked_for`].
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            arguments: vec![SUB_COMMAND.into()],
        }
    }
}

/// From now on, this process runs its parsers in children of its own program.
pub fn offer_this_program() {
    // /proc/self/exe refers to the running program even after chroot(2).
    let _ = OFFERED.set(Program::at("/proc/self/exe"));
}

pub(crate) fn offered() -> Option<&'static Program> {
    OFFERED.get()
}

/// The name of the parser that this process should become; `None` if it was not started
/// as a parser. `arguments` does not contain the name of the program.
pub fn asked_for(arguments: &[OsString]) -> Option<&OsStr> {
    match arguments {
        [command, name] if command == SUB_COMMAND => Some(name),
        _ => None,
    }
}
