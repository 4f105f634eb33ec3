//! Tests with a simulated /sys whose drives hold real images: CDs made by
//! genisoimage with Ironic's options, and floppies made by mkfs.vfat like Ironic's.

mod slow_drives;

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::*;

const ID: &str = "53705fb9-517f-40c7-8459-2d232e44dbf7";
const NETWORK: &str = r#"{"links": [], "networks": [], "services": []}"#;

struct Host(TempDir);

impl Host {
    fn new() -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        for directory in ["sys/block", "dev", "root", "run"] {
            fs::create_dir_all(host.path(directory)).unwrap();
        }
        host
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn places(&self) -> Places {
        Places {
            sys: self.path("sys"),
            dev: self.path("dev"),
            root: self.path("root"),
            state: StateFile::new(&self.path("run"), "media.json"),
            silence: drives::SILENCE,
        }
    }

    /// Adds a drive on `bus`, a path below /sys/devices. Returns the path at which the
    /// caller writes its image.
    fn drive(&self, name: &str, bus: &str, scsi_type: &str, sectors: u64) -> PathBuf {
        let device = self.path("sys/devices").join(bus).join("block").join(name);
        fs::create_dir_all(device.join("device")).unwrap();
        fs::write(device.join("device/type"), scsi_type).unwrap();
        fs::write(device.join("device/model"), "QEMU DVD-ROM    \n").unwrap();
        fs::write(device.join("size"), format!("{sectors}\n")).unwrap();
        std::os::unix::fs::symlink(&device, self.path("sys/block").join(name)).unwrap();
        self.path("dev").join(name)
    }

    fn cd_drive(&self, name: &str) -> PathBuf {
        self.drive(name, "pci0000:00/0000:00:1f.2/ata1", "5\n", 2_097_151)
    }

    fn usb_disk(&self, name: &str, sectors: u64) -> PathBuf {
        self.drive(
            name,
            "pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0",
            "0\n",
            sectors,
        )
    }

