//! Runs the real program, with the real xorriso and GRUB, on a kernel that only looks like one.

#![allow(clippy::unwrap_used, reason = "a test that unwraps nothing has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Agent, kernel image and one module, as far as the builder looks at them.
struct Fixture(TempDir);

impl Fixture {
    fn new() -> Self {
        let fixture = Self(tempfile::tempdir().unwrap());
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
        // The smallest thing that is a static program: an ELF header without program headers.
        let mut agent = vec![0; 64];
        agent[..6].copy_from_slice(b"\x7fELF\x02\x01");
        agent[18] = 62;
        fixture.put("agent", &agent);
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), bytes).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_landfall-image"))
            .args(arguments)
            .current_dir(self.0.path())
            .env_remove("SOURCE_DATE_EPOCH")
            .output()
            .unwrap()
    }

    /// Builds something; gives the JSON summary.
    fn build(&self, command: &str, output: &str, more: &[&str]) -> Value {
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

    fn inspect(&self, file: &str) -> Value {
        serde_json::from_slice(&self.run(&["inspect", "--json", file]).stdout).unwrap()
    }

    /// The last line of a failure.
    fn fails(&self, arguments: &[&str]) -> String {
        let result = self.run(arguments);
        assert_eq!(result.status.code(), Some(1));
        String::from_utf8(result.stderr)
            .unwrap()
            .lines()
            .last()
            .unwrap()
            .to_owned()
    }
}

/// An ELF file with a .modinfo section.
fn module(section: &[u8]) -> Vec<u8> {
    let names = b"\0.shstrtab\0.modinfo\0";
    let table = 64 + names.len() + section.len();
    let mut file = vec![0; 64];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
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

fn same(a: &Path, b: &Path) -> bool {
    fs::read(a).unwrap() == fs::read(b).unwrap()
}

#[test]
fn a_ramdisk_is_built_and_looked_into() {
    let fixture = Fixture::new();
    let summary = fixture.build("initramfs", "initrd.img", &[]);
    assert_eq!(summary["kernel_release"], "6.1-test");
    assert_eq!(summary["modules"], 1);
    let inspection = fixture.inspect("initrd.img");
    assert_eq!(inspection["kind"], "ramdisk");
    assert_eq!(inspection["sha256"], summary["sha256"]);
    assert_eq!(inspection["ramdisk"]["kernel_release"], "6.1-test");
    assert_eq!(inspection["ramdisk"]["faults"].as_array().unwrap().len(), 0);
}

#[test]
fn a_sites_configuration_is_in_every_product() {
    let fixture = Fixture::new();
    let authority = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/test_data/site_configuration/authority.pem"
    );
    fixture.put(
        "site.conf",
        b"[DEFAULT]\napi_url = https://192.0.2.1:6385\n",
    );
    let site = ["--ca-file", authority, "--config-file", "site.conf"];
    let expected = [
        "etc/landfall/00-ca.conf",
        "etc/landfall/ca.pem",
        "etc/landfall/site.conf",
    ];
    for (command, output, inspected) in [
        ("initramfs", "initrd.img", "initrd.img"),
        ("iso", "a.iso", "a.iso"),
        ("pxe", "tree", "tree/initrd.img"),
    ] {
        fixture.build(command, output, &site);
        let inspection = fixture.inspect(inspected);
        let members = inspection["ramdisk"]["configuration"].as_array().unwrap();
        let paths: Vec<&str> = members
            .iter()
            .map(|m| m["path"].as_str().unwrap())
            .collect();
        assert_eq!(paths, expected, "{command}");
    }

    fixture.put("wrong.conf", b"[DEFAULT]\napi_ulr = x\n");
    let arguments = ["initramfs", "--agent", "agent", "--kernel-dir", "kernel"];
    let more = ["--config-file", "wrong.conf", "-o", "w.img"];
    let result = fixture.run(&[&arguments[..], &more].concat());
    assert!(result.status.success());
    let told = String::from_utf8(result.stderr).unwrap();
    assert!(
        told.contains("warning: wrong.conf: api_ulr: not known here, api_url is; ignored"),
        "{told}"
    );
    let more = ["--ca-file", "site.conf", "-o", "x.img"];
    assert_eq!(
        fixture.fails(&[&arguments[..], &more].concat()),
        "landfall-image: FAILED site.conf: expected certificates in PEM (BEGIN CERTIFICATE), found none"
    );
}

