//! Tests `customize`, and `inspect --extract` of its results.

use std::fs;

use serde_json::{Value, json};

use crate::fixture::Fixture;

const NMSTATE: &str = "\
interfaces:
- name: eno1
  type: ethernet
  state: up
  ipv4:
    enabled: true
    dhcp: false
    address:
    - ip: 192.0.2.50
      prefix-length: 24
";

/// Runs `customize`, which must succeed, and returns its summary.
fn customize(fixture: &Fixture, arguments: &[&str]) -> Value {
    let result = fixture.run(&[&["customize", "--json"], arguments].concat());
    let stderr = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{arguments:?}: {stderr}");
    serde_json::from_slice(&result.stdout).unwrap()
}

fn with_iso() -> Fixture {
    let fixture = Fixture::new();
    fixture.build("iso", "base.iso", &["--karg", "a=1"]);
    fixture.put("node1.yaml", NMSTATE.as_bytes());
    fixture.put("site.conf", b"[DEFAULT]\nlisten_port = 9998\n");
    fixture
}

fn bytes(fixture: &Fixture, name: &str) -> Vec<u8> {
    fs::read(fixture.path(name)).unwrap()
}

#[test]
fn a_host_gets_its_own_iso_and_the_base_stays() {
    let fixture = with_iso();
    let base = bytes(&fixture, "base.iso");
    let changes = [
        "--nmstate",
        "node1.yaml",
        "--config-file",
        "site.conf",
        "--karg",
        "b=2",
        "--karg-delete",
        "a=1",
        "--coreos-image-url",
        "http://192.0.2.1/rhcos.raw.gz",
    ];
    let summary = customize(
        &fixture,
        &[&["base.iso", "-o", "node1.iso"], &changes[..]].concat(),
    );
    let arguments = "console=tty0 console=ttyS0,115200n8 quiet b=2 landfall.coreos.image=http://192.0.2.1/rhcos.raw.gz";
    assert_eq!(summary["kernel_args"], arguments);
    let files = json!(["etc/landfall/hosts/any.json", "etc/landfall/site.conf"]);
    assert_eq!(summary["files"], files);
    assert_eq!(summary["bytes"], base.len());
    assert!(bytes(&fixture, "base.iso") == base);

    let verified = fixture.run(&["inspect", "--verify", "--json", "node1.iso"]);
    assert!(verified.status.success());
    let inspection: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!(inspection["iso"]["kernel_args"], arguments);
    assert_eq!(inspection["iso"]["kernel_args_are_default"], false);
    assert_eq!(inspection["iso"]["embedded_files"], files);
    assert_eq!(inspection["ramdisk"]["hosts"][0]["kind"], "nmstate");

    // The same in place, step by step.
    fs::copy(fixture.path("base.iso"), fixture.path("other.iso")).unwrap();
    for part in [&changes[..2], &changes[2..4], &changes[4..8], &changes[8..]] {
        customize(&fixture, &[&["other.iso", "--in-place"], part].concat());
    }
    assert!(bytes(&fixture, "other.iso") == bytes(&fixture, "node1.iso"));
    // Another image replaces the first.
    let image = [
        "other.iso",
        "--in-place",
        "--coreos-image-url",
        "http://h/i",
    ];
    let summary = customize(&fixture, &image);
    let line = summary["kernel_args"].as_str().unwrap();
    assert!(
        line.ends_with(" b=2 landfall.coreos.image=http://h/i"),
        "{line}"
    );
    customize(&fixture, &["other.iso", "--in-place", "--reset"]);
    assert!(bytes(&fixture, "other.iso") == base);
}

