//! Runs the real program from the command line and checks pipes, exit codes and
//! output.

#![expect(
    clippy::unwrap_used,
    reason = "what a test finds wrong ends it, outside of test functions as well"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn agent(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_landfall-agent"));
    command.args(arguments);
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Sub-commands that print something and change nothing.
const PRINTING: [&[&str]; 7] = [
    &["show-params", "--cmdline", "ipa-debug=1"],
    &["show-params", "--cmdline", "ipa-debug=1", "--json"],
    &["plan-network", "--cmdline", "ip=dhcp"],
    &["plan-network", "--cmdline", "ip=dhcp", "--json"],
    &["plan-network", "--cmdline", "ip=dhcp", "--arguments"],
    &["inventory"],
    &["inventory", "--json"],
];

#[test]
fn settings_of_a_config_name_their_source() {
    let config = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/ignition-config/test_data/image_customization_controller.ign"
    );
    let output = Command::new(env!("CARGO_BIN_EXE_landfall-agent"))
        .args(["show-params", "--cmdline", "ipa-insecure=0", "--config-ign"])
        .arg(config)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    for (key, source) in [
        ("ipa-insecure", "/etc/ironic-python-agent.conf"),
        ("ipa-ntp-server", "/etc/chrony.conf"),
        ("HTTP_PROXY", "ironic-agent.service"),
    ] {
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{key} ")));
        let end = format!("({source} in {config})");
        assert!(line.unwrap().ends_with(&end), "{line:?}");
    }
    let line = "config.ign: not applied: user core: the ramdisk has no accounts\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_reader_that_goes_away_is_not_an_error() {
    for arguments in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = agent(arguments).stdout(writer).output().unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}, {}",
            output.status,
            stderr(&output)
        );
    }
}