#[test]
fn the_same_input_gives_the_same_iso_on_another_day() {
    let fixture = Fixture::new();
    for more in [&[][..], &["--no-secure-boot"]] {
        for name in ["a.iso", "b.iso"] {
            fixture.build("iso", name, &[more, &["--force"]].concat());
            // The volume's dates have a resolution of hundredths, FAT's of two seconds.
            std::thread::sleep(std::time::Duration::from_millis(2100));
        }
        assert!(
            same(&fixture.path("a.iso"), &fixture.path("b.iso")),
            "{more:?}"
        );
    }
}

#[test]
fn other_content_is_another_medium() {
    let fixture = Fixture::new();
    let first = fixture.build("iso", "a.iso", &[]);
    let second = fixture.build("iso", "b.iso", &["--karg", "a=b"]);
    assert_ne!(first["volume_uuid"], second["volume_uuid"]);
    let inspection = fixture.inspect("b.iso");
    let iso = &inspection["iso"];
    assert_eq!(iso["volume_uuid"], second["volume_uuid"]);
    assert_eq!(
        iso["kernel_args"],
        "console=tty0 console=ttyS0,115200n8 quiet a=b"
    );
    assert_eq!(iso["kernel_args_are_default"], true);
    assert_eq!(iso["embed_size"], 256 * 1024);
    assert_eq!(inspection["ramdisk"]["kernel_release"], "6.1-test");
    // xorriso agrees on the name by which GRUB will search for the medium.
    let report = Command::new("xorriso")
        .arg("-indev")
        .arg(fixture.path("b.iso"))
        .arg("-pvd_info")
        .output()
        .unwrap();
    let digits = second["volume_uuid"].as_str().unwrap().replace('-', "");
    assert!(String::from_utf8_lossy(&report.stdout).contains(&digits));
}

#[test]
fn both_areas_can_be_overwritten_in_place() {
    let fixture = Fixture::new();
    fixture.build("iso", "a.iso", &["--karg", "before=1"]);
    let mut bytes = fs::read(fixture.path("a.iso")).unwrap();
    let mut overwrite = |offset: usize, content: &[u8]| {
        bytes[offset..offset + content.len()].copy_from_slice(content)
    };
    let mut area = b"set kargs=\"after=2\"\n".to_vec();
    area.resize(4096, b'\n');
    overwrite(offset_by_xorriso(&fixture, "boot/grub/kargs.cfg"), &area);

    fs::create_dir(fixture.path("extra")).unwrap();
    fixture.put("extra/host.json", b"{}");
    let cpio = Command::new("sh")
        .args(["-c", "echo host.json | cpio -o -H newc --quiet"])
        .current_dir(fixture.path("extra"))
        .output()
        .unwrap();
    overwrite(offset_by_xorriso(&fixture, "boot/embed.img"), &cpio.stdout);
    fixture.put("patched.iso", &bytes);

    let iso = &fixture.inspect("patched.iso")["iso"];
    assert_eq!(iso["kernel_args"], "after=2");
    assert_eq!(iso["kernel_args_are_default"], false);
    assert_eq!(iso["embedded_files"], serde_json::json!(["host.json"]));
}

