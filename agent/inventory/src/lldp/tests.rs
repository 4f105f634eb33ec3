//! Listens to a real peer: lldpd at the other end of a cable.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::Instant;

use landfall_sys::skip::skip;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::Uid;
use tempfile::TempDir;

use super::*;

/// The element types system name and chassis ID (IEEE 802.1AB 8.5).
const NAME: u8 = 5;
const CHASSIS: u8 = 1;

/// lldpd in its own network namespace, on the interface `far`.
struct Switch {
    lldpd: Child,
    _sockets: TempDir,
}

impl Switch {
    fn start(far: &str) -> Switch {
        let sockets = tempfile::tempdir().unwrap();
        let configuration = sockets.path().join("lldpd.conf");
        fs::write(&configuration, "configure lldp tx-interval 1\n").unwrap();
        let script = format!(
            "until ip link set {far} up 2> /dev/null; do sleep 0.1; done; \
             exec lldpd -d -I {far} -S landfall-test-switch -u {0}/lldpd.socket \
             -O {0}/lldpd.conf",
            sockets.path().display()
        );
        let lldpd = Command::new("unshare")
            .args(["--net", "sh", "-c", &script])
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // A process exists for a moment before its namespace does.
        let ours = fs::read_link("/proc/thread-self/ns/net").unwrap();
        let theirs = PathBuf::from(format!("/proc/{}/ns/net", lldpd.id()));
        while fs::read_link(&theirs).is_ok_and(|namespace| namespace == ours) {
            thread::sleep(Duration::from_millis(10));
        }
        ip(&format!("link set {far} netns {}", lldpd.id()));
        Switch {
            lldpd,
            _sockets: sockets,
        }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.lldpd.kill();
        let _ = self.lldpd.wait();
    }
}

fn ip(arguments: &str) {
    let words = arguments.split(' ');
    assert!(Command::new("ip").args(words).status().unwrap().success());
}

