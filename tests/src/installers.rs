//! Runs coreos-installer and the agent in one guest and compares the disks. Both
//! get the same options, the same image from the same server, and one disk each.
//!
//! The guest's ramdisk is in `tests/installers`. coreos-installer needs udev and the
//! device nodes of partitions, so a loop device on the build machine is not enough.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::artifacts::{self, Packing};
use crate::data_partition::DataPartition;
use crate::disk_comparison::InstalledDisk;
use crate::image_server::{self, ImageServer, ServedFile};
use crate::journal::Source;
use crate::lab::{Family, GUEST_V4, Lab};
use crate::program;
use crate::site::MAC;
use crate::vm::{Boot, Bus, Disk, Firmware, Guest, Machine};

/// The number of the test image's partition with the file system `boot`.
const BOOT: usize = 3;
const DISK_MIB: u64 = 160;
const MEMORY_MIB: u32 = 640;

/// Time limits for the guest's start and for each installation. Unpacking xz takes half
/// a minute on the emulated processor.
const START_LIMIT: Duration = Duration::from_secs(120);
const INSTALLATION_LIMIT: Duration = Duration::from_secs(300);

/// Intended differences of every installation without kept partitions, with the reason.
const MEANT: &[(&str, &str)] = &[
    (
        "table: place of the backup",
        "coreos-installer leaves the image's, inside of the disk; ours is right at once",
    ),
    (
        "table: last usable sector",
        "with the backup at the disk's end there is more room before it",
    ),
    (
        "MBR: size of the disk",
        "the partition that protects the table covers the disk (UEFI, 5.2.3), not the image",
    ),
];

/// One installation by each of the two programs.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// The name in the log.
    pub name: &'static str,
    /// Compression of the image.
    pub packing: Packing,
    /// The partitions on both disks before the installation. If there are none, the
    /// disks are full of zeros, or in the first case full of the byte 0xa5.
    pub before: &'static [DataPartition],
    /// The installer's options. The files of [`Comparison::file`] are in `/files`.
    pub options: &'static [&'static str],
    /// The paths in the boot partition at which both programs must have changed the
    /// image.
    pub changed: &'static [&'static str],
    /// Further intended differences of this case: the start of the line that
    /// describes the difference, and the reason.
    pub meant: &'static [(&'static str, &'static str)],
}

impl Case {
    /// An installation of the raw image without options.
    pub const PLAIN: Self = Self {
        name: "plain",
        packing: Packing::Raw,
        before: &[],
        options: &[],
        changed: &[],
        meant: &[],
    };
}

/// The programs: the name in the log, and the command. The two disks of a case are in
/// this order.
const PROGRAMS: [(&str, &str); 2] = [
    ("coreos-installer", "coreos-installer install"),
    ("landfall", "/landfall-agent install --allow-this-machine"),
];

pub struct Comparison<'a> {
    lab: &'a Lab,
    cases: &'a [Case],
    /// Files for the guest: the path below `/files`, the content and the mode.
    files: Vec<(&'static str, Vec<u8>, u32)>,
}

impl<'a> Comparison<'a> {
    /// A comparison of these cases. Each case needs two disks, and a machine can
    /// have 26 disks.
    #[must_use]
    pub fn new(lab: &'a Lab, cases: &'a [Case]) -> Self {
        Self {
            lab,
            cases,
            files: Vec::new(),
        }
    }

    /// Adds a file to the guest below `/files`, where options can refer to it.
    #[must_use]
    pub fn file(mut self, path: &'static str, content: &[u8], mode: u32) -> Self {
        self.files.push((path, content.to_vec(), mode));
        self
    }

    /// Installs everything and compares the disks. The error lists all differences
    /// that are not intended, and all intended differences that are missing.
    pub async fn run(&self) -> Result<()> {
        let mut served = Vec::new();
        for packing in [Packing::Raw, Packing::Gz, Packing::Xz, Packing::Zst] {
            if self.cases.iter().any(|case| case.packing == packing) {
                let path = artifacts::coreos_image(packing)?;
                served.push(ServedFile::read(packing.file_name(), &path)?);
            }
        }
        let _server = ImageServer::start(self.lab, served).await?;
        for index in 0..2 * self.cases.len() {
            self.make_disk(index)?;
            let before = self.cases[index / 2].before;
            if !before.is_empty() {
                DataPartition::make(&self.disk(index), before).await?;
            }
        }
        self.install().await?;
        let image = artifacts::coreos_image(Packing::Raw)?;
        let end = fs::metadata(&image)?.len();
        let image = InstalledDisk::read(&image, BOOT, &self.lab.path("tree-image")).await?;
        let mut faults = Vec::new();
        for (index, case) in self.cases.iter().enumerate() {
            let found = self.compare(index, case, &image, end).await;
            match found.with_context(|| case.name.to_owned()) {
                Ok(found) => faults.extend(found),
                Err(error) => faults.push(format!("{error:#}")),
            }
        }
        ensure!(faults.is_empty(), "{}", faults.join("\n"));
        Ok(())
    }

    fn disk(&self, index: usize) -> PathBuf {
        self.lab.path(&format!("disk{index}.raw"))
    }

    /// Makes a disk full of zeros. The disks of the first case are full of 0xa5
    /// instead, so that the test detects holes of the image that were not written.
    fn make_disk(&self, index: usize) -> Result<()> {
        let file = File::create(self.disk(index))?;
        if index < 2 {
            for _ in 0..DISK_MIB {
                std::io::Write::write_all(&mut &file, &[0xa5; 1 << 20])?;
            }
        }
        Ok(file.set_len(DISK_MIB << 20)?)
    }