/// Where a file begins in `a.iso`.
fn offset_by_xorriso(fixture: &Fixture, path: &str) -> usize {
    let find = ["-find", &format!("/{path}"), "-exec", "report_lba", "--"];
    let report = Command::new("xorriso")
        .arg("-indev")
        .arg(fixture.path("a.iso"))
        .args(find)
        .output()
        .unwrap();
    let text = String::from_utf8(report.stdout).unwrap();
    let line = text.lines().find(|line| line.contains(path)).unwrap();
    line.split(',')
        .nth(1)
        .unwrap()
        .trim()
        .parse::<usize>()
        .unwrap()
        * 2048
}

#[test]
fn a_network_tree_has_menus_and_leaves_other_files_alone() {
    let fixture = Fixture::new();
    fixture.put("tftp/pxelinux.0", b"not ours");
    let base = ["--base-url", "http://192.0.2.1:8080/x", "--karg", "a=b"];
    let summary = fixture.build("pxe", "tftp", &base);
    let script = fs::read_to_string(fixture.path("tftp/boot.ipxe")).unwrap();
    assert!(
        script.contains("kernel http://192.0.2.1:8080/x/vmlinuz initrd=initrd.img "),
        "{script}"
    );
    let menu = fs::read_to_string(fixture.path("tftp/grub/grub.cfg")).unwrap();
    assert!(menu.contains(" quiet a=b\"\n"), "{menu}");
    assert!(same(
        &fixture.path("tftp/vmlinuz"),
        &fixture.path("kernel/boot/vmlinuz-6.1-test")
    ));
    assert_eq!(
        fixture.inspect("tftp/initrd.img")["sha256"],
        summary["ramdisk"]["sha256"]
    );

    let again = [
        "pxe",
        "--agent",
        "agent",
        "--kernel-dir",
        "kernel",
        "-o",
        "tftp",
    ];
    let error = fixture.fails(&again);
    assert_eq!(
        error,
        "landfall-image: FAILED writing tftp/vmlinuz: it exists; --force replaces it"
    );
    fixture.build("pxe", "tftp", &["--force"]);
    let menu = fs::read_to_string(fixture.path("tftp/grub/grub.cfg")).unwrap();
    assert!(menu.contains(" quiet\"\n"), "{menu}");
    assert_eq!(
        fs::read(fixture.path("tftp/pxelinux.0")).unwrap(),
        b"not ours"
    );
}

#[test]
fn faults_say_what_to_do_and_leave_nothing() {
    let fixture = Fixture::new();
    fixture.put("bad.set", b"virtio_nett\n");
    fixture.put("taken.img", b"old");
    let kernel = ["--agent", "agent", "--kernel-dir", "kernel", "-o"];
    for (command, output, more, expected) in [
        (
            "initramfs",
            "taken.img",
            &[][..],
            "writing taken.img: it exists; --force replaces it",
        ),
        (
            "initramfs",
            "x",
            &["--module-set", "bad.set"],
            "module set bad.set: the kernel has no `virtio_nett` (line 1, did you mean `virtio_net`?)",
        ),
        (
            "iso",
            "x",
            &["--karg", "a=\"b\""],
            "kernel argument `a=\\\"b\\\"`: `\\\"` cannot be passed through GRUB and iPXE",
        ),
        (
            "initramfs",
            "no/x",
            &[],
            "making a file in no: No such file or directory (os error 2)",
        ),
    ] {
        let error = fixture.fails(&[&[command], &kernel[..], &[output], more].concat());
        assert!(
            error.starts_with(&format!("landfall-image: FAILED {expected}")),
            "{error}"
        );
    }
    assert_eq!(fs::read(fixture.path("taken.img")).unwrap(), b"old");
    let mut left: Vec<_> = fs::read_dir(fixture.0.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["agent", "bad.set", "kernel", "taken.img"]);
}

/// network_data of a host with this MAC and address.
fn network_data(mac: &str, address: &str) -> String {
    format!(
        r#"{{"links": [{{"id": "a", "type": "phy", "ethernet_mac_address": "{mac}"}}],
            "networks": [{{"id": "n", "type": "ipv4", "link": "a",
                "ip_address": "{address}", "netmask": "255.255.255.0"}}]}}"#
    )
}