/// The result does not depend on the order of the options, nor on whether one
/// customization or two give them.
#[test]
fn hints_of_a_host_replace_the_argument_that_names_the_disk() {
    const WARNING: &str = "nothing is installed without coreos.inst.install_dev or root device";
    let fixture = with_iso();
    fixture.put(
        "host.yaml",
        b"apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {name: node-4}\n\
          spec: {bootMACAddress: \"52:54:00:12:34:5a\", rootDeviceHints: {wwn: \"0x5000\"}}\n",
    );
    let image = [
        "--karg",
        "coreos.inst.image_url=http://192.0.2.1/a.raw.gz",
        "--karg",
        "coreos.inst.ignition_url=skip",
    ];
    let hosts = ["--bare-metal-hosts", "host.yaml"];
    let has_warning = |command: &[&str], options: &[&str]| {
        let result = fixture.run(&[command, options].concat());
        let stderr = String::from_utf8_lossy(&result.stderr);
        assert!(result.status.success(), "{command:?} {options:?}: {stderr}");
        stderr.contains(WARNING)
    };
    let customize = ["customize", "base.iso", "--force", "-o", "node4.iso"];
    assert!(has_warning(&customize, &image));
    assert!(!has_warning(&customize, &[&image[..], &hosts].concat()));
    assert!(!has_warning(&customize, &[&hosts[..], &image].concat()));
    // Step by step.
    assert!(!has_warning(&customize, &hosts));
    assert!(!has_warning(
        &["customize", "node4.iso", "--in-place"],
        &image
    ));
    for (command, output) in [("iso", "own.iso"), ("pxe", "tree")] {
        let build = [
            command,
            "--agent",
            "agent",
            "--kernel-dir",
            "kernel",
            "-o",
            output,
            "--force",
        ];
        assert!(has_warning(&build, &image), "{command}");
        let options = [&image[..], &hosts].concat();
        assert!(!has_warning(&build, &options), "{command}");
    }
}

#[test]
fn a_host_without_hints_is_named_although_another_host_has_hints() {
    let fixture = with_iso();
    let hints = ", rootDeviceHints: {wwn: \"0x5000\"}";
    for (name, byte, hints) in [("node-4", "5a", hints), ("node-5", "5b", "")] {
        let host = format!(
            "apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {{name: {name}}}\n\
             spec: {{bootMACAddress: \"52:54:00:12:34:{byte}\"{hints}}}\n"
        );
        fixture.put(&format!("{name}.yaml"), host.as_bytes());
    }
    let result = fixture.run(&[
        "customize",
        "base.iso",
        "-o",
        "nodes.iso",
        "--karg",
        "coreos.inst.image_url=http://192.0.2.1/a.raw.gz",
        "--karg",
        "coreos.inst.ignition_url=skip",
        "--bare-metal-hosts",
        "node-4.yaml",
        "--bare-metal-hosts",
        "node-5.yaml",
    ]);
    let stderr = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{stderr}");
    let warning = "nothing is installed on hosts without coreos.inst.install_dev or root device hints: node-5 (52:54:00:12:34:5b)";
    assert!(stderr.contains(warning), "{stderr}");
}

#[test]
fn a_ramdisk_and_a_network_tree_get_an_archive() {
    let fixture = with_iso();
    fixture.build("pxe", "tree", &[]);
    let base = bytes(&fixture, "tree/initrd.img");
    let made = [
        "tree/initrd.img",
        "-o",
        "node1.img",
        "--nmstate",
        "node1.yaml",
    ];
    let summary = customize(&fixture, &made);
    assert_eq!(summary["kind"], "ramdisk");
    let result = bytes(&fixture, "node1.img");
    assert!(result.starts_with(&base) && result.len() > base.len());
    let inspection = fixture.inspect("node1.img");
    assert_eq!(inspection["ramdisk"]["hosts"][0]["kind"], "nmstate");
    assert_eq!(inspection["ramdisk"]["faults"], json!([]));
    assert_eq!(inspection["ramdisk"]["complete"], true);

    customize(&fixture, &["tree", "--in-place", "--nmstate", "node1.yaml"]);
    assert!(bytes(&fixture, "tree/initrd.img") == result);
    customize(&fixture, &["tree", "--in-place", "--reset"]);
    assert!(bytes(&fixture, "tree/initrd.img") == base);
    let error = fixture.fails(&["customize", "tree", "--in-place", "--karg", "a"]);
    assert!(
        error.contains("a ramdisk holds no kernel arguments"),
        "{error}"
    );
}

