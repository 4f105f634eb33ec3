//! Whole installations through the command line, onto loop devices.

use std::fs;
use std::io::Cursor;
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::thread;

use clap::Parser as _;
use landfall_boot_params::digest::Algorithm;
use landfall_devices::permission::WritePermission;
use landfall_disk::device::target::Target;
use landfall_disk::fixtures::{LoopDevice, loop_device};
use landfall_disk::tables::gpt::Table;
use landfall_download::digest::Hasher;
use landfall_http_client::fixtures::Server;
use landfall_report::failure::Result;
use landfall_sys::skip::skip;
use tempfile::{NamedTempFile, TempDir};

use super::{Arguments, run};
use crate::cli::{self, Cli};
use crate::tools::Tool;

const MIB: u64 = 1 << 20;
const IMAGE: u64 = 32 * MIB;
const BOOT: u64 = 16 * MIB;
const DISK: u64 = 64 * MIB;
const CONFIG: &str = "{ \"ignition\": {\"version\": \"3.2.0\"} }\n";

/// The range of the file system `boot` in an image or on a disk.
fn boot_of(bytes: &[u8]) -> std::ops::Range<usize> {
    let table = Table::parse(&bytes[..MIB as usize], 512).unwrap();
    let boot = table.partitions().last().unwrap();
    boot.offset as usize..(boot.offset + boot.len) as usize
}

/// A disk image with a boot file system like that of CoreOS.
fn coreos_image() -> Vec<u8> {
    let tree = tempfile::tempdir().unwrap();
    let place = |name: &str| tree.path().join(name);
    fs::create_dir_all(place("loader.1/entries")).unwrap();
    std::os::unix::fs::symlink("loader.1", place("loader")).unwrap();
    fs::create_dir_all(place("grub2")).unwrap();
    fs::write(
        place("loader.1/entries/ostree-1-x.conf"),
        "title x\noptions rw ignition.platform.id=metal quiet\nlinux /l\n",
    )
    .unwrap();
    fs::write(
        place("grub2/grub.cfg"),
        "# CONSOLE-SETTINGS-START\n# CONSOLE-SETTINGS-END\n",
    )
    .unwrap();
    fs::write(place("ignition.firstboot"), "").unwrap();

    let file = NamedTempFile::new().unwrap();
    file.as_file().set_len(BOOT).unwrap();
    let made = Command::new("/sbin/mke2fs")
        .args(["-q", "-t", "ext4", "-b", "1024", "-L", "boot", "-d"])
        .arg(tree.path())
        .arg(file.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    image_with(&fs::read(file.path()).unwrap())
}

/// A disk image whose only partition has this content and begins after the first
/// MiB.
fn image_with(partition: &[u8]) -> Vec<u8> {
    let mut disk = gpt::GptConfig::new()
        .writable(true)
        .create_from_device(Cursor::new(vec![0; IMAGE as usize]), None)
        .unwrap();
    let kind = gpt::partition_types::LINUX_FS;
    disk.add_partition("any", BOOT, kind, 0, Some(2048))
        .unwrap();
    let mut image = disk.write().unwrap().into_inner();
    let place = boot_of(&image);
    image[place].copy_from_slice(partition);
    image
}

fn sha256(bytes: &[u8]) -> String {
    Hasher::digest(Algorithm::Sha256, bytes).hex()
}

fn arguments<'a>(words: impl Iterator<Item = &'a str>) -> Arguments {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let line = ["landfall-agent", "install"].into_iter().chain(words);
    match Cli::try_parse_from(line).unwrap().command {
        cli::Command::Tool(Tool::Install(arguments)) => *arguments,
        other => panic!("{other:?}"),
    }
}

/// An empty disk, and a folder with an image and an Ignition config.
struct Bench {
    folder: TempDir,
    file: NamedTempFile,
    device: LoopDevice,
}

impl Bench {
    /// `None` if there are no loop devices; [`loop_device`] reports that.
    fn new(image: &[u8]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("image.raw"), image).unwrap();
        fs::write(folder.path().join("host.ign"), CONFIG).unwrap();
        let file = NamedTempFile::new().unwrap();
        file.as_file().set_len(DISK).unwrap();
        // Bytes that the image does not have: they stay if the installation writes
        // nothing.
        file.as_file().write_all_at(&[0xa5; 4096], 0).unwrap();
        let device = loop_device(file.path(), 512)?;
        Some(Self {
            folder,
            file,
            device,
        })
    }

    fn place(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn disk(&self) -> String {
        self.device.path().display().to_string()
    }

    /// Runs the sub-command with these words and the disk. It runs on a thread of
    /// its own, so that its mounts disappear with the thread.
    fn install(&self, words: &[&str]) -> Result<()> {
        let disk = self.disk();
        let words = words.iter().copied().chain([&disk[..]]);
        let arguments = arguments(words);
        thread::spawn(move || run(arguments)).join().unwrap()
    }

    fn content(&self) -> Vec<u8> {
        fs::read(self.file.path()).unwrap()
    }

    fn assert_untouched(&self) {
        let mut expected = vec![0; DISK as usize];
        expected[..4096].fill(0xa5);
        assert!(self.content() == expected, "the disk was written to");
    }

    fn assert_unbootable(&self) {
        let content = self.content();
        assert!(content[..MIB as usize].iter().all(|byte| *byte == 0));
    }
}