    fn copied(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path("root/etc").join(name)).ok()
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// Writes an ISO with these files to `out`.
fn iso(out: &Path, label: &str, publisher: &str, files: &[(&str, &str)]) {
    let tree = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = tree.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    run(Command::new("genisoimage")
        .args(["-quiet", "-r", "-l", "-V", label])
        .args(["-publisher", publisher, "-o"])
        .args([out, tree.path()]));
}

fn boot_iso(out: &Path, label: &str, publisher: &str) {
    let tls = "[DEFAULT]\ncafile = /etc/ironic-python-agent/ironic.crt\n";
    iso(
        out,
        label,
        publisher,
        &[
            ("vmlinuz", "kernel"),
            ("etc/ironic-python-agent/ironic.crt", publisher),
            ("etc/ironic-python-agent/sub/deep.conf", "x"),
            ("etc/ironic-python-agent.d/ironic-tls.conf", tls),
            ("etc/passwd", "root"),
            ("openstack/latest/network_data.json", NETWORK),
        ],
    );
}

fn floppy(out: &Path, label: &str, parameters: Option<&str>) {
    run(Command::new("/usr/sbin/mkfs.vfat")
        .args(["-n", label, "-C"])
        .arg(out)
        .arg("1440"));
    if let Some(text) = parameters {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        run(Command::new("mcopy")
            .arg("-i")
            .args([out, file.path()])
            .arg("::parameters.txt"));
    }
}

fn read(wanted: &Wanted, places: &Places, settled: impl Fn() -> bool) -> Media {
    let media_wait = MediaWait::new(wanted.announced());
    read_now(wanted, places, &media_wait, settled).unwrap()
}

/// A boot from virtual media, with Ironic's command line.
fn wanted() -> Wanted {
    Wanted {
        virtual_media: true,
        publisher: Some(ID.to_owned()),
        network_boot: false,
        service_known: true,
        network_given: false,
    }
}

#[test]
fn an_iso_that_ironic_has_built() {
    let host = Host::new();
    boot_iso(&host.cd_drive("sr0"), "config-2", "00000000-old");
    boot_iso(&host.cd_drive("sr1"), "config-2", &ID.to_uppercase());
    let media = read(&wanted(), &host.places(), || false);
    assert_eq!(media.warnings, [""; 0]);
    assert_eq!(media.parameters, None);
    let network = media.network_data.clone().unwrap();
    assert_eq!(network.text, NETWORK);
    assert!(network.device.ends_with("dev/sr1"));
    let certificate = host.copied("ironic-python-agent/ironic.crt");
    assert_eq!(certificate, Some(ID.to_uppercase()));
    assert!(
        host.copied("ironic-python-agent.d/ironic-tls.conf")
            .is_some()
    );
    assert_eq!(host.copied("ironic-python-agent/sub/deep.conf"), None);
    assert_eq!(host.copied("passwd"), None);

    // Ironic ejects the medium. A restarted agent still knows its content.
    fs::remove_dir_all(host.path("dev")).unwrap();
    assert_eq!(read(&wanted(), &host.places(), || false), media);
}

#[test]
fn an_iso_without_a_network() {
    let host = Host::new();
    boot_iso(&host.usb_disk("sda", 100_000), "VMEDIA_BOOT_ISO", ID);
    let media = read(&wanted(), &host.places(), || false);
    assert_eq!(media, Media::default());
    assert!(host.copied("ironic-python-agent/ironic.crt").is_some());
}

#[test]
fn parameters_on_a_floppy() {
    let host = Host::new();
    let text = "ipa-api-url=http://192.0.2.1:6385\nipa-agent-token=t\n";
    floppy(&host.usb_disk("sdb", 2880), "ir-vfd-dev", Some(text));
    iso(
        &host.cd_drive("sr0"),
        "VMEDIA_BOOT_ISO",
        "",
        &[("vmlinuz", "")],
    );
    let wanted = Wanted {
        publisher: None,
        service_known: false,
        ..wanted()
    };
    let media = read(&wanted, &host.places(), || false);
    let parameters = media.parameters.unwrap();
    assert_eq!(parameters.text, text);
    assert!(parameters.device.ends_with("dev/sdb"));
    assert_eq!(media.warnings, [""; 0]);

    // The label is not that of Ironic, but the model name of the drive shows that the
    // medium is virtual media.
    let host = Host::new();
    floppy(&host.usb_disk("sdb", 2880), "x", Some(text));
    let model = host.path("sys/block/sdb/device/model");
    fs::write(model, "AMI Virtual Media\n").unwrap();
    boot_iso(&host.cd_drive("sr0"), "VMEDIA_BOOT_ISO", ID);
    let media = read(&self::wanted(), &host.places(), || false);
    assert_eq!(media.parameters.unwrap().text, text);

    // The label promises `parameters.txt`, but the file is missing.
    let host = Host::new();
    floppy(&host.usb_disk("sdb", 2880), "IR-VFD-DEV", None);
    boot_iso(&host.cd_drive("sr0"), "VMEDIA_BOOT_ISO", ID);
    let media = read(&self::wanted(), &host.places(), || false);
    assert_eq!(media.parameters, None);
    assert_eq!(media.warnings.len(), 1);
    let warning = &media.warnings[0];
    assert!(
        warning.ends_with("dev/sdb: parameters.txt is missing, although the label announces it")
    );
}

#[test]
fn disks_are_not_looked_at() {
    let host = Host::new();
    let sectors_of_4_gib = 8 << 20;
    boot_iso(&host.usb_disk("sdb", sectors_of_4_gib), "config-2", "");
    let sata = "pci0000:00/0000:00:1f.2/ata1";
    boot_iso(&host.drive("sda", sata, "0\n", 2880), "config-2", "");
    boot_iso(
        &host.drive("vda", "pci0000:00/virtio1", "", 2880),
        "config-2",
        "",
    );
    host.cd_drive("sr0");
    let wanted = Wanted {
        virtual_media: false,
        publisher: None,
        ..wanted()
    };
    assert_eq!(read(&wanted, &host.places(), || true), Media::default());

    // The size of the disk is just within the limit.
    let host = Host::new();
    boot_iso(&host.usb_disk("sdb", sectors_of_4_gib - 1), "config-2", "");
    let media = read(&wanted, &host.places(), || true);
    assert!(media.network_data.is_some());
    let certificate = host.copied("ironic-python-agent/ironic.crt");
    assert_eq!(certificate, None, "not booted from virtual media");
}

/// A deployment leaves the config drive in a partition of the disk. Here the disk is on
/// USB and small, so it could also be virtual media.
#[test]
fn a_config_drive_in_a_partition_is_not_looked_at() {
    const PARTITION: usize = 1 << 20;
    for publisher in ["", ID] {
        let host = Host::new();
        let disk = host.usb_disk("sda", 100_000);
        let partition = host.path("dev/sda1");
        boot_iso(&partition, "config-2", publisher);
        let mut whole = vec![0; PARTITION];
        whole.extend(fs::read(&partition).unwrap());
        fs::write(&disk, whole).unwrap();
        let of_disk = fs::canonicalize(host.path("sys/block/sda")).unwrap();
        fs::create_dir(of_disk.join("sda1")).unwrap();
        fs::write(of_disk.join("sda1/partition"), "1\n").unwrap();
        if publisher.is_empty() {
            let wanted = Wanted {
                virtual_media: false,
                publisher: None,
                ..wanted()
            };
            assert_eq!(read(&wanted, &host.places(), || true), Media::default());
        } else {
            // The medium that the agent waits for.
            boot_iso(&host.cd_drive("sr0"), "config-2", publisher);
            let media = read(&wanted(), &host.places(), || true);
            assert!(media.network_data.unwrap().device.ends_with("sr0"));
        }
    }
}

#[test]
fn a_medium_that_shows_up_late_is_waited_for() {
    let host = Host::new();
    let node = host.cd_drive("sr0");
    let hidden = host.path("hidden");
    boot_iso(&hidden, "config-2", ID);
    let looks = Cell::new(0);
    let media = read(&wanted(), &host.places(), || {
        looks.set(looks.get() + 1);
        if looks.get() == 2 {
            fs::rename(&hidden, &node).unwrap();
        }
        true
    });
    assert!(media.network_data.is_some());
    assert_eq!(looks.get(), 2);
}

#[test]
fn the_agent_waits_only_for_mentioned_media() {
    let network_boot = Wanted {
        virtual_media: false,
        publisher: None,
        network_boot: true,
        ..wanted()
    };
    assert!(!network_boot.anything());
    let with_publisher = Wanted {
        publisher: Some(ID.to_owned()),
        ..network_boot.clone()
    };
    assert!(with_publisher.anything());
    let own_iso = Wanted {
        network_boot: false,
        ..network_boot.clone()
    };
    assert!(own_iso.anything());
    let with_network = Wanted {
        network_given: true,
        ..own_iso.clone()
    };
    assert!(!with_network.anything());

    let host = Host::new();
    host.cd_drive("sr0");
    let start = Instant::now();
    assert_eq!(read(&own_iso, &host.places(), || true), Media::default());
    assert!(start.elapsed().as_millis() < 1000);
}

#[test]
fn a_damaged_medium_is_reported() {
    let host = Host::new();
    let node = host.cd_drive("sr0");
    boot_iso(&node, "config-2", ID);
    let whole = fs::read(&node).unwrap();
    // The image keeps its volume descriptors and loses its directories.
    fs::write(&node, &whole[..40_000]).unwrap();
    let media = read(&wanted(), &host.places(), || true);
    assert_eq!(media.network_data, None);
    assert!(!media.warnings.is_empty());
    for warning in &media.warnings {
        assert!(
            warning.contains("sr0: cannot read the ISO at byte"),
            "{warning}"
        );
    }
}

fn image(name: &str, digit: &str) -> String {
    let sha256 = digit.repeat(64);
    format!(r#"{{"name": "{name}", "size": 5, "sha256": "{sha256}"}}"#)
}

/// A medium with this description of an image, without the image.
fn described(out: &Path, description: &str) {
    let files = [("landfall/coreos-image.json", description)];
    iso(out, "LANDFALL", "", &files);
}

fn look(host: &Host) -> Result<ImageInDrive, NoImage> {
    coreos_image(&host.places(), Duration::ZERO)
}

fn missing(host: &Host) -> String {
    match look(host) {
        Err(NoImage::Missing(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

fn unfit(host: &Host) -> String {
    match look(host) {
        Err(NoImage::Unfit(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_image_on_our_own_iso() {
    let host = Host::new();
    // The ISO is written to a USB stick, which is larger than any virtual floppy.
    let stick = host.usb_disk("sda", 64 << 21);
    let description = image("rhcos.raw.gz", "a");
    let files = [
        ("landfall/coreos-image.json", &description[..]),
        ("landfall/coreos-image", "image"),
    ];
    iso(&stick, "LANDFALL", "", &files);
    let found = look(&host).unwrap();
    assert_eq!(found.device, stick);
    assert_eq!(
        (
            &found.image.name[..],
            found.image.size,
            found.image.sha256.hex()
        ),
        ("rhcos.raw.gz", 5, "a".repeat(64))
    );
    // The same image in two drives counts as one. Two different images are an
    // error.
    let cd = host.cd_drive("sr0");
    iso(&cd, "LANDFALL", "", &files);
    assert!(look(&host).is_ok());
    described(&cd, &image("fcos.raw.xz", "b"));
    let fault = unfit(&host);
    for part in [
        "different images",
        "rhcos.raw.gz in ",
        "fcos.raw.xz in ",
        "sr0",
    ] {
        assert!(fault.contains(part), "{part} in {fault}");
    }
}

#[test]
fn no_image_in_any_drive() {
    let host = Host::new();
    assert_eq!(
        missing(&host),
        "no drive has a medium with an image; no drive has a medium with a file system"
    );
    // A disk is not a drive: its content may come from an earlier use of the host.
    let disk = host.drive("sda", "pci0000:00/0000:00:1f.2/ata1", "0\n", 1 << 21);
    described(&disk, &image("old.raw", "a"));
    let cd = host.cd_drive("sr0");
    iso(&cd, "LANDFALL", "", &[("boot/vmlinuz", "kernel")]);
    let fault = missing(&host);
    assert!(fault.ends_with("sr0 labelled \"LANDFALL\""), "{fault}");
    iso(&cd, "LANDFALL", "", &[("landfall/coreos-image.json", "{}")]);
    let fault = unfit(&host);
    assert!(
        fault.contains("sr0: landfall/coreos-image.json: missing field"),
        "{fault}"
    );
}

#[test]
fn a_drive_that_shows_up_late_has_the_image() {
    let host = Host::new();
    let places = host.places();
    let search = std::thread::spawn(move || coreos_image(&places, Duration::from_secs(30)));
    std::thread::sleep(Duration::from_millis(200));
    let cd = host.cd_drive("sr0");
    described(&cd, &image("rhcos.raw.gz", "a"));
    assert_eq!(search.join().unwrap().unwrap().device, cd);
}