    async fn install(&self) -> Result<()> {
        let guest = Guest::start(self.lab, &self.machine().await?).await?;
        let mark = self.lab.journal.mark();
        guest.console("INSTALLERS: begin", START_LIMIT).await?;
        for case in self.cases {
            for (program, _) in PROGRAMS {
                let text = format!("INSTALLERS: {}: {program} exit ", case.name);
                let event = guest.console_after(mark, &text, INSTALLATION_LIMIT).await?;
                ensure!(event.text.ends_with(" 0"), "{}", event.text);
            }
        }
        guest.powered_off(INSTALLATION_LIMIT).await
    }

    async fn machine(&self) -> Result<Machine> {
        let disks = (0..2 * self.cases.len()).map(|index| Disk {
            path: self.disk(index),
            bus: Bus::VirtioBlk,
            unplugged: false,
            fault: None,
        });
        Ok(Machine {
            firmware: Firmware::Bios,
            processors: 2,
            memory_mib: MEMORY_MIB,
            disks: disks.collect(),
            nics: vec![MAC.to_owned()],
            boot: Boot::Direct {
                kernel: artifacts::kernel()?,
                ramdisk: self.ramdisk().await?,
                arguments: "console=ttyS0,115200n8 no_timer_check quiet net.ifnames=0".to_owned(),
            },
            variables: self.lab.path("uefi-variables"),
            error_records: None,
            first_tap: 0,
            cords: Vec::new(),
            data_medium: None,
            extras: Vec::new(),
            late_nic: false,
        })
    }

    /// The guest's ramdisk with the agent, the files and the script added.
    async fn ramdisk(&self) -> Result<PathBuf> {
        let folder = self.lab.path("added");
        fs::create_dir_all(&folder)?;
        fs::copy(artifacts::agent()?, folder.join("landfall-agent"))?;
        fs::write(folder.join("script"), self.script()?)?;
        for (path, content, mode) in &self.files {
            let path = folder.join("files").join(path);
            fs::create_dir_all(path.parent().unwrap_or(&folder))?;
            fs::write(&path, content)?;
            let permissions = std::os::unix::fs::PermissionsExt::from_mode(*mode);
            fs::set_permissions(&path, permissions)?;
        }
        let archive = self.lab.path("added.cpio");
        let pack = format!(
            "cd {} && find . | cpio -o -H newc -R 0:0 --quiet > {}",
            folder.display(),
            archive.display()
        );
        program::run("sh", &["-c", &pack]).await?;
        let mut ramdisk = fs::read(artifacts::installers()?)?;
        // The kernel expects the next archive at an offset that is a multiple of
        // four.
        ramdisk.resize(ramdisk.len().next_multiple_of(4), 0);
        ramdisk.extend(fs::read(&archive)?);
        let path = self.lab.path("ramdisk.img");
        fs::write(&path, ramdisk)?;
        Ok(path)
    }

    fn script(&self) -> Result<String> {
        let mut script = format!(
            "ip addr add {GUEST_V4}/24 dev eth0; ip link set eth0 up\necho 'INSTALLERS: begin'\n"
        );
        for (index, case) in self.cases.iter().enumerate() {
            let url = image_server::url(Family::V4, case.packing.file_name());
            for (which, (program, command)) in PROGRAMS.iter().enumerate() {
                write!(
                    script,
                    "on_disk disk{} '{}: {program}' {command} --image-url {url} --insecure",
                    2 * index + which,
                    case.name
                )?;
                for option in case.options {
                    write!(script, " '{}'", option.replace('\'', r"'\''"))?;
                }
                script.push('\n');
            }
        }
        Ok(script)
    }

    /// Lists what is wrong with the two disks of one case.
    async fn compare(
        &self,
        index: usize,
        case: &Case,
        image: &InstalledDisk,
        end: u64,
    ) -> Result<Vec<String>> {
        let read = async |which: usize| {
            let index = 2 * index + which;
            let scratch = self.lab.path(&format!("tree{index}"));
            let disk = InstalledDisk::read(&self.disk(index), BOOT, &scratch).await?;
            remove(&scratch, &self.disk(index))?;
            anyhow::Ok(disk)
        };
        let (theirs, ours) = (read(0).await?, read(1).await?);
        let mut faults = Vec::new();
        let expected: BTreeSet<String> = case.changed.iter().map(|&path| path.into()).collect();
        for ((program, _), disk) in PROGRAMS.iter().zip([&theirs, &ours]) {
            let changed = disk.boot_changes(image);
            if changed != expected {
                faults.push(format!("{}: {program} changed {changed:?}", case.name));
            }
            for fault in disk.faults_of(case.before)? {
                faults.push(format!("{}: {program}: {fault}", case.name));
            }
        }
        let found = theirs.differences(&ours, BOOT, end)?;
        // With kept partitions coreos-installer writes a new table, too, so the
        // differences in [`MEANT`] do not occur.
        let always = if case.before.is_empty() { MEANT } else { &[] };
        let meant: Vec<_> = always.iter().chain(case.meant).collect();
        let is_meant = |line: &str| meant.iter().any(|(begin, _)| line.starts_with(begin));
        for line in &found {
            let log = |text: String| self.lab.journal.record(Source::Machine, text);
            log(format!("{}: {line}", case.name));
            if !is_meant(line) {
                faults.push(format!("{}: differs: {line}", case.name));
            }
        }
        for (begin, _) in meant {
            if !found.iter().any(|line| line.starts_with(begin)) {
                faults.push(format!("{}: no difference any more: {begin}", case.name));
            }
        }
        Ok(faults)
    }
}

/// Frees space, because the disks of a dozen cases are large. The disk is still open,
/// and the boot partition's files are in memory.
fn remove(scratch: &Path, disk: &Path) -> Result<()> {
    fs::remove_dir_all(scratch)?;
    Ok(fs::remove_file(disk)?)
}