/// The content of a file in the boot file system of the disk.
fn in_boot(disk: &[u8], path: &str) -> String {
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), &disk[boot_of(disk)]).unwrap();
    let checked = Command::new("/sbin/e2fsck")
        .arg("-fn")
        .arg(file.path())
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
    let read = Command::new("/sbin/debugfs")
        .args(["-R", &format!("cat {path}")])
        .arg(file.path())
        .output()
        .unwrap();
    String::from_utf8(read.stdout).unwrap()
}

/// True if mounting failed for lack of a privilege that containers do not have.
fn may_not_mount(outcome: &Result<()>) -> bool {
    let refused =
        matches!(outcome, Err(failure) if failure.details.contains("Operation not permitted"));
    if refused {
        skip(format_args!("{outcome:?}"));
    }
    refused
}

#[test]
fn everything_at_once_by_config_file_and_command_line() {
    let image = coreos_image();
    let packed = zstd::bulk::compress(&image, 1).unwrap();
    let digest = sha256(&packed);
    let server = Server::of(&packed);
    let Some(bench) = Bench::new(&image) else {
        return;
    };
    let keyfiles = bench.folder.path().join("keyfiles");
    fs::create_dir(&keyfiles).unwrap();
    fs::write(keyfiles.join("eth0.nmconnection"), "[connection]\n").unwrap();
    let config = bench.folder.path().join("install.yaml");
    let text = format!(
        "image-url: {}\nimage-digest: sha256:{digest}\nplatform: qemu\nconsole: [tty0]\n\
         append-karg: [nosmt]\ndelete-karg: [quiet]\ndest-device: /dev/none\n\
         copy-network: true\nnetwork-dir: {}\n",
        server.url,
        keyfiles.display()
    );
    fs::write(&config, text).unwrap();
    let (config, ignition) = (config.display().to_string(), bench.place("host.ign"));
    let hash = format!("sha256-{}", sha256(CONFIG.as_bytes()));
    let words = [
        "-c",
        &config,
        "-i",
        &ignition,
        "--ignition-hash",
        &hash,
        "--append-karg",
        "mine",
        "--firstboot-args",
        "rd.neednet=1 ip=dhcp",
        "--allow-this-machine",
    ];

    let dry: Vec<&str> = words.iter().copied().chain(["--dry-run"]).collect();
    bench.install(&dry).unwrap();
    bench.assert_untouched();

    let outcome = bench.install(&words);
    if may_not_mount(&outcome) {
        return;
    }
    outcome.unwrap();
    let disk = bench.content();
    assert_eq!(in_boot(&disk, "/ignition/config.ign"), CONFIG);
    assert_eq!(
        in_boot(&disk, "/loader.1/entries/ostree-1-x.conf"),
        "title x\noptions rw ignition.platform.id=qemu console=tty0 nosmt mine\nlinux /l\n"
    );
    assert_eq!(
        in_boot(&disk, "/ignition.firstboot"),
        "set ignition_network_kcmdline=\"rd.neednet=1 ip=dhcp\"\n"
    );
    assert_eq!(
        in_boot(&disk, "/coreos-firstboot-network/eth0.nmconnection"),
        "[connection]\n"
    );
    let grub = in_boot(&disk, "/grub2/grub.cfg");
    assert!(grub.contains("terminal_output console\n"), "{grub}");
    let (boot, before) = (boot_of(&disk), boot_of(&image));
    assert_eq!(boot, before, "the partitions are the image's");
}

#[test]
fn faults_known_in_advance_leave_the_disk_untouched() {
    let Some(bench) = Bench::new(&coreos_image()) else {
        return;
    };
    let image = bench.place("image.raw");
    fs::write(bench.folder.path().join("bad.ign"), "ignition:\n").unwrap();
    let (bad, missing) = (bench.place("bad.ign"), bench.place("missing"));
    for (words, reason) in [
        (&["-f", &image][..], "image.raw.sig"),
        (&["-f", &missing, "--insecure"], "missing: No such file"),
        (&["-i", &bad], "expected JSON"),
        (&["--save-partindex", "0"], "begin with 1"),
        (&["--save-partlabel", "["], "without \"]\""),
        (&["--append-karg", "a\nb"], "kernel argument"),
        (&["--secure-ipl"], "s390x"),
        (&["-c", &missing], "config file "),
        (&["-n", "--network-dir", &missing], "--copy-network"),
    ] {
        let mut words = words.to_vec();
        if words[0] != "-f" {
            words.extend(["-f", &image, "--insecure"]);
        }
        words.push("--allow-this-machine");
        let failure = bench.install(&words).unwrap_err();
        assert!(failure.details.starts_with("install failed: "), "{failure}");
        assert!(failure.details.contains(reason), "{words:?}: {failure}");
        bench.assert_untouched();
    }
    let home = bench.install(&["-f", &image, "--insecure"]).unwrap_err();
    assert!(
        home.details.contains("does not run the landfall ramdisk"),
        "{home}"
    );
    bench.assert_untouched();
}

