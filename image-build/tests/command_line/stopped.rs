//! Tests runs that end early, because of a signal or a full disk.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, mkfifo};

use crate::fixture::Fixture;
use crate::kargs::{disk, pack, run};

const INPUT: [&str; 4] = ["--agent", "agent", "--kernel-dir", "kernel"];

/// Waits until `is_true` returns true. Fails after 20 seconds.
fn wait_for(what: &str, mut is_true: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_true() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Wraps a command so that it starts with the default signal handlers: if the tests run
/// in the background, the shell has made them ignore SIGINT.
fn with_signals(command: Command) -> Command {
    let mut with = Command::new("env");
    with.arg("--default-signal=INT,TERM,HUP")
        .arg(command.get_program())
        .args(command.get_args())
        .envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
    if let Some(directory) = command.get_current_dir() {
        with.current_dir(directory);
    }
    with
}

fn stop(child: Child, signal: Signal) -> std::process::Output {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    kill(pid, signal).unwrap();
    child.wait_with_output().unwrap()
}

/// The agent is a named pipe, so the run blocks while it reads the agent, and its
/// temporary files exist at that time.
#[test]
fn a_signal_leaves_nothing() {
    for (command, output, signal) in [
        ("initramfs", "initrd.img", Signal::SIGINT),
        ("iso", "a.iso", Signal::SIGTERM),
        ("pxe", "tree", Signal::SIGHUP),
    ] {
        let fixture = Fixture::new();
        let agent = fs::read(fixture.path("agent")).unwrap();
        fs::remove_file(fixture.path("agent")).unwrap();
        mkfifo(&fixture.path("agent"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::create_dir(fixture.path("tmp")).unwrap();
        let before = fixture.list(".");
        let place = if command == "iso" { "tmp" } else { "." };
        let at_first = fixture.list(place);
        let child =
            with_signals(fixture.command(&[&[command][..], &INPUT, &["-o", output]].concat()))
                .env("TMPDIR", fixture.path("tmp"))
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
        // The run reads the agent twice: first for the check, then when it builds
        // the ramdisk.
        fs::write(fixture.path("agent"), &agent).unwrap();
        wait_for("no temporary file is there", || {
            fixture.list(place) != at_first
        });
        let stopped = stop(child, signal);
        assert_eq!(stopped.status.signal(), Some(signal as i32), "{command}");
        let stderr = String::from_utf8(stopped.stderr).unwrap();
        let expected = format!("landfall-image: stopped by {signal}; ");
        assert!(stderr.contains(&expected), "{stderr}");
        assert_eq!(fixture.list("."), before, "{command}");
        assert_eq!(fixture.list("tmp"), [""; 0], "{command}");
    }
}

/// The signal also ends xorriso, which the builder has started.
#[test]
fn a_signal_ends_xorriso() {
    let fixture = Fixture::new();
    let script = b"#!/bin/sh\necho $$ > started\nexec sleep 60\n";
    fixture.put("bin/xorriso", script);
    fs::set_permissions(
        fixture.path("bin/xorriso"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    fs::create_dir(fixture.path("tmp")).unwrap();
    let path = format!(
        "{}:{}",
        fixture.path("bin").display(),
        std::env::var("PATH").unwrap()
    );
    let child = fixture
        .command(&[&["iso"], &INPUT[..], &["-o", "a.iso"]].concat())
        .env("TMPDIR", fixture.path("tmp"))
        .env("PATH", path)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let started = fixture.path("started");
    wait_for("xorriso is not started", || {
        fs::read_to_string(&started).is_ok_and(|pid| pid.ends_with('\n'))
    });
    let pid = fs::read_to_string(&started).unwrap();
    stop(child, Signal::SIGTERM);
    let process = Path::new("/proc").join(pid.trim());
    wait_for("xorriso goes on", || !process.exists());
    assert_eq!(fixture.list("tmp"), [""; 0]);
    assert!(!fixture.path("a.iso").exists());
}

/// Runs the program, then the shell command `after`. The directory `small` is a tmpfs of
/// `kib` KiB with a copy of the directory `seed`.
fn run_with_small_disk(fixture: &Fixture, kib: u32, arguments: &[&str], after: &str) -> String {
    fs::create_dir_all(fixture.path("small")).unwrap();
    let script = format!(
        "mount -t tmpfs -o size={kib}k tmpfs small && cp -r --sparse=never seed/. small/ && {{ \"$@\"; {after}; }} 2>&1"
    );
    fs::create_dir_all(fixture.path("seed")).unwrap();
    let output = Command::new("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            &script,
            "sh",
        ])
        .arg(env!("CARGO_BIN_EXE_landfall-image"))
        .args(arguments)
        .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .current_dir(fixture.path("."))
        .output()
        .unwrap();
    std::io::stderr().write_all(&output.stderr).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_full_disk_leaves_a_network_tree_as_it_was() {
    let fixture = Fixture::new();
    let kernel = fs::read(fixture.path("kernel/boot/vmlinuz-6.1-test")).unwrap();
    let mut large = kernel.clone();
    large.resize(1 << 20, 0);
    fixture.put("kernel/boot/vmlinuz-6.1-test", &large);
    fixture.put("seed/vmlinuz", b"old kernel");
    fixture.put("seed/boot.ipxe", b"old menu");
    let arguments = [&["pxe"], &INPUT[..], &["-o", "small", "--force"]].concat();
    for kib in [64, 900, 1100, 2000] {
        let output =
            run_with_small_disk(&fixture, kib, &arguments, "find small -type f | xargs head");
        assert!(output.contains("FAILED "), "{kib}: {output}");
        let rest = &output[output.find("==> ").unwrap()..];
        let files: Vec<&str> = rest.lines().filter(|line| !line.is_empty()).collect();
        let mut expected = vec![
            "==> small/boot.ipxe <==",
            "old menu",
            "==> small/vmlinuz <==",
            "old kernel",
        ];
        let mut found = files.clone();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "{kib}: {output}");
    }
}

/// The cache directory is on a tmpfs of 4 KiB, one page. It has room for only one of the
/// two compressed archives that the builder stores.
#[test]
fn a_full_cache_is_no_fault() {
    let fixture = Fixture::new();
    let cache = ["-o", "a.img", "--cache-dir", "small/cache"];
    let arguments = [&["initramfs"], &INPUT[..], &cache].concat();
    let after = "ls -A small/cache; test -s a.img && echo built";
    let output = run_with_small_disk(&fixture, 4, &arguments, after);
    let lines: Vec<&str> = output.lines().collect();
    let [.., before, entry, "built"] = lines.as_slice() else {
        panic!("{output}");
    };
    assert!(entry.ends_with(".segment"), "{output}");
    assert!(
        !before.starts_with(".new-") && !before.ends_with(".segment"),
        "{output}"
    );
}

#[test]
fn a_full_disk_leaves_no_iso() {
    let fixture = Fixture::new();
    for kib in [8, 1000, 4000] {
        let arguments = [&["iso"], &INPUT[..], &["-o", "small/a.iso"]].concat();
        let output = run_with_small_disk(&fixture, kib, &arguments, "ls -A small");
        let last = output.lines().last().unwrap();
        assert!(
            last.starts_with("landfall-image: FAILED "),
            "{kib}: {output}"
        );
    }
}

/// Runs the program with only `file` in a tmpfs of `kib` KiB, which must be too small for
/// the result. The file must stay unchanged, and no other file may remain next to it.
fn fails_on_full_disk(fixture: &Fixture, file: &str, kib: u32, arguments: &[&str]) {
    let _ = fs::remove_dir_all(fixture.path("seed"));
    fs::create_dir(fixture.path("seed")).unwrap();
    let seed = format!("seed/{file}");
    fs::hard_link(fixture.path(file), fixture.path(&seed)).unwrap();
    let after = format!("ls -A small; cmp small/{file} {seed} && echo unchanged");
    let output = run_with_small_disk(fixture, kib, arguments, &after);
    let lines: Vec<&str> = output.lines().collect();
    let [.., failed, found, unchanged] = lines.as_slice() else {
        panic!("{arguments:?}, {kib}: {output}");
    };
    assert!(
        failed.starts_with("landfall-image: FAILED ") && failed.contains("No space left on device"),
        "{arguments:?}, {kib}: {output}"
    );
    assert_eq!((*found, *unchanged), (file, "unchanged"), "{output}");
}

/// Bytes that no program can compress.
fn random_bytes(len: usize) -> Vec<u8> {
    let mut state = 1u64;
    let byte = |_| {
        // The generator of Knuth's MMIX; its highest bits are random enough.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..len).map(byte).collect()
}

#[test]
fn a_full_disk_leaves_a_disk_image_as_it_was() {
    let fixture = Fixture::new();
    disk(&fixture, &["-b", "1024"]);
    // The content of the last partition, which begins at 34 MiB.
    let raw = File::options().write(true).open(fixture.path("disk.raw"));
    raw.unwrap()
        .write_all_at(&random_bytes(3 << 20), 34 << 20)
        .unwrap();
    pack(&fixture, "gzip", "disk.raw", "disk.raw.gz");
    for (file, kib) in [
        // The image occupies 39 MiB and its copy some 4 MiB, because zeros become holes
        // in the copy.
        ("disk.raw", (39 << 10) + 500),
        ("disk.raw", (39 << 10) + 2000),
        // The packed image has 3 MiB, and so has the result. With 5000 KiB the unpacked
        // copy does not fit, with 9000 KiB the result does not fit next to the copy.
        ("disk.raw.gz", 5000),
        ("disk.raw.gz", 9000),
    ] {
        let input = format!("small/{file}");
        for result in [&["-o", "small/out"][..], &["--in-place"]] {
            let arguments = [&["kargs", &input, "--append", "nosmt"], result].concat();
            fails_on_full_disk(&fixture, file, kib, &arguments);
        }
    }
}

#[test]
fn a_full_disk_leaves_no_customized_iso() {
    let fixture = Fixture::new();
    fixture.build("iso", "base.iso", &[]);
    let kib = fs::metadata(fixture.path("base.iso")).unwrap().len() >> 10;
    let kib = u32::try_from(kib).unwrap();
    for room in [8, kib / 2] {
        let arguments = ["customize", "small/base.iso", "-o", "small/a.iso"];
        let arguments = [&arguments[..], &["--karg", "b=2"]].concat();
        fails_on_full_disk(&fixture, "base.iso", kib + room, &arguments);
    }
}

/// The image is 64 GiB large, so that a run takes many seconds. All of it is a hole
/// except for its start.
#[test]
fn a_signal_leaves_a_disk_image_as_it_was() {
    let fixture = Fixture::new();
    let original = disk(&fixture, &["-b", "1024"]);
    let path = fixture.path("disk.raw");
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(64 << 30).unwrap();
    // Move the backup GPT to the new end of the disk.
    run("sgdisk", &["-e", path.to_str().unwrap()]);
    let start = || {
        let mut start = vec![0; original.len()];
        File::open(&path).unwrap().read_exact(&mut start).unwrap();
        start
    };
    let identity = || {
        let metadata = fs::metadata(&path).unwrap();
        (metadata.ino(), metadata.len(), metadata.modified().unwrap())
    };
    let (bytes, before) = (start(), identity());
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        for result in [&["-o", "out"][..], &["--in-place"]] {
            let names = fixture.list(".");
            let arguments = [&["kargs", "disk.raw", "--append", "nosmt"], result].concat();
            let child = with_signals(fixture.command(&arguments))
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            wait_for("no temporary file is there", || fixture.list(".") != names);
            let stopped = stop(child, signal);
            assert_eq!(stopped.status.signal(), Some(signal as i32), "{result:?}");
            assert_eq!(identity(), before, "{signal} {result:?}");
            assert!(start() == bytes, "{signal} {result:?}");
            let mut left = fixture.list(".");
            left.retain(|name| !names.contains(name));
            // Nothing can remove the temporary file after SIGKILL.
            let is_right = match signal {
                Signal::SIGKILL => left.iter().all(|name| name.starts_with('.')),
                _ => left.is_empty(),
            };
            assert!(is_right, "{signal} {result:?}: {left:?}");
        }
    }
}

/// prlimit limits the size of files. The limit ends the program in the middle of its
/// output with SIGXFSZ, which the program does not handle. So nothing is cleaned up, as
/// with SIGKILL.
#[test]
fn a_signal_leaves_no_customized_iso() {
    let fixture = Fixture::new();
    fixture.build("iso", "base.iso", &[]);
    let base = fs::read(fixture.path("base.iso")).unwrap();
    let names = fixture.list(".");
    let arguments = ["customize", "base.iso", "-o", "a.iso", "--karg", "b=2"];
    let stopped = Command::new("prlimit")
        .args(["--core=0", "--fsize=1000000"])
        .arg(env!("CARGO_BIN_EXE_landfall-image"))
        .args(arguments)
        .current_dir(fixture.path("."))
        .output()
        .unwrap();
    let signal = stopped.status.signal();
    assert_eq!(signal, Some(Signal::SIGXFSZ as i32), "{stopped:?}");
    assert!(fs::read(fixture.path("base.iso")).unwrap() == base);
    let mut left = fixture.list(".");
    left.retain(|name| !names.contains(name));
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].starts_with(".a.iso."), "{left:?}");
}
