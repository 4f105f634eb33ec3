//! Makes a ramdisk whose /init exits at once, to measure the time that the
//! kernel alone takes.

/// A part of the line that the kernel prints as soon as init exits.
pub(super) const LINE: &str = "Attempted to kill init";

/// The address to which the program is loaded: the usual choice of linkers.
const ADDRESS: u64 = 0x40_0000;
/// Length of an ELF header and one program header.
const HEADERS: u64 = 64 + 56;

/// The program: exit(0) for x86-64.
const CODE: [u8; 9] = [
    0xb8, 60, 0, 0, 0, // mov eax, 60
    0x31, 0xff, // xor edi, edi
    0x0f, 0x05, // syscall
];

fn program() -> Vec<u8> {
    let size = HEADERS + CODE.len() as u64;
    // e_ident: 64 bits, little endian, version 1.
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    // e_type EXEC, e_machine x86-64, e_version.
    file.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    for word in [ADDRESS + HEADERS, 64, 0] {
        file.extend(word.to_le_bytes());
    }
    // e_flags; sizes and counts of the headers.
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    // The program header: PT_LOAD, readable and executable.
    file.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    for word in [0, ADDRESS, ADDRESS, size, size, 0x1000] {
        file.extend(word.to_le_bytes());
    }
    file.extend(CODE);
    file
}

/// The ramdisk as an uncompressed newc archive
/// (Documentation/driver-api/early-userspace/buffer-format.rst).
pub(super) fn ramdisk() -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, mode, content) in [
        ("init", 0o100_755, program()),
        ("TRAILER!!!", 0, Vec::new()),
    ] {
        let fields = [
            1,
            mode,
            0,
            0,
            1,
            0,
            content.len(),
            0,
            0,
            0,
            0,
            name.len() + 1,
            0,
        ];
        archive.extend(b"070701");
        for field in fields {
            archive.extend(format!("{field:08X}").bytes());
        }
        archive.extend(name.bytes());
        archive.push(0);
        archive.resize(archive.len().next_multiple_of(4), 0);
        archive.extend(content);
        archive.resize(archive.len().next_multiple_of(4), 0);
    }
    archive
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    #[test]
    fn the_program_runs() {
        let file = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        std::fs::write(&file, program()).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        let status = Command::new(&file).status().unwrap();
        assert!(status.success(), "{status}");
    }
}