/// Runs a test in its own network namespace. The test gets a root whose /sys shows
/// that namespace.
fn in_a_namespace(test: impl AsyncFnOnce(&SystemPath) + Send) {
    if !Uid::effective().is_root() {
        return skip("namespaces need root");
    }
    thread::scope(|scope| {
        scope
            .spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).unwrap();
                let private = MsFlags::MS_PRIVATE | MsFlags::MS_REC;
                mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
                let root = tempfile::tempdir().unwrap();
                let sys = root.path().join("sys");
                fs::create_dir(&sys).unwrap();
                mount(
                    None::<&str>,
                    &sys,
                    Some("sysfs"),
                    MsFlags::empty(),
                    None::<&str>,
                )
                .unwrap();
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap()
                    .block_on(test(&SystemPath::captured(root.path()).unwrap()));
                nix::mount::umount(&sys).unwrap();
            })
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn a_neighbour_is_found_without_waiting_for_nics_without_a_cable() {
    if Command::new("lldpd").arg("-v").output().is_err() {
        return skip("there is no lldpd here");
    }
    in_a_namespace(async |root| {
        ip("link add near type veth peer name far");
        ip("link add unplugged type veth peer name other");
        ip("link set near up");
        ip("link set unplugged up");
        let _switch = Switch::start("far");
        let limit = Duration::from_secs(60);
        let begin = Instant::now();
        while !sysfs::flag(&root.join("sys/class/net/near/carrier")) {
            assert!(begin.elapsed() < limit, "the cable is not plugged in");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let neighbours = listen(root, limit).await;
        assert!(begin.elapsed() < limit, "it went on without need");
        assert_eq!(neighbours["unplugged"], []);
        assert!(!neighbours.contains_key("lo"));
        let near = &neighbours["near"];
        assert!(near.iter().any(|(kind, _)| *kind == CHASSIS), "{near:?}");
        let names: Vec<_> = near.iter().filter(|(kind, _)| *kind == NAME).collect();
        assert_eq!(names.len(), 1, "{near:?}");
    });
}

#[test]
fn a_switch_is_named_after_its_first_frame() {
    if Command::new("lldpd").arg("-v").output().is_err() {
        return skip("there is no lldpd here");
    }
    in_a_namespace(async |root| {
        let (sender, mut switches) = watch::channel(Switches::new());
        let follow = follow(root, sender);
        let announcement = async {
            // The NIC appears after the agent has begun to listen.
            tokio::time::sleep(Duration::from_millis(200)).await;
            ip("link add near type veth peer name far");
            ip("link set near up");
            let _switch = Switch::start("far");
            let is_known = |switches: &Switches| switches.contains_key("near");
            let known = switches.wait_for(is_known).await.unwrap();
            known["near"].clone()
        };
        let limit = Duration::from_secs(60);
        let switch = tokio::select! {
            () = follow => panic!("it does not listen"),
            switch = tokio::time::timeout(limit, announcement) => switch.unwrap(),
        };
        assert!(switch.contains(" port "), "{switch}");
    });
}

/// A frame of the switch `old` with this time to live.
fn frame(seconds: u8) -> Vec<u8> {
    let mut frame = vec![0x02, 0x04, 7, b'o', b'l', b'd'];
    frame.extend([0x04, 0x03, 5, b'e', b'1']);
    frame.extend([0x06, 0x02, 0, seconds, 0, 0]);
    frame
}

/// Sends a frame from this interface to the nearest bridge.
fn send(interface: &str, payload: &[u8]) {
    let fields: Vec<String> = payload
        .iter()
        .map(|byte| format!("\\x{byte:02x}"))
        .collect();
    let script = format!(
        "import socket\n\
         s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n\
         s.bind(('{interface}', 0))\n\
         s.send(b'\\x01\\x80\\xc2\\x00\\x00\\x0e' + bytes(6) + b'\\x88\\xcc' + b'{}')\n",
        fields.concat()
    );
    let sent = Command::new("python3").args(["-c", &script]).status();
    assert!(sent.unwrap().success());
}

#[test]
fn a_switch_is_forgotten_after_its_time_to_live_and_with_the_carrier() {
    in_a_namespace(async |root| {
        ip("link add near type veth peer name far");
        ip("link set near up");
        ip("link set far up");
        let (sender, mut switches) = watch::channel(Switches::new());
        let follow = follow(root, sender);
        let moved = async {
            // The first entry ends with its time to live, the second with the carrier.
            for (seconds, cable) in [(1, ""), (120, "link set far down")] {
                while switches.borrow_and_update().get("near").is_none() {
                    send("far", &frame(seconds));
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                assert_eq!(switches.borrow()["near"], "old port e1");
                if !cable.is_empty() {
                    ip(cable);
                }
                let is_gone = |switches: &Switches| switches.is_empty();
                switches.wait_for(is_gone).await.unwrap();
            }
        };
        let limit = Duration::from_secs(30);
        tokio::select! {
            () = follow => panic!("it does not listen"),
            moved = tokio::time::timeout(limit, moved) => moved.unwrap(),
        }
    });
}

#[test]
fn only_a_kernel_without_packet_sockets_ends_the_listening() {
    for (error, is_final) in [
        (Errno::EAFNOSUPPORT, true),
        (Errno::EMFILE, false),
        (Errno::ENOBUFS, false),
    ] {
        assert_eq!(has_no_packet_sockets(&error.into()), is_final, "{error}");
    }
}

#[test]
fn silence_ends() {
    in_a_namespace(async |root| {
        ip("link add near type veth peer name far");
        ip("link set near up");
        ip("link set far up");
        let begin = Instant::now();
        let neighbours = listen(root, Duration::from_millis(300)).await;
        assert!(begin.elapsed() >= Duration::from_millis(300));
        assert_eq!(
            neighbours,
            Neighbours::from([("far".into(), vec![]), ("near".into(), vec![])])
        );
    });
}