#[test]
fn an_image_without_boot_partition_has_nothing_to_change() {
    let image = image_with(&vec![7; BOOT as usize]);
    let Some(bench) = Bench::new(&image) else {
        return;
    };
    let (file, ignition) = (bench.place("image.raw"), bench.place("host.ign"));
    let words = [
        "-f",
        &file,
        "--insecure",
        "--allow-this-machine",
        "-i",
        &ignition,
    ];
    let failure = bench.install(&words).unwrap_err();
    assert!(
        failure.details.contains("couldn't find boot device for"),
        "{failure}"
    );
    bench.assert_unbootable();
    bench.install(&words[..4]).unwrap();
    let disk = bench.content();
    assert!(
        disk[MIB as usize..(IMAGE - MIB) as usize] == image[MIB as usize..(IMAGE - MIB) as usize]
    );
    assert_eq!(boot_of(&disk), boot_of(&image));
}

#[test]
fn no_disk_and_no_device() {
    let file = NamedTempFile::new().unwrap();
    let path = file.path().display().to_string();
    for (words, reason) in [
        (&["--offline"][..], "expected a destination device"),
        (&["--offline", &path], "not a block device"),
        (&["--offline", "/dev/none"], "/dev/none"),
    ] {
        let words = words.iter().copied().chain(["--dry-run"]);
        let failure = run(arguments(words)).unwrap_err();
        assert!(failure.details.contains(reason), "{failure}");
    }
    assert!(file.path().exists());
}

#[test]
fn a_dry_run_finds_the_faults_of_a_write() {
    let image = image_with(&vec![7; BOOT as usize]);
    let Some(bench) = Bench::new(&image) else {
        return;
    };
    let put = |name: &str, bytes: &[u8]| {
        fs::write(bench.folder.path().join(name), bytes).unwrap();
        bench.place(name)
    };
    let good = bench.place("image.raw");
    let packed = put("image.raw.zst", &zstd::bulk::compress(&image, 1).unwrap());
    let yaml = put("image.yaml", b"image-url: http://a.example/i\n");
    let zeros = put("zeros.raw", &vec![0; image.len()]);
    let short = put("short.raw", &image[..(2 * MIB) as usize]);
    let cut = put("cut.raw.zst", &fs::read(&packed).unwrap()[..200]);
    let qcow2 = put("old.qcow2", b"QFI\xfb\0\0\0\x09");
    let digest = |bytes: &[u8]| format!("--image-digest=sha256:{}", sha256(bytes));
    let (right, wrong) = (digest(&image), digest(b"another image"));
    let right_packed = digest(&fs::read(&packed).unwrap());
    for (words, reason) in [
        (&["-f", &good, "--insecure"][..], ""),
        (&["-f", &good, &right], ""),
        (&["-f", &packed, &right_packed], ""),
        (&["-f", &good, &wrong], "image.raw"),
        (&["-f", &packed, &wrong], "image.raw.zst"),
        (
            &["-u", "http://127.0.0.1:1/i", &right, "--fetch-retries", "0"],
            "127.0.0.1:1/i",
        ),
        (&["-f", &yaml, "--insecure"], "no disk image"),
        (&["-f", &zeros, "--insecure"], "no disk image"),
        (&["-f", &short, "--insecure"], "truncated"),
        (&["-f", &cut, "--insecure"], "cut.raw.zst"),
        (&["-f", &qcow2, "--insecure"], "qcow2"),
    ] {
        let words: Vec<&str> = words.iter().copied().chain(["--dry-run"]).collect();
        match bench.install(&words) {
            Ok(()) => assert_eq!(reason, "", "{words:?}"),
            Err(failure) => assert!(
                !reason.is_empty() && failure.details.contains(reason),
                "{words:?}: {failure}"
            ),
        }
        bench.assert_untouched();
    }
    // This program keeps the disk open, so the installation must fail.
    let holder = Target::open(bench.device.path(), &WritePermission::by_operator()).unwrap();
    let failure = bench
        .install(&["-f", &good, "--insecure", "--dry-run"])
        .unwrap_err();
    drop(holder);
    assert!(failure.details.contains("another program"), "{failure}");
}
