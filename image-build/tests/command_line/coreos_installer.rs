//! Runs the real coreos-installer on Landfall's media. `make peers` builds it;
//! LANDFALL_COREOS_INSTALLER names another one.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::inspection::packed_archive;
use crate::products::{offset_by_xorriso, same};

const KARGS: &str = "console=tty0 console=ttyS0,115200n8 quiet a=b";
/// Bytes that no JSON serialiser writes.
const CONFIG: &[u8] = b"{ \"ignition\" : {\"version\":\"3.2.0\"} ,\n\t\"x\":\"\\u0041\"}\n\n";
const KEYFILE: &[u8] = b"[connection]\nid=eth0\ntype=ethernet\n\n[ipv4]\nmethod=auto\n";
/// In bytes: the size of the embed area, and also of the Ignition area.
const AREA: usize = 256 * 1024;

/// Media and the files that coreos-installer puts into them.
struct Media(Fixture);

impl Media {
    fn new() -> Self {
        let fixture = Fixture::new();
        fixture.build("iso", "a.iso", &["--karg", "a=b"]);
        fixture.put("config.ign", CONFIG);
        fixture.put("eth0.nmconnection", KEYFILE);
        Self(fixture)
    }

    fn run(&self, line: &str) -> Output {
        let built = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../out/peers/coreos-installer/bin/coreos-installer"
        );
        let program = std::env::var_os("LANDFALL_COREOS_INSTALLER")
            .map_or_else(|| PathBuf::from(built), PathBuf::from);
        assert!(
            program.exists(),
            "{} is missing: make peers",
            program.display()
        );
        let mut command = Command::new(program);
        // `~` stands for a blank within an argument.
        let words = line.split(' ').map(|word| word.replace('~', " "));
        command.args(words).current_dir(self.0.path("."));
        command.output().unwrap()
    }

    /// Runs a command that succeeds. Returns its output.
    fn good(&self, line: &str) -> Vec<u8> {
        let output = self.run(line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {stderr}");
        output.stdout
    }

    /// Runs a command that fails. Returns its message.
    fn bad(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(!output.status.success(), "{line}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn bytes(&self, file: &str) -> Vec<u8> {
        fs::read(self.0.path(file)).unwrap()
    }

    /// Asserts that the ISO or ramdisk has no fault. Returns what `inspect` shows.
    fn verified(&self, file: &str) -> Value {
        let output = self.0.run(&["inspect", "--verify", "--json", file]);
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{file}: {stdout}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn is_as_built(&self, file: &str) {
        assert!(same(&self.0.path("a.iso"), &self.0.path(file)), "{file}");
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
#[ignore = "needs coreos-installer: make test-coreos-media"]
fn kernel_arguments() {
    let media = Media::new();
    for line in ["iso kargs show a.iso", "iso kargs show --default a.iso"] {
        assert_eq!(text(media.good(line)), format!("{KARGS}\n"));
    }
    let shown: Value = serde_json::from_slice(&media.good("dev show iso --kargs a.iso")).unwrap();
    let offset = offset_by_xorriso(&media.0, "boot/grub/kargs.env") + 31;
    let area = json!({"offset": offset, "length": 1793, "pad": "#", "end": "\n"});
    let expected = json!({"length": 1793, "default": KARGS, "kargs": [area]});
    assert_eq!(shown, expected);

    media.good(
        "iso kargs modify -a ip=192.0.2.9::192.0.2.1:24:::none -a c=$d;e&f|g -d quiet -r a=b=z -o ./b.iso a.iso",
    );
    let changed =
        "console=tty0 console=ttyS0,115200n8 a=z ip=192.0.2.9::192.0.2.1:24:::none c=$d;e&f|g";
    assert_eq!(
        text(media.good("iso kargs show b.iso")),
        format!("{changed}\n")
    );
    let iso = &media.verified("b.iso")["iso"];
    assert_eq!(iso["kernel_args"], changed);
    assert_eq!(iso["kernel_args_are_default"], false);
    // What GRUB reads.
    let at = offset - 31;
    media
        .0
        .put("kargs.env", &media.bytes("b.iso")[at..at + 1849]);
    let listed = Command::new("grub-editenv")
        .args(["kargs.env", "list"])
        .current_dir(media.0.path("."))
        .output()
        .unwrap();
    assert_eq!(text(listed.stdout), format!("kargs={changed}\n"));

    media.good("iso kargs reset b.iso");
    media.is_as_built("b.iso");

    // The x86 kernel truncates its command line at 2048 bytes, and the boot loader adds
    // arguments of its own, so the area holds at most 1792 bytes.
    let most = "x".repeat(1792 - KARGS.len() - 1);
    media.good(&format!("iso kargs modify -a {most} -o ./most.iso a.iso"));
    let iso = &media.verified("most.iso")["iso"];
    assert_eq!(iso["kernel_args"].as_str().unwrap().len(), 1792);
    let error = media.bad(&format!("iso kargs modify -a {most}x -o ./more.iso a.iso"));
    assert!(error.contains("too large for area"), "{error}");

    media.good("iso kargs modify -a dyndbg=\"a~b\" -o ./quoted.iso a.iso");
    let output = media.0.run(&["inspect", "quoted.iso"]);
    let fault = "FAULT boot/grub/kargs.env: kernel arguments contain `\"`";
    assert!(text(output.stdout).contains(fault));
}

#[test]
#[ignore = "needs coreos-installer: make test-coreos-media"]
fn ignition_configs() {
    let media = Media::new();
    let error = media.bad("iso ignition show a.iso");
    assert!(error.contains("No embedded Ignition config"), "{error}");
    media.good("iso ignition embed -i config.ign -o ./b.iso a.iso");
    assert_eq!(media.good("iso ignition show b.iso"), CONFIG);
    let iso = &media.verified("b.iso")["iso"];
    assert_eq!(iso["ignition_files"], json!(["config.ign"]));
    assert_eq!(iso["embedded_files"], json!([]));
    assert_eq!(iso["kernel_args_are_default"], true);

    // The area holds what `pxe ignition wrap` makes, then zeros, and nothing else
    // has changed.
    media.good("pxe ignition wrap -i config.ign -o wrapped.img");
    let mut expected = media.bytes("a.iso");
    let wrapped = media.bytes("wrapped.img");
    let at = offset_by_xorriso(&media.0, "images/ignition.img");
    expected[at..at + wrapped.len()].copy_from_slice(&wrapped);
    assert!(media.bytes("b.iso") == expected);

    let error = media.bad("iso ignition embed -i config.ign -o ./c.iso b.iso");
    assert!(error.contains("already has an embedded"), "{error}");
    media.good("iso ignition embed -f -i eth0.nmconnection b.iso");
    assert_eq!(media.good("iso ignition show b.iso"), KEYFILE);
    media.good("iso ignition remove b.iso");
    media.is_as_built("b.iso");

    // A config that is too large for the area leaves the ISO as it was.
    let mut noise = vec![0; 2 * AREA];
    let mut state = 1u32;
    for byte in &mut noise {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = (state >> 24) as u8;
    }
    media.0.put("large.ign", &noise);
    let error = media.bad("iso ignition embed -i large.ign b.iso");
    assert!(error.contains("too large"), "{error}");
    media.is_as_built("b.iso");
}

#[test]
#[ignore = "needs coreos-installer: make test-coreos-media"]
fn network_settings() {
    let media = Media::new();
    media.good("iso network embed -k eth0.nmconnection -o ./b.iso a.iso");
    media.good("iso network extract -C keyfiles b.iso");
    assert_eq!(media.bytes("keyfiles/eth0.nmconnection"), KEYFILE);
    let path = "etc/coreos-firstboot-network/eth0.nmconnection";
    let iso = &media.verified("b.iso")["iso"];
    assert_eq!(iso["ignition_files"], json!([path]));
    media.good("iso network remove b.iso");
    media.is_as_built("b.iso");
}

/// All changes of coreos-installer in one ISO that also holds a host in Landfall's embed
/// area. The reset leaves the host unchanged.
#[test]
#[ignore = "needs coreos-installer: make test-coreos-media"]
fn several_changes_and_the_way_back() {
    let media = Media::new();
    let embed = offset_by_xorriso(&media.0, "boot/embed.img");
    let host = packed_archive(&media.0, "host.json", "cat");
    let mut with_host = media.bytes("a.iso");
    with_host[embed..embed + host.len()].copy_from_slice(&host);
    media.0.put("h.iso", &with_host);

    media.good("iso network embed -k eth0.nmconnection -o ./b.iso h.iso");
    media.good("iso ignition embed -i config.ign b.iso");
    media.good("iso kargs modify -a c=d b.iso");
    let iso = &media.verified("b.iso")["iso"];
    assert_eq!(iso["kernel_args"], format!("{KARGS} c=d"));
    let paths = [
        "config.ign",
        "etc/coreos-firstboot-network/eth0.nmconnection",
    ];
    assert_eq!(iso["ignition_files"], json!(paths));
    assert_eq!(iso["embedded_files"], json!(["host.json"]));
    media.good("iso reset b.iso");
    assert!(media.bytes("b.iso") == with_host);

    media.good(
        "iso customize --live-ignition config.ign --network-keyfile eth0.nmconnection --live-karg-append c=d -o ./c.iso h.iso",
    );
    let iso = &media.verified("c.iso")["iso"];
    assert_eq!(iso["kernel_args"], format!("{KARGS} c=d"));
    assert_eq!(iso["ignition_files"], json!(paths));
    for (option, expected) in [
        (
            "--dest-device=/dev/sda",
            "does not support customizing installer configuration",
        ),
        ("--dest-console=ttyS0", "does not support"),
    ] {
        let error = media.bad(&format!("iso customize {option} -o ./d.iso a.iso"));
        assert!(error.contains(expected), "{error}");
    }
    // There is no file system to take out of the ISO.
    let error = media.bad("iso extract minimal-iso a.iso ./m.iso");
    assert!(
        error.contains("does not support extracting a minimal ISO"),
        "{error}"
    );
}

#[test]
#[ignore = "needs coreos-installer: make test-coreos-media"]
fn network_boot() {
    let media = Media::new();
    media.0.build("pxe", "tree", &["--karg", "a=b"]);
    let printed = text(media.good("iso extract pxe -o pxe a.iso"));
    let mut names: Vec<&str> = printed.lines().collect();
    names.sort_unstable();
    let expected = ["pxe/a-initrd.img", "pxe/a-rootfs.img", "pxe/a-vmlinuz"];
    assert_eq!(names, expected);
    for (extracted, of_tree) in [
        ("pxe/a-vmlinuz", "tree/vmlinuz"),
        ("pxe/a-vmlinuz", "kernel/boot/vmlinuz-6.1-test"),
        ("pxe/a-initrd.img", "tree/initrd.img"),
        ("pxe/a-rootfs.img", "tree/images/pxeboot/rootfs.img"),
    ] {
        let [extracted, of_tree] = [extracted, of_tree].map(|path| media.0.path(path));
        assert!(same(&extracted, &of_tree), "{extracted:?}");
    }

    media.good("pxe ignition wrap -i config.ign -o tree/images/ignition.img");
    assert_eq!(
        media.good("pxe ignition unwrap tree/images/ignition.img"),
        CONFIG
    );
    let inspection = media.verified("tree/images/ignition.img");
    assert_eq!(inspection["kind"], "ignition");
    assert_eq!(inspection["ramdisk"]["ignition"][0]["path"], "config.ign");
    // Join the ramdisk, the Ignition archive and CoreOS' root file system, as a boot
    // loader does.
    let parts = [
        "pxe/a-initrd.img",
        "tree/images/ignition.img",
        "pxe/a-rootfs.img",
    ];
    let whole = parts.map(|part| media.bytes(part)).concat();
    media.0.put("whole.img", &whole);
    let inspection = media.verified("whole.img");
    assert_eq!(inspection["kind"], "ramdisk");
    assert_eq!(inspection["ramdisk"]["ignition"][0]["path"], "config.ign");
    assert_eq!(media.good("pxe ignition unwrap whole.img"), CONFIG);
}

/// coreos-installer reads the whole ramdisk, whatever its size and packing.
#[test]
#[ignore = "needs coreos-installer: make test-coreos-media"]
fn ramdisks_for_network_boot_are_customized() {
    let media = Media::new();
    // The configuration file grows with each ramdisk, so that some of the ramdisks need
    // padding.
    for (number, compress) in ["zstd:19", "zstd:1", "zstd:3", "none", "zstd:2"]
        .iter()
        .enumerate()
    {
        let site = format!("[DEFAULT]\n# {}\n", "x".repeat(number * 7));
        media.0.put("site.conf", site.as_bytes());
        let options = [
            "--config-file",
            "site.conf",
            "--compress",
            compress,
            "--force",
        ];
        media.0.build("initramfs", "initrd.img", &options);
        let output = format!("custom-{number}.img");
        media.good(&format!(
            "pxe customize --live-ignition config.ign --network-keyfile eth0.nmconnection -o ./{output} initrd.img"
        ));
        assert!(media.bytes(&output).starts_with(&media.bytes("initrd.img")));
        let ramdisk = &media.verified(&output)["ramdisk"];
        let paths: Vec<&str> = ramdisk["ignition"]
            .as_array()
            .unwrap()
            .iter()
            .map(|member| member["path"].as_str().unwrap())
            .collect();
        let expected = [
            "config.ign",
            "etc/coreos-firstboot-network/eth0.nmconnection",
        ];
        assert_eq!(paths, expected, "{compress}");
    }
    let error = media.bad("pxe customize --dest-device /dev/sda -o ./no.img initrd.img");
    assert!(
        error.contains("does not support customizing installer configuration"),
        "{error}"
    );
}

/// What image-customization-controller serves: the ISO with a gzip archive at the start
/// of `/images/ignition.img` (its vendored isoeditor/stream.go), and the ramdisk with the
/// same archive at its end. coreos-installer must read the config from both.
#[test]
#[ignore = "needs coreos-installer: make test-coreos-media"]
fn overlays_of_image_customization_controller() {
    let media = Media::new();
    media.0.build("initramfs", "initrd.img", &[]);
    let overlay = packed_archive(&media.0, "config.ign", "gzip -9");
    let at = offset_by_xorriso(&media.0, "images/ignition.img");
    assert!(at < u32::MAX as usize, "it computes the offset in 32 bits");
    let mut iso = media.bytes("a.iso");
    iso[at..at + overlay.len()].copy_from_slice(&overlay);
    media.0.put("b.iso", &iso);
    assert_eq!(media.good("iso ignition show b.iso"), b"{}");
    assert_eq!(
        media.verified("b.iso")["iso"]["ignition_files"],
        json!(["config.ign"])
    );
    let ramdisk = [media.bytes("initrd.img"), overlay].concat();
    media.0.put("b.img", &ramdisk);
    assert_eq!(media.good("pxe ignition unwrap b.img"), b"{}");
    let inspection = media.verified("b.img");
    assert_eq!(inspection["ramdisk"]["ignition"][0]["path"], "config.ign");
}
