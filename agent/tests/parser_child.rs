//! Tests the real program as a parser of untrusted bytes: what it may do, and that it
//! returns the same result as the same parser in this process.

#![allow(clippy::unwrap_used, reason = "for tests")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use landfall_inventory::lldp::LldpParser;
use landfall_parser_child::{Parser, Program, Session};
use landfall_settings::ConfigParser;
use landfall_settings::media::{ConfinedMedium, MediumParser};
use nix::unistd::geteuid;

fn in_child<P: Parser>(input: File) -> Session<P> {
    let program = Program::at(env!("CARGO_BIN_EXE_landfall-agent"));
    Session::start_in(&program, input).unwrap()
}

/// This test program does not call `offer_this_program`, so `Session::start` runs the
/// parser in this process.
fn here<P: Parser>(input: File) -> Session<P> {
    let session = Session::start(input).unwrap();
    assert_eq!(session.process(), None);
    session
}

fn nothing() -> File {
    File::open("/dev/null").unwrap()
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// An ISO as Ironic makes it, and a floppy with one file.
fn media(folder: &Path) -> [PathBuf; 2] {
    let tree = folder.join("tree");
    for (name, content) in [
        ("openstack/latest/network_data.json", vec![b'n'; 5000]),
        (
            "etc/ironic-python-agent.d/Long Name.conf",
            vec![b'c'; 1 << 20],
        ),
        ("etc/ironic-python-agent.d/b.conf", Vec::new()),
    ] {
        let path = tree.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let (iso, floppy) = (folder.join("iso"), folder.join("floppy"));
    run(Command::new("genisoimage")
        .args([
            "-quiet",
            "-r",
            "-J",
            "-V",
            "config-2",
            "-publisher",
            "p",
            "-o",
        ])
        .args([&iso, &tree]));
    run(Command::new("/usr/sbin/mkfs.vfat")
        .args(["-n", "ir-vfd-dev", "-C"])
        .arg(&floppy)
        .arg("1440"));
    let parameters = tree.join("openstack/latest/network_data.json");
    run(Command::new("mcopy")
        .arg("-i")
        .args([&floppy, &parameters])
        .arg("::parameters.txt"));
    [iso, floppy]
}

/// Everything that the agent can read from a medium, as text.
fn content(session: Session<MediumParser>) -> String {
    let mut medium = match ConfinedMedium::of(session) {
        Ok(Some(medium)) => medium,
        other => return format!("{other:?}"),
    };
    let mut found = vec![format!("{:?}", medium.facts)];
    for directory in ["", "etc/ironic-python-agent.d", "openstack/latest", "none"] {
        found.push(format!("{:?}", medium.files(directory)));
    }
    for (path, limit) in [
        ("parameters.txt", 64 << 10),
        ("openstack/latest/network_data.json", 1 << 20),
        ("openstack/latest/network_data.json", 4999),
        ("etc/ironic-python-agent.d/Long Name.conf", 1 << 20),
        ("etc/ironic-python-agent.d/b.conf", 1 << 20),
        ("none", 1 << 20),
    ] {
        found.push(format!("{path}: {:?}", medium.read(path, limit)));
    }
    found.join("\n")
}

#[test]
fn media_in_a_child_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let [iso, floppy] = media(folder.path());
    let found = content(in_child(File::open(&iso).unwrap()));
    assert!(
        found.contains("Long Name.conf") && found.contains("config-2"),
        "{found:.300}"
    );
    let mut images = vec![iso.clone(), floppy, folder.path().join("tree/none")];
    let seeds = fs::read_dir(repository("tests/fuzz/seeds/medium")).unwrap();
    images.extend(seeds.map(|seed| seed.unwrap().path()));
    // Add a medium without a file system, and media that are cut off in their directories
    // or before them.
    fs::write(images[2].as_path(), "no file system").unwrap();
    let bytes = fs::read(&iso).unwrap();
    for length in [33_000, 40_000, 60_000] {
        let cut = folder.path().join(length.to_string());
        fs::write(&cut, &bytes[..length]).unwrap();
        images.push(cut);
    }
    for image in images {
        let there = content(in_child(File::open(&image).unwrap()));
        let here = content(here(File::open(&image).unwrap()));
        assert_eq!(there, here, "{}", image.display());
    }
}

#[test]
fn a_config_in_a_child_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("large");
    let source = format!("data:;base64,{}", "YWFh".repeat(300_000));
    let file =
        |at| format!(r#"{{"path": "/etc/landfall/{at}", "contents": {{"source": "{source}"}}}}"#);
    let files: Vec<String> = (0..6).map(file).collect();
    let files = files.join(", ");
    let config =
        format!(r#"{{"ignition": {{"version": "3.4.0"}}, "storage": {{"files": [{files}]}}}}"#);
    fs::write(&large, config).unwrap();
    let none = folder.path().join("none");
    fs::write(&none, "{").unwrap();
    let data = repository("agent/ignition-config/test_data");
    let known =
        ["image_customization_controller.ign", "iso_customize.ign"].map(|name| data.join(name));
    let mut applied = 0;
    for path in known.into_iter().chain([large, none, "/dev/zero".into()]) {
        let there = in_child::<ConfigParser>(File::open(&path).unwrap())
            .ask(())
            .unwrap();
        let here = here::<ConfigParser>(File::open(&path).unwrap())
            .ask(())
            .unwrap();
        assert_eq!(there, here, "{}", path.display());
        applied += there.map_or(0, |config| config.applied.len());
    }
    assert!(applied > 10, "{applied}");
}

#[test]
fn frames_in_a_child_are_the_same() {
    let mut there = in_child::<LldpParser>(nothing());
    let mut here = here::<LldpParser>(nothing());
    let mut frames = vec![
        vec![],
        vec![0x02, 0x03, 4, 5, 6, 0, 0],
        vec![0xff; 1600],
        vec![0; 1600],
    ];
    // The seeds include frames of a real lldpd and of switches.
    let seeds = fs::read_dir(repository("tests/fuzz/seeds/lldp")).unwrap();
    frames.extend(seeds.map(|seed| fs::read(seed.unwrap().path()).unwrap()));
    let mut named = Vec::new();
    for frame in frames {
        let answer = there.ask(frame.clone()).unwrap();
        assert_eq!(answer, here.ask(frame).unwrap());
        named.extend(answer.switch);
    }
    for expected in ["vm port swp7", "switch3.example.org port Ethernet1/7"] {
        assert!(named.iter().any(|switch| switch == expected), "{named:?}");
    }
}

/// A child cannot start if the machine has too little memory or no free file descriptor.
#[test]
fn a_frame_is_dropped_if_its_child_cannot_start() {
    let program = Program::at("/nonexistent/landfall-agent");
    let fault = Session::<LldpParser>::start_by(&program, nothing()).unwrap_err();
    assert!(
        fault.to_string().starts_with("cannot start its parser"),
        "{fault}"
    );
    // The agent cannot do without its settings, so these parsers run in this process
    // instead.
    let medium = Session::<MediumParser>::start_by(&program, nothing()).unwrap();
    let config = Session::<ConfigParser>::start_by(&program, nothing()).unwrap();
    assert_eq!((medium.process(), config.process()), (None, None));
}

/// The lines of /proc/PID/NAME, by the text before their colon.
fn process_file(process: u32, name: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(format!("/proc/{process}/{name}")).unwrap();
    { text.lines() }
        .filter_map(|line| line.split_once(':'))
        .map(|(key, value)| {
            (
                key.to_owned(),
                value.split_whitespace().collect::<Vec<_>>().join(" "),
            )
        })
        .collect()
}

#[test]
fn the_child_has_no_privileges() {
    let mut session = in_child::<LldpParser>(nothing());
    session.ask(vec![0, 0]).unwrap();
    let process = session.process().unwrap();
    let status = process_file(process, "status");
    for (key, value) in [
        ("CapInh", "0000000000000000"),
        ("CapPrm", "0000000000000000"),
        ("CapEff", "0000000000000000"),
        ("CapAmb", "0000000000000000"),
        ("NoNewPrivs", "1"),
        // SECCOMP_MODE_FILTER
        ("Seccomp", "2"),
        ("Threads", "1"),
    ] {
        assert_eq!(status[key], value, "{key}");
    }
    if geteuid().is_root() {
        for (key, value) in [
            ("Uid", "65534 65534 65534 65534"),
            ("Gid", "65534 65534 65534 65534"),
            ("Groups", ""),
            ("CapBnd", "0000000000000000"),
        ] {
            assert_eq!(status[key], value, "{key}");
        }
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap();
        assert!(environment.is_empty());
        let files = fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
        // The open files are the three standard ones and the parser's copy of the
        // output. This parser drops its input.
        assert_eq!(files, 4);
    }
    drop(session);
    assert!(!Path::new("/proc").join(process.to_string()).exists());
}

#[test]
fn a_child_ends_with_the_agent() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_landfall-agent"))
        .args(["parse-foreign-bytes", LldpParser::NAME])
        .stdin(nothing())
        .stdout(nothing())
        .spawn()
        .unwrap();
    // The child reads /dev/null instead of the agent's questions. The end of the input
    // means that the agent has ended.
    let until = Instant::now() + Duration::from_secs(10);
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(5));
    }
    let unknown = Command::new(env!("CARGO_BIN_EXE_landfall-agent"))
        .args(["parse-foreign-bytes", "unknown"])
        .output()
        .unwrap();
    assert!(!unknown.status.success() && unknown.stdout.is_empty());
}

#[test]
fn a_child_starts_quickly() {
    let times = (0..20).map(|_| {
        let started = Instant::now();
        in_child::<LldpParser>(nothing()).ask(vec![0, 0]).unwrap();
        started.elapsed()
    });
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    // Shown with --nocapture, for docs/security-model.md.
    let _ = writeln!(
        std::io::stderr(),
        "start, answer and end: median {:?}",
        times[10]
    );
    assert!(times[10] < Duration::from_millis(250), "{times:?}");
}
