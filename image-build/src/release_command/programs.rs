//! The programs that a release publishes. All must be static: containers without a
//! dynamic loader run them, and so do systems with another libc.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use landfall_initramfs::arch::Arch;
use landfall_initramfs::{agent_binary, path_error};

use crate::cli::ReleaseArguments;
use crate::coreos_live_command::require_live_feature;

/// In bytes: the size limit of a program. A debug build with symbols is 150 MB.
const MAX_PROGRAM_BYTES: u64 = 1 << 30;

#[derive(Debug)]
pub(super) struct Programs {
    /// The agent of the ramdisk.
    pub(super) agent: PathBuf,
    /// The agent with the feature live-system.
    pub(super) live_agent: Option<PathBuf>,
    pub(super) builder: PathBuf,
    /// Whether the builder has the cargo feature controller.
    pub(super) has_controller: bool,
}

impl Programs {
    pub(super) fn check(arguments: &ReleaseArguments) -> Result<Self> {
        let agent = &arguments.ramdisk.agent;
        let arch = arguments.ramdisk.arch;
        agent_binary::read(agent, arch)?;
        if let Some(live) = &arguments.live_agent {
            require_live_feature(live, &agent_binary::read(live, arch)?)?;
        }
        let builder = match &arguments.builder {
            Some(path) => path.clone(),
            None => std::env::current_exe().context("cannot find the builder's own file")?,
        };
        let program = require_static(&builder, arch)?;
        Ok(Self {
            agent: agent.clone(),
            live_agent: arguments.live_agent.clone(),
            has_controller: has_controller(&program),
            builder,
        })
    }
}

/// The bytes of the program.
fn require_static(program: &Path, arch: Arch) -> Result<Vec<u8>> {
    let bytes = path_error::read_bounded(program, MAX_PROGRAM_BYTES)?;
    if let Some(fault) = agent_binary::fault_of_static_program(&bytes, arch) {
        bail!(
            "{}: expected landfall-image, a static {} program, found {fault}",
            program.display(),
            arch.in_words()
        );
    }
    Ok(bytes)
}

/// Whether the program knows the environment variable of the controller. The name is
/// assembled from two parts, because the whole text here would be in every builder.
fn has_controller(program: &[u8]) -> bool {
    let variable = ["WATCH", "NAMESPACE"].join("_");
    let mut parts = program.windows(variable.len());
    parts.any(|part| part == variable.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_a_dynamic_loader_is_refused() {
        require_static(&std::env::current_exe().unwrap(), Arch::X86_64).unwrap();
        let error = require_static(Path::new("/bin/sh"), Arch::X86_64)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("/bin/sh: expected landfall-image, a static x86-64 program, found a dynamically linked one"),
            "{error}"
        );
    }
}