#[test]
fn the_networks_of_hosts_are_in_every_product() {
    let fixture = Fixture::new();
    for number in 1..=3 {
        let text = network_data(
            &format!("52:54:00:00:00:0{number}"),
            &format!("192.0.2.{number}"),
        );
        fixture.put(&format!("hosts/node{number}.json"), text.as_bytes());
    }
    for (command, output, inspected) in [
        ("initramfs", "initrd.img", "initrd.img"),
        ("iso", "a.iso", "a.iso"),
        ("pxe", "tree", "tree/initrd.img"),
    ] {
        fixture.build(command, output, &["--hosts", "hosts"]);
        let inspection = fixture.inspect(inspected);
        let ramdisk = &inspection["ramdisk"];
        assert_eq!(ramdisk["hosts"].as_array().unwrap().len(), 3, "{command}");
        let second = &ramdisk["hosts"][1];
        assert_eq!(second["file"], "etc/landfall/hosts/node2.json");
        assert_eq!(second["host_name"], "node2");
        assert_eq!(second["macs"][0], "52:54:00:00:00:02");
        assert_eq!(second["kind"], "network_data");
        let ipv4 = &second["plan"]["interfaces"][0]["ipv4"];
        assert_eq!(ipv4["addresses"][0], "192.0.2.2/24");
        assert_eq!(ramdisk["configuration"].as_array().unwrap().len(), 0);
        assert_eq!(ramdisk["faults"].as_array().unwrap().len(), 0);
    }
    let text = fixture.run(&["inspect", "initrd.img"]).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("hosts: 3\n  node1, 52:54:00:00:00:01, network_data\n"),
        "{text}"
    );
    fixture.build("initramfs", "again.img", &["--hosts", "hosts"]);
    assert!(same(
        &fixture.path("initrd.img"),
        &fixture.path("again.img")
    ));
}

#[test]
fn nothing_is_built_with_a_host_whose_network_has_a_fault() {
    let fixture = Fixture::new();
    let mac = "52:54:00:00:00:01";
    fixture.put("hosts/a.json", network_data(mac, "192.0.2.300").as_bytes());
    fixture.put("hosts/b.json", network_data("x", "192.0.2.2").as_bytes());
    fixture.put("hosts/c.json", b"{");
    let arguments = [
        "--agent",
        "agent",
        "--kernel-dir",
        "kernel",
        "--hosts",
        "hosts",
    ];
    for command in ["initramfs", "iso", "pxe"] {
        let result = fixture.run(&[&[command, "-o", "out"], &arguments[..]].concat());
        assert_eq!(result.status.code(), Some(1));
        let told = String::from_utf8(result.stderr).unwrap();
        for expected in [
            "landfall-image: FAILED 6 faults:\n",
            "  hosts/a.json: network n: ip_address: expected",
            "  hosts/b.json: link a: ethernet_mac_address: expected",
            "  hosts/c.json: expected JSON: ",
        ] {
            assert!(told.contains(expected), "{told}");
        }
        assert!(!fixture.path("out").is_file());
        assert!(!fixture.path("out/initrd.img").exists());
    }
}

#[test]
fn one_host_or_many() {
    let fixture = Fixture::new();
    fixture.put(
        "a.json",
        network_data("52:54:00:00:00:01", "192.0.2.1").as_bytes(),
    );
    fixture.build("initramfs", "initrd.img", &["--network-data", "a.json"]);
    let inspection = fixture.inspect("initrd.img");
    let hosts = &inspection["ramdisk"]["hosts"];
    assert_eq!(
        hosts[0]["file"],
        "etc/landfall/hosts/52-54-00-00-00-01.json"
    );
    assert_eq!(hosts[0]["host_name"], Value::Null);
    let both = ["--network-data", "a.json", "--hosts", "."];
    let command = [
        "initramfs",
        "--agent",
        "agent",
        "--kernel-dir",
        "kernel",
        "-o",
        "x",
    ];
    let result = fixture.run(&[&command[..], &both].concat());
    assert_eq!(result.status.code(), Some(2));
}