/// `--ca-file` works for an ISO and for a ramdisk. A second `--ca-file` replaces the
/// first one, and a customization without the option keeps it.
#[test]
fn a_host_trusts_its_own_authorities() {
    let fixture = with_iso();
    let authority = fs::read("test_data/site_configuration/authority.pem").unwrap();
    fixture.put("ca.pem", &authority);
    fixture.put("two.pem", &[&authority[..], &authority].concat());
    fixture.build("initramfs", "base.img", &["--ca-bundle", "none"]);
    for (base, output) in [("base.iso", "node1.iso"), ("base.img", "node1.img")] {
        let files = json!(["etc/landfall/00-ca.conf", "etc/landfall/ca.pem"]);
        for (option, certificates) in [("ca.pem", 1), ("two.pem", 2)] {
            let change = ["--ca-file", option, "--force"];
            let summary = customize(&fixture, &[&[base, "-o", output], &change[..]].concat());
            assert_eq!(summary["files"], files, "{output}");
            let authorities = &fixture.inspect(output)["ramdisk"]["authorities"];
            let own = authorities.as_array().unwrap().iter();
            let own = own.filter(|file| file["path"] == "etc/landfall/ca.pem");
            let found: Vec<&Value> = own.map(|file| &file["certificates"]).collect();
            assert_eq!(found, [certificates], "{output}");
        }
        // The extracted file is the one that the last `--ca-file` named.
        let run = fixture.run(&["inspect", "--extract", "own", output]);
        assert!(run.status.success());
        let extracted = bytes(&fixture, "own/files/etc/landfall/ca.pem");
        assert_eq!(extracted, bytes(&fixture, "two.pem"), "{output}");
        fs::remove_dir_all(fixture.path("own")).unwrap();
        // A later customization without the option keeps the authorities.
        let later = [output, "--in-place", "--config-file", "site.conf"];
        assert_eq!(
            customize(&fixture, &later)["files"],
            json!([files[0], files[1], "etc/landfall/site.conf"])
        );
    }
    let none = [
        "customize",
        "base.iso",
        "-o",
        "x.iso",
        "--ca-file",
        "site.conf",
    ];
    let error = fixture.fails(&none);
    assert!(
        error.contains("site.conf: expected certificates in PEM"),
        "{error}"
    );
}

#[test]
fn extracted_files() {
    let fixture = with_iso();
    let nmstate = ["--nmstate", "node1.yaml"];
    customize(
        &fixture,
        &[&["base.iso", "-o", "node1.iso"], &nmstate[..]].concat(),
    );
    let run = fixture.run(&["inspect", "--extract", "content", "node1.iso"]);
    assert!(run.status.success());
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(text.contains("\nextracted:\n  content/"), "{text}");
    let arguments = "console=tty0 console=ttyS0,115200n8 quiet a=1\n";
    assert_eq!(
        bytes(&fixture, "content/kernel-arguments.txt"),
        arguments.as_bytes()
    );
    let kernel = bytes(&fixture, "kernel/boot/vmlinuz-6.1-test");
    assert_eq!(bytes(&fixture, "content/vmlinuz"), kernel);
    let host = bytes(&fixture, "content/files/etc/landfall/hosts/any.json");
    assert!(String::from_utf8(host).unwrap().contains("192.0.2.50"));
    // The extracted file is a whole ramdisk.
    assert_eq!(fixture.inspect("content/initrd.img")["kind"], "ramdisk");
    let list = fixture.list("content");
    let again = fixture.fails(&["inspect", "--extract", "content", "node1.iso"]);
    assert!(again.contains("it exists"), "{again}");
    assert_eq!(fixture.list("content"), list);
}

