use std::fs;
use std::os::unix::fs::symlink;

use super::*;

#[test]
fn each_target_has_a_session_of_its_own() {
    let name = "iqn.2010-04.org.example:host";
    let of_boot = isid(name, 0, false);
    assert_eq!(of_boot, isid(name, 0, false));
    assert_ne!(of_boot, isid(name, 1, false));
    assert_ne!(of_boot, isid(name, 0, true));
    assert_ne!(of_boot, isid("iqn.2010-04.org.example:other", 0, false));
    assert_eq!(of_boot[0], 0x80);
}

#[test]
fn a_broken_handover_is_tried_again() {
    for (error, is_temporary) in [
        (io::Error::from_raw_os_error(ENOTCONN), true),
        (io::Error::from_raw_os_error(EAGAIN), true),
        (io::ErrorKind::TimedOut.into(), true),
        (io::Error::from_raw_os_error(nix::libc::EINVAL), false),
    ] {
        let text = error.to_string();
        assert_eq!(
            SessionError::Kernel(error).is_temporary(),
            is_temporary,
            "{text}"
        );
    }
}

#[test]
fn sessions_are_read_from_sysfs() {
    let root = tempfile::tempdir().unwrap();
    let sys = root.path().join("sys");
    for (number, host, driver) in [(1, 3, "iscsi_tcp"), (2, 4, "qla4xxx")] {
        let device =
            format!("devices/platform/host{host}/session{number}/iscsi_session/session{number}");
        for (path, content) in [
            (
                format!("{device}/targetname"),
                "iqn.2003-01.org.example:x\n".to_owned(),
            ),
            (
                format!("class/iscsi_connection/connection{number}:0/persistent_address"),
                "192.0.2.1\n".to_owned(),
            ),
            (
                format!("class/iscsi_connection/connection{number}:0/persistent_port"),
                "3260\n".to_owned(),
            ),
            (
                format!("class/scsi_host/host{host}/proc_name"),
                format!("{driver}\n"),
            ),
        ] {
            let path = sys.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let class = sys.join("class/iscsi_session");
        fs::create_dir_all(&class).unwrap();
        symlink(
            format!("../../{device}"),
            class.join(format!("session{number}")),
        )
        .unwrap();
    }
    let found = sessions(&SystemPath::captured(root.path()).unwrap());
    let found: Vec<_> = found
        .iter()
        .map(|known| {
            (
                known.kernel.number,
                known.kernel.host,
                known.portal.unwrap().to_string(),
                known.is_software,
            )
        })
        .collect();
    let portal = "192.0.2.1:3260".to_owned();
    assert_eq!(found, [(1, 3, portal.clone(), true), (2, 4, portal, false)]);
}
