//! Tests the content of ramdisks, ISOs and network trees.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::fixture::Fixture;

pub fn same(a: &Path, b: &Path) -> bool {
    fs::read(a).unwrap() == fs::read(b).unwrap()
}

#[test]
fn a_ramdisk_is_built_and_looked_into() {
    let fixture = Fixture::new();
    let summary = fixture.build("initramfs", "initrd.img", &[]);
    assert_eq!(summary["kernel_release"], "6.1-test");
    assert_eq!(summary["modules"], 1);
    // The header of this kernel does not state its size, so the memory floor uses the
    // default for the kernel, plus the fixed amounts for drivers and for the agent's
    // work. The rest depends on the authorities of this machine, which are in the
    // ramdisk.
    let floor = |key: &str| summary["memory_floor"][key].as_u64().unwrap();
    assert!((89..93).contains(&floor("boot_mib")), "{summary}");
    assert!((146..150).contains(&floor("deployment_mib")), "{summary}");
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
    let stderr = String::from_utf8(result.stderr).unwrap();
    assert!(
        stderr.contains(
            "warning: wrong.conf: api_ulr: unknown name; ignored -- did you mean api_url?"
        ),
        "{stderr}"
    );
    assert!(!stderr.contains("cannot"), "no failure: {stderr}");
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
            // Wait longer than the resolution of the timestamps: 10 ms in the ISO volume,
            // two seconds in FAT.
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
    // xorriso must find in the volume the UUID for which GRUB will search.
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
    let mut area = b"# GRUB Environment Block\nkargs=after=2\n".to_vec();
    area.resize(1849, b'\n');
    overwrite(offset_by_xorriso(&fixture, "boot/grub/kargs.env"), &area);

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

/// The test checks the files by which coreos-installer and OpenShift's image services
/// recognise an ISO of CoreOS.
#[test]
fn an_iso_and_a_network_tree_have_coreos_layout_at_no_cost() {
    let fixture = Fixture::new();
    let size = || fs::metadata(fixture.path("a.iso")).unwrap().len();
    fixture.build("iso", "a.iso", &[]);
    let with_small_kernel = size();
    let mut kernel = fs::read(fixture.path("kernel/boot/vmlinuz-6.1-test")).unwrap();
    kernel.resize(3_000_000, 7);
    fixture.put("kernel/boot/vmlinuz-6.1-test", &kernel);
    fixture.build("iso", "a.iso", &["--karg", "a=b", "--force"]);
    let growth = size() - with_small_kernel;
    assert!((2_990_000..3_010_000).contains(&growth), "{growth}");
    for (first, second) in [
        ("boot/vmlinuz", "images/pxeboot/vmlinuz"),
        ("boot/initrd.img", "images/pxeboot/initrd.img"),
        ("coreos/kargs.json", "coreos/kargs.jso"),
        ("coreos/igninfo.json", "coreos/igninfo.jso"),
        ("coreos/features.json", "coreos/features.jso"),
    ] {
        let [first, second] = [first, second].map(|path| offset_by_xorriso(&fixture, path));
        assert_eq!(first, second);
    }
    let image = fs::read(fixture.path("a.iso")).unwrap();
    let json = |path: &str| -> Value {
        let at = offset_by_xorriso(&fixture, path);
        let text = image[at..].split(|&byte| byte == 0).next().unwrap();
        serde_json::from_slice(text).unwrap()
    };
    let kargs = json("coreos/kargs.json");
    let default = "console=tty0 console=ttyS0,115200n8 quiet a=b";
    let area = serde_json::json!({
        "path": "boot/grub/kargs.env", "offset": 31, "pad": "#", "end": "\n",
    });
    let expected = serde_json::json!({"default": default, "files": [area], "size": 1793});
    assert_eq!(kargs, expected);
    let at = offset_by_xorriso(&fixture, "boot/grub/kargs.env");
    assert!(image[at + 31..].starts_with(format!("{default}\n####").as_bytes()));
    assert!(image[at + 31 + 1793..].starts_with(b"# COREOS_KARG_EMBED_AREA\n"));
    let areas = json("boot/landfall-areas.json");
    assert_eq!(areas["format"], 2);
    assert_eq!(
        areas["ignition"]["path"],
        json("coreos/igninfo.json")["file"]
    );
    assert_eq!(json("coreos/features.json")["live-initrd-network"], true);

    fixture.build("pxe", "tree", &[]);
    for (first, second) in [
        ("tree/vmlinuz", "tree/images/pxeboot/vmlinuz"),
        ("tree/initrd.img", "tree/images/pxeboot/initrd.img"),
    ] {
        let [first, second] = [first, second].map(|path| fs::metadata(fixture.path(path)).unwrap());
        assert_eq!(first.ino(), second.ino());
    }
    for name in ["tree/images/ignition.img", "tree/images/pxeboot/rootfs.img"] {
        let inspection = fixture.inspect(name);
        assert_eq!(inspection["kind"], "ignition");
        assert_eq!(inspection["bytes"], 512);
    }
    fixture.put("tree/images/ignition.img", b"a config");
    let arguments = [
        "pxe",
        "--agent",
        "agent",
        "--kernel-dir",
        "kernel",
        "-o",
        "tree",
    ];
    let again = fixture.run(&[&arguments[..], &["--force"]].concat());
    let stderr = String::from_utf8(again.stderr).unwrap();
    let warning = "warning: tree/images/ignition.img: its Ignition config will be replaced";
    assert!(stderr.contains(warning), "{stderr}");
}

/// Offset of a file in `a.iso`, in bytes.
pub fn offset_by_xorriso(fixture: &Fixture, path: &str) -> usize {
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
        "landfall-image: FAILED cannot write tftp/vmlinuz: it exists; --force replaces it"
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
            "cannot write taken.img: it exists; --force replaces it",
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
            "cannot make a file in no: No such file or directory (os error 2)",
        ),
    ] {
        let error = fixture.fails(&[&[command], &kernel[..], &[output], more].concat());
        assert!(
            error.starts_with(&format!("landfall-image: FAILED {expected}")),
            "{error}"
        );
    }
    assert_eq!(fs::read(fixture.path("taken.img")).unwrap(), b"old");
    assert_eq!(
        fixture.list("."),
        ["agent", "bad.set", "kernel", "taken.img"]
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
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(
        stderr.contains("agent: expected an agent with the feature live-system"),
        "{stderr}"
    );
    assert!(!fixture.path("live.ign").exists());

    let made = run("live-agent");
    let stderr = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{stderr}");
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