#[test]
fn faults_leave_everything_as_it_was() {
    let fixture = with_iso();
    let base = bytes(&fixture, "base.iso");
    fixture.put("cut.iso", &base[..base.len() - 1]);
    fixture.put("foreign", b"hello, this is no ramdisk");
    fixture.build("pxe", "tree", &[]);
    let ramdisk = bytes(&fixture, "tree/initrd.img");
    let cut = &ramdisk[..ramdisk.len() / 2];
    fixture.put("tree/initrd.img", cut);
    fixture.put(
        "large.conf",
        format!("[DEFAULT]\na = {}\n", "x".repeat(60_000)).as_bytes(),
    );
    fixture.build("iso", "small.iso", &["--embed-kib", "4"]);
    let small = bytes(&fixture, "small.iso");
    let files = fixture.list(".");
    for (arguments, expected) in [
        (
            &["base.iso", "-o", "x.iso"][..],
            "expected a change, found none",
        ),
        (
            &["base.iso", "-o", "small.iso", "--karg", "a"],
            "cannot write small.iso: it exists; --force replaces it",
        ),
        (
            &["base.iso", "-o", "x.iso", "--karg-delete", "c"],
            "cannot delete kernel argument `c`: it is not among",
        ),
        (
            &["base.iso", "-o", "x.iso", "--karg", "a=\"b\""],
            "cannot be passed through GRUB and iPXE",
        ),
        (
            &["cut.iso", "-o", "x.iso", "--karg", "a"],
            "the ISO is cut off: expected",
        ),
        (&["foreign", "-o", "x", "--reset"], "expected a ramdisk"),
        (
            &["tree/initrd.img", "-o", "x", "--nmstate", "node1.yaml"],
            "cannot customize tree/initrd.img: ramdisk at byte ",
        ),
        (
            &["tree", "--in-place", "--nmstate", "node1.yaml"],
            "it is cut off -- copy or build it again",
        ),
        (&["none.iso", "-o", "x", "--reset"], "cannot open none.iso"),
        (
            &["small.iso", "--in-place", "--config-file", "large.conf"],
            "boot/embed.img: expected at most 4096 bytes for this host",
        ),
        (
            &["base.iso", "-o", "x.iso", "--coreos-image-url", "rhcos.raw"],
            "expected a URL, found a file",
        ),
    ] {
        let error = fixture.fails(&[&["customize"], arguments].concat());
        assert!(error.contains(expected), "{error}, expected {expected}");
    }
    assert_eq!(fixture.list("."), files);
    assert!(bytes(&fixture, "base.iso") == base);
    assert!(bytes(&fixture, "small.iso") == small);
    assert!(bytes(&fixture, "tree/initrd.img") == cut);
}

#[test]
fn a_base_has_one_writer_at_a_time() {
    let fixture = with_iso();
    let base = fs::File::open(fixture.path("base.iso")).unwrap();
    base.lock().unwrap();
    let in_place = ["customize", "base.iso", "--in-place", "--karg", "b"];
    let copy = ["customize", "base.iso", "-o", "x.iso", "--karg", "b"];
    for arguments in [&in_place[..], &copy] {
        let error = fixture.fails(arguments);
        assert!(
            error.contains("base.iso is in use by another landfall-image"),
            "{error}"
        );
    }
    drop(base);
    // Eight runs at once change the same ISO: each succeeds or is refused, and the ISO
    // has the change of each run that succeeded.
    let running: Vec<_> = (0..8)
        .map(|at| {
            let text = format!("node{at}=x");
            let arguments = ["customize", "base.iso", "--in-place", "--karg", &text];
            let mut command = fixture.command(&arguments);
            let silent = std::process::Stdio::null;
            (
                text,
                command.stdout(silent()).stderr(silent()).spawn().unwrap(),
            )
        })
        .collect();
    let done = running
        .into_iter()
        .filter_map(|(text, mut child)| child.wait().unwrap().success().then_some(text));
    let mut done: Vec<String> = done.collect();
    done.sort();
    assert!(!done.is_empty());
    let inspection = fixture.inspect("base.iso");
    let line = inspection["iso"]["kernel_args"].as_str().unwrap();
    let mut found: Vec<&str> = line
        .split(' ')
        .filter(|word| word.starts_with("node"))
        .collect();
    found.sort_unstable();
    assert_eq!(found, done);
    assert!(
        fixture
            .run(&["inspect", "--verify", "base.iso"])
            .status
            .success()
    );
}