#[test]
fn hosts_are_added_to_a_finished_ramdisk_and_iso() {
    let fixture = Fixture::new();
    for (folder, mac, address) in [("one", "01", "192.0.2.1"), ("two", "02", "192.0.2.2")] {
        let text = network_data(&format!("52:54:00:00:00:{mac}"), address);
        fixture.put(&format!("{folder}/a.json"), text.as_bytes());
    }
    fixture.build("initramfs", "initrd.img", &["--hosts", "one"]);
    fixture.build("iso", "a.iso", &["--hosts", "one"]);
    let result = fixture.run(&["hosts", "--hosts", "two", "-o", "hosts.img", "--json"]);
    let summary: Value = serde_json::from_slice(&result.stdout).unwrap();
    assert_eq!(summary["hosts"], 1);

    let more = fs::read(fixture.path("hosts.img")).unwrap();
    let mut ramdisk = fs::read(fixture.path("initrd.img")).unwrap();
    ramdisk.extend_from_slice(&more);
    fixture.put("both.img", &ramdisk);
    let mut iso = fs::read(fixture.path("a.iso")).unwrap();
    let area = offset_by_xorriso(&fixture, "boot/embed.img");
    iso[area..area + more.len()].copy_from_slice(&more);
    fixture.put("both.iso", &iso);
    for (file, mac) in [
        ("initrd.img", "01"),
        ("a.iso", "01"),
        ("both.img", "02"),
        ("both.iso", "02"),
    ] {
        let hosts = &fixture.inspect(file)["ramdisk"]["hosts"];
        assert_eq!(hosts.as_array().unwrap().len(), 1, "{file}");
        let expected = format!("52:54:00:00:00:{mac}");
        assert_eq!(hosts[0]["macs"][0], expected, "{file}");
    }
    assert!(
        fixture
            .fails(&["hosts", "-o", "x"])
            .contains("expected hosts: --hosts")
    );
}

#[test]
fn a_live_system_gets_exactly_the_agent_that_was_named() {
    let fixture = Fixture::new();
    fixture.put("live-agent", b"...org.freedesktop.NetworkManager...");
    fixture.put("site.conf", b"[DEFAULT]\nlisten_port = 9998\n");
    let url = "http://192.0.2.1:8080/agent";
    let command = [
        "coreos-live",
        "--json",
        "-o",
        "live.ign",
        "--agent-url",
        url,
    ];
    let more = [
        "--api-url",
        "http://192.0.2.1:6385",
        "--config-file",
        "site.conf",
    ];
    let run = |agent: &str| fixture.run(&[&command[..], &more, &["--agent", agent]].concat());

    let refused = run("agent");
    assert!(!refused.status.success());
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(
        told.contains("agent: expected an agent with the feature live-system"),
        "{told}"
    );
    assert!(!fixture.path("live.ign").exists());

    let made = run("live-agent");
    let told = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{told}");
    let summary: Value = serde_json::from_slice(&made.stdout).unwrap();
    let digest = Command::new("sha512sum")
        .arg(fixture.path("live-agent"))
        .output()
        .unwrap();
    let digest = String::from_utf8(digest.stdout).unwrap();
    let digest = digest.split(' ').next().unwrap();
    assert_eq!(summary["agent_sha512"], digest);
    let files = ["/etc/ironic-python-agent.conf", "/etc/landfall/site.conf"];
    assert_eq!(summary["configuration"], serde_json::json!(files));

    let config: Value =
        serde_json::from_slice(&fs::read(fixture.path("live.ign")).unwrap()).unwrap();
    let agent = &config["storage"]["files"][0]["contents"];
    assert_eq!(agent["source"], url);
    assert_eq!(agent["verification"]["hash"], format!("sha512-{digest}"));
}
