//! Checks that a file is the agent and can start as `/init`. The agent must be
//! static: a ramdisk without a rescue layer has no dynamic loader.

use std::path::Path;

use object::LittleEndian as LE;
use object::elf::{EM_AARCH64, EM_X86_64, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::arch::Arch;
use crate::path_error::{PathError, read_bounded};

/// In bytes: the size limit of the agent. A debug build with symbols is 150 MB.
const MAX_AGENT_BYTES: u64 = 1 << 30;

/// The path of the marker that, in the ramdisk, permits the agent to write to disks. The
/// agent's binary contains this path, and no other program does. The path is in two parts
/// here, so that the builder's binary does not contain it.
const MARK: [&str; 2] = ["/run/landfall", "/ramdisk"];

/// Why a program cannot be `/init`.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(transparent)]
    Path(#[from] PathError),
    /// The kernel could not start the program, or the program is not the agent.
    #[error(
        "agent {path}: expected landfall-agent, a static {} program, found {found}", arch.in_words()
    )]
    Unusable {
        path: String,
        arch: Arch,
        /// What the file is instead of the agent.
        found: String,
    },
}

/// Reads the agent. Fails if the file is not the agent, or if the kernel of a host of
/// this architecture could not start it.
pub fn read(path: &Path, arch: Arch) -> Result<Vec<u8>, AgentError> {
    let bytes = read_bounded(path, MAX_AGENT_BYTES)?;
    let checked = check(&bytes, arch).and_then(|()| match is_agent(&bytes) {
        true => Ok(()),
        false => Err("another program".to_owned()),
    });
    checked.map_err(|found| AgentError::Unusable {
        path: path.display().to_string(),
        arch,
        found,
    })?;
    Ok(bytes)
}

/// The reason why a machine of this architecture cannot run a program with its kernel
/// alone: the file is no ELF program for this architecture, is damaged, or needs a
/// dynamic loader. `None` if the program needs only the kernel.
#[must_use]
pub fn fault_of_static_program(program: &[u8], arch: Arch) -> Option<String> {
    check(program, arch).err()
}

fn check(bytes: &[u8], arch: Arch) -> Result<(), String> {
    let broken = |error: object::read::Error| format!("a broken ELF file ({error})");
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        let start = &bytes[..bytes.len().min(4)];
        return Err(format!(
            "a file that begins with `{}`",
            start.escape_ascii()
        ));
    }
    let header = FileHeader64::<LE>::parse(bytes).map_err(broken)?;
    let machine = header.e_machine(LE);
    let found = match machine {
        EM_X86_64 => Some(Arch::X86_64),
        EM_AARCH64 => Some(Arch::Aarch64),
        _ => None,
    };
    match found {
        Some(found) if found == arch => {}
        Some(found) => return Err(format!("one for {found} (see --arch)")),
        None => return Err(format!("a program for machine {}", machine.0)),
    }
    let segments = header.program_headers(LE, bytes).map_err(broken)?;
    if segments
        .iter()
        .any(|segment| segment.p_type(LE) == PT_INTERP)
    {
        return Err(
            "a dynamically linked one: build it with `-C target-feature=+crt-static`".to_owned(),
        );
    }
    Ok(())
}

fn is_agent(bytes: &[u8]) -> bool {
    let mark = MARK.concat();
    bytes
        .windows(mark.len())
        .any(|part| part == mark.as_bytes())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An ELF header and program headers of these types.
    pub(crate) fn program(kinds: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        bytes[18] = 62;
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = u8::try_from(kinds.len()).unwrap();
        for kind in kinds {
            bytes.extend_from_slice(&kind.to_le_bytes());
            bytes.extend_from_slice(&[0; 52]);
        }
        bytes
    }

    /// A file that [`read`] accepts as the agent.
    pub(crate) fn agent() -> Vec<u8> {
        let mut bytes = program(&[1]);
        bytes.extend(MARK.concat().as_bytes());
        bytes
    }

    #[test]
    fn static_programs_only() {
        assert_eq!(check(&program(&[1, 1, 2]), Arch::X86_64), Ok(()));
        let mut arm = program(&[1]);
        arm[18] = 183;
        assert_eq!(check(&arm, Arch::Aarch64), Ok(()));
        let mut mips = program(&[1]);
        mips[18] = 8;
        let mut odd_headers = program(&[1]);
        odd_headers[54] = 32;
        for (bytes, expected) in [
            (vec![], "a file that begins with ``"),
            (b"#!/bin/sh".to_vec(), "a file that begins with `#!/b`"),
            (arm, "one for aarch64 (see --arch)"),
            (mips, "a program for machine 8"),
            (
                program(&[6, 3, 1]),
                "a dynamically linked one: build it with `-C target-feature=+crt-static`",
            ),
            (
                program(&[1])[..65].to_vec(),
                "a broken ELF file (Invalid ELF program header size or alignment)",
            ),
            (
                odd_headers,
                "a broken ELF file (Invalid ELF program header entry size)",
            ),
            (
                b"\x7fELF\x02\x01".to_vec(),
                "a broken ELF file (Invalid ELF header size or alignment)",
            ),
        ] {
            let fault = check(&bytes, Arch::X86_64).err();
            assert_eq!(fault.unwrap_or_default(), expected);
        }
    }

    #[test]
    fn a_static_program_is_not_enough() {
        let error_of = |path: &Path| read(path, Arch::X86_64).unwrap_err().to_string();
        let this_test = error_of(&std::env::current_exe().unwrap());
        assert!(
            this_test.ends_with(", found another program"),
            "{this_test}"
        );
        let shell = error_of(Path::new("/bin/sh"));
        assert!(
            shell.contains(", found a dynamically linked one"),
            "{shell}"
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), agent()).unwrap();
        read(file.path(), Arch::X86_64).unwrap();
        let other = read(file.path(), Arch::Aarch64).unwrap_err().to_string();
        let expected = "a static aarch64 program, found one for x86_64 (see --arch)";
        assert!(other.ends_with(expected), "{other}");
    }

    proptest! {
        #[test]
        fn mutated_programs_never_panic(at in 0usize..64, byte: u8, cut in 0usize..200) {
            let mut bytes = program(&[1, 2]);
            bytes[at] = byte;
            bytes.truncate(cut);
            let _ = check(&bytes, Arch::X86_64);
        }
    }
}
