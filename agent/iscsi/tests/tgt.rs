//! The login against tgt, a target in user space.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use landfall_boot_params::argument_value::Secret;
use landfall_iscsi::Chap;
use landfall_iscsi::connect::{ConnectFault, Connected, connect_and_log_in};
use landfall_iscsi::login::{Cause, LoginFault, Wish};
use landfall_sys::skip::skip;

const TARGET: &str = "iqn.2003-01.org.example:disk";
const SECRET: &str = "plantedsecret1";
const REVERSE: &str = "plantedsecret2";

/// A running tgtd, which is killed when this value is dropped.
struct Tgt {
    process: Child,
    control: String,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Drop for Tgt {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        for suffix in ["", ".lock"] {
            let _ = fs::remove_file(format!("/var/run/tgtd/socket.{}{suffix}", self.control));
        }
    }
}

impl Tgt {
    /// Starts a target with one disk, and passes the further `orders` to tgtadm. `None`
    /// if this machine cannot run the target.
    fn start(orders: &[&str]) -> Option<Self> {
        if !Path::new("/usr/sbin/tgtd").exists() {
            skip("tgt is not installed");
            return None;
        }
        if !nix::unistd::Uid::effective().is_root() {
            skip("tgtd needs root");
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let directory = tempfile::tempdir().unwrap();
        let disk = directory.path().join("disk");
        File::create(&disk).unwrap().set_len(1 << 20).unwrap();
        // The number of tgtd's control socket. It has 15 bits, and the port has 16.
        let control = (port / 2).to_string();
        let process = Command::new("/usr/sbin/tgtd")
            .args(["--foreground", "--control-port", &control, "--iscsi"])
            .arg(format!("portal=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(File::create(directory.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let tgt = Self {
            process,
            control,
            port,
            _directory: directory,
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while !tgt.order("--op show --mode target") {
            assert!(Instant::now() < deadline, "tgtd does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        for order in [
            &format!("--op new --mode target --tid 1 --targetname {TARGET}"),
            &format!(
                "--op new --mode logicalunit --tid 1 --lun 1 --backing-store {}",
                disk.display()
            ),
            "--op bind --mode target --tid 1 --initiator-address ALL",
        ]
        .iter()
        .chain(orders)
        {
            assert!(tgt.order(order), "{order}");
        }
        Some(tgt)
    }

    fn order(&self, order: &str) -> bool {
        Command::new("/usr/sbin/tgtadm")
            .args(["--control-port", &self.control, "--lld", "iscsi"])
            .args(order.split(' '))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .success()
    }

    fn log_in(&self, target: &str, chap: Option<Chap>) -> Result<Connected, ConnectFault> {
        let wish = Wish {
            initiator: "iqn.2010-04.org.example:host".to_owned(),
            target: target.to_owned(),
            isid: [0x80, 1, 2, 3, 0, 0],
            chap,
        };
        connect_and_log_in(([127, 0, 0, 1], self.port).into(), Some("lo"), &wish)
    }
}

fn chap(secret: &str, reverse: Option<&str>) -> Chap {
    Chap {
        name: "host".to_owned(),
        secret: Secret(secret.to_owned()),
        reverse: reverse.map(|secret| ("array".to_owned(), Secret(secret.to_owned()))),
    }
}

fn cause(result: Result<Connected, ConnectFault>) -> (Cause, String) {
    match result {
        Err(ConnectFault::Login(fault)) => (fault.cause(), fault.to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn logs_in_without_authentication() {
    let Some(tgt) =
        Tgt::start(&["--op update --mode target --tid 1 --name ImmediateData --value No"])
    else {
        return;
    };
    let connected = tgt.log_in(TARGET, None).unwrap();
    assert!(!connected.session.agreed.immediate_data);
    assert_eq!(connected.session.agreed.portal_group, Some(1));
    assert!(!connected.session.agreed.header_digest);
    // A target that requires no authentication accepts an initiator that has a CHAP
    // secret, unless the target must authenticate itself.
    tgt.log_in(TARGET, Some(chap(SECRET, None))).unwrap();
    let (found, text) = cause(tgt.log_in(TARGET, Some(chap(SECRET, Some(REVERSE)))));
    assert!(!text.contains("planted"), "{text}");
    assert!(
        [Cause::Proof, Cause::Authentication, Cause::Protocol].contains(&found),
        "{text}"
    );
}

#[test]
fn an_unknown_target_and_a_closed_port_are_different_errors() {
    let Some(tgt) = Tgt::start(&[]) else { return };
    let (found, text) = cause(tgt.log_in("iqn.2003-01.org.example:other", None));
    assert_eq!(found, Cause::UnknownTarget, "{text}");
    let port = tgt.port;
    drop(tgt);
    let wish = Wish {
        initiator: "iqn.2010-04.org.example:host".to_owned(),
        target: TARGET.to_owned(),
        isid: [0x80, 1, 2, 3, 0, 0],
        chap: None,
    };
    let refused = connect_and_log_in(([127, 0, 0, 1], port).into(), None, &wish);
    let Err(ConnectFault::Unreachable { error, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn proves_itself_by_chap() {
    let Some(tgt) = Tgt::start(&[
        &format!("--op new --mode account --user host --password {SECRET}"),
        "--op bind --mode account --tid 1 --user host",
    ]) else {
        return;
    };
    tgt.log_in(TARGET, Some(chap(SECRET, None))).unwrap();
    let (found, text) = cause(tgt.log_in(TARGET, Some(chap("anothersecret", None))));
    assert_eq!(found, Cause::Authentication, "{text}");
    let (found, text) = cause(tgt.log_in(TARGET, None));
    assert_eq!(found, Cause::Authentication, "{text}");
}

#[test]
fn lets_the_target_prove_itself() {
    let Some(tgt) = Tgt::start(&[
        &format!("--op new --mode account --user host --password {SECRET}"),
        "--op bind --mode account --tid 1 --user host",
        &format!("--op new --mode account --user array --password {REVERSE}"),
        "--op bind --mode account --tid 1 --user array --outgoing",
    ]) else {
        return;
    };
    tgt.log_in(TARGET, Some(chap(SECRET, Some(REVERSE))))
        .unwrap();
    let wrong = tgt.log_in(TARGET, Some(chap(SECRET, Some("anothersecret"))));
    assert!(
        matches!(wrong, Err(ConnectFault::Login(LoginFault::WrongProof))),
        "{wrong:?}"
    );
}

#[test]
fn agrees_on_digests_that_the_target_demands() {
    let Some(tgt) = Tgt::start(&[
        "--op update --mode target --tid 1 --name HeaderDigest --value CRC32C",
        "--op update --mode target --tid 1 --name DataDigest --value CRC32C",
    ]) else {
        return;
    };
    let agreed = tgt.log_in(TARGET, None).unwrap().session.agreed;
    assert!(agreed.header_digest && agreed.data_digest, "{agreed:?}");
}