#[test]
fn a_full_disk_is_an_error() {
    for arguments in PRINTING {
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        let output = agent(arguments).stdout(full.unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let expected = "cannot write to standard output: No space left on device";
        let last = stderr(&output);
        assert!(last.contains(expected), "{arguments:?}: {last}");
    }
}

#[test]
fn the_exit_code_says_whether_hints_choose_a_disk() {
    let directory = tempfile::tempdir().unwrap();
    let devices = directory.path().join("disks.json");
    fs::write(
        &devices,
        r#"[{"name": "/dev/sda", "size": 10737418240, "serial": "A"},
            {"name": "/dev/sdb", "size": 8589934592, "serial": "A"}]"#,
    )
    .unwrap();
    let ask = |hints: &str, more: &[&str]| root_device(&devices, hints, more);
    for (hints, more, code, stdout, expected) in [
        (r#"{"serial": "A"}"#, &[][..], 0, "/dev/sda\n", ""),
        (
            r#"{"serial": "A"}"#,
            &["--all"],
            0,
            "/dev/sda\n/dev/sdb\n",
            "",
        ),
        ("{}", &[], 0, "/dev/sdb\n", ""),
        (
            r#"{"serial": "A"}"#,
            &["--json"],
            0,
            "{\"device\":\"/dev/sda\"}\n",
            "",
        ),
        (r#"{"serial": "B"}"#, &[], 1, "", "no disk matches: "),
        (
            r#"{"serial": "B"}"#,
            &["--json"],
            1,
            "{\"device\":null}\n",
            "no disk matches: ",
        ),
        (
            r#"{"serial": "B"}"#,
            &["--json", "--all"],
            1,
            "{\"devices\":[]}\n",
            "no disk matches: ",
        ),
        (
            r#"{"colour": "red"}"#,
            &[],
            1,
            "",
            "the hints cannot be used: ",
        ),
        ("{", &[], 1, "", "cannot read the hints: "),
    ] {
        let output = ask(hints, more);
        assert_eq!(output.status.code(), Some(code), "{hints} {more:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), stdout, "{hints}");
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
    let invalid = ask(r#"{"colour": "red"}"#, &["--json"]);
    assert_eq!(invalid.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&invalid.stdout).starts_with("{\"error\":"));
}

fn root_device(devices: &Path, hints: &str, more: &[&str]) -> Output {
    agent(&["root-device", "--hints", hints, "--devices"])
        .arg(devices)
        .args(more)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn an_address_of_a_service_without_a_scheme_is_refused() {
    for (place, expected) in [
        (
            "192.0.2.1:6385",
            "expected mdns or an http:// or https:// URL; did you mean http://192.0.2.1:6385?",
        ),
        (
            "ftp://192.0.2.1",
            "expected mdns or an http:// or https:// URL\n",
        ),
    ] {
        let output = agent(&["discover", "--timeout", "1", place])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{place}");
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}

#[test]
fn no_command_recommends_an_option_that_it_does_not_have() {
    let option = "--allow-this-machine";
    let disk = "/dev/null";
    for (arguments, has_option) in [
        (&["run"][..], false),
        (&["write-image", "http://127.0.0.1:1/i", disk], true),
        (&["install", "-u", "http://127.0.0.1:1/i", disk], true),
    ] {
        let output = agent(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let message = stderr(&output);
        assert!(
            message.contains("this machine does not run the landfall ramdisk"),
            "{message}"
        );
        assert_eq!(message.contains(option), has_option, "{message}");
    }
}

/// Creates a captured machine under `root`. Each line of `tree` is one entry:
/// `path = content`, `path -> target` or `directory/`.
fn plant(tree: &str, root: &Path) {
    for line in tree.lines() {
        let make_parent = |path: &Path| fs::create_dir_all(path.parent().unwrap()).unwrap();
        if let Some((path, target)) = line.split_once(" -> ") {
            let path = root.join(path);
            make_parent(&path);
            std::os::unix::fs::symlink(target, path).unwrap();
        } else if let Some((path, content)) = line.split_once(" = ") {
            let path = root.join(path);
            make_parent(&path);
            fs::write(path, content.replace("\\n", "\n")).unwrap();
        } else {
            fs::create_dir_all(root.join(line)).unwrap();
        }
    }
}

#[test]
fn all_commands_use_the_same_names_for_nics() {
    let tree = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/devices/test_data/interface_names/sys_trees/03-q35-pciehp.tree"
    );
    let directory = tempfile::tempdir().unwrap();
    plant(&fs::read_to_string(tree).unwrap(), directory.path());
    let root = directory.path().display().to_string();
    let inventory = agent(&["inventory", "--root", &root]).output().unwrap();
    let inventory = String::from_utf8(inventory.stdout).unwrap();
    let nics: Vec<&str> = inventory
        .lines()
        .filter_map(|line| line.strip_prefix("nic  ")?.split(' ').next())
        .collect();
    assert_eq!(nics.len(), 4, "{inventory}");
    for name in nics {
        assert!(!name.starts_with("eth"), "{name}");
        let cmdline = format!("ip=192.0.2.10::192.0.2.1:24::{name}:none");
        let sysfs = directory.path().join("sys").display().to_string();
        let plan = agent(&["plan-network", "--cmdline", &cmdline, "--sysfs", &sysfs]);
        let plan = { plan }.output().unwrap();
        assert!(plan.status.success());
        assert_eq!(stderr(&plan), "", "{name}");
    }
}

/// Runs the examples in the output of `--help`. `documentation.rs` runs those of the
/// pages.
#[test]
fn the_examples_of_the_help_run_as_they_are_written() {
    let help = agent(&["--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let lines = help.lines().map(str::trim);
    let commands = lines.filter_map(|line| line.strip_prefix("landfall-agent "));
    let mut count = 0;
    // The service that the `discover` example names does not exist here.
    for command in commands.filter(|command| !command.starts_with("discover")) {
        let line = format!("{} {command}", env!("CARGO_BIN_EXE_landfall-agent"));
        let output = Command::new("sh").args(["-c", &line]).output().unwrap();
        assert!(output.status.success(), "{command}: {}", stderr(&output));
        count += 1;
    }
    assert!(count >= 3, "found {count} commands");
}
