//! Makes the input files of a run.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// An agent, a kernel image and one module, with only the parts that the builder
/// reads.
pub struct Fixture(TempDir);

impl Fixture {
    pub fn new() -> Self {
        Self::in_directory(tempfile::tempdir().unwrap())
    }

    pub fn in_directory(directory: TempDir) -> Self {
        let fixture = Self(directory);
        let mut kernel = vec![0; 0x400];
        kernel[..2].copy_from_slice(b"MZ");
        kernel[0x202..0x206].copy_from_slice(b"HdrS");
        kernel[0x20e..0x210].copy_from_slice(&0x200u16.to_le_bytes());
        kernel.extend_from_slice(b"6.1-test (builder) #1\0");
        fixture.put("kernel/boot/vmlinuz-6.1-test", &kernel);
        let section = b"alias=virtio:d00000001v*\0vermagic=6.1-test SMP \0";
        fixture.put(
            "kernel/lib/modules/6.1-test/kernel/drivers/net/virtio_net.ko",
            &module(section),
        );
        // The smallest file that counts as a static program: an ELF header without
        // program headers.
        let mut agent = vec![0; 64];
        agent[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        agent[18] = 62;
        agent.extend(b"/run/landfall/ramdisk");
        fixture.put("agent", &agent);
        fixture
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn put(&self, name: &str, bytes: &[u8]) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), bytes).unwrap();
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_landfall-image"));
        command
            .args(arguments)
            .current_dir(self.0.path())
            // Not the cache of the user who runs the tests.
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .env_remove("SOURCE_DATE_EPOCH");
        command
    }

    /// The names in a directory, sorted.
    pub fn list(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(directory)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// Builds a product and returns the JSON summary.
    pub fn build(&self, command: &str, output: &str, more: &[&str]) -> Value {
        let arguments = [
            command,
            "--agent",
            "agent",
            "--kernel-dir",
            "kernel",
            "--json",
            "-o",
            output,
        ];
        let result = self.run(&[&arguments, more].concat());
        assert!(
            result.status.success(),
            "{}",
            String::from_utf8_lossy(&result.stderr)
        );
        serde_json::from_slice(&result.stdout).unwrap()
    }

    /// What `inspect` prints, with or without faults.
    pub fn inspect(&self, file: &str) -> Value {
        serde_json::from_slice(&self.run(&["inspect", "--json", file]).stdout).unwrap()
    }

    /// The last line of a run that fails.
    pub fn fails(&self, arguments: &[&str]) -> String {
        let result = self.run(arguments);
        assert_eq!(result.status.code(), Some(1), "{arguments:?}: {result:?}");
        String::from_utf8(result.stderr)
            .unwrap()
            .lines()
            .last()
            .unwrap()
            .to_owned()
    }
}

/// An ELF file with a .modinfo section.
pub fn module(section: &[u8]) -> Vec<u8> {
    let names = b"\0.shstrtab\0.modinfo\0";
    let table = 64 + names.len() + section.len();
    let mut file = vec![0; 64];
    file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    file[0x28..0x30].copy_from_slice(&(table as u64).to_le_bytes());
    file[0x3a..0x40].copy_from_slice(&[64, 0, 3, 0, 1, 0]);
    file.extend_from_slice(names);
    file.extend_from_slice(section);
    for (name, offset, len) in [
        (0u32, 0, 0),
        (1, 64, names.len()),
        (11, 64 + names.len(), section.len()),
    ] {
        let mut header = [0; 64];
        header[..4].copy_from_slice(&name.to_le_bytes());
        header[0x18..0x20].copy_from_slice(&(offset as u64).to_le_bytes());
        header[0x20..0x28].copy_from_slice(&(len as u64).to_le_bytes());
        file.extend_from_slice(&header);
    }
    file
}
