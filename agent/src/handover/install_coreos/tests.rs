use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::Command;

use super::*;
use crate::disk::fixtures::loop_device;
use crate::skip::skip;

const OPTIONS: &str =
    "options $ignition_firstboot rw ignition.platform.id=metal console=tty0 console=ttyS0,115200n8";

/// A boot file system as CoreOS has it.
fn coreos_boot(root: &Path) {
    fs::create_dir_all(root.join("loader.1/entries")).unwrap();
    symlink("loader.1", root.join("loader")).unwrap();
    for (name, title) in [("ostree-1-x", "old"), ("ostree-2-x", "new")] {
        fs::write(
            root.join(format!("loader.1/entries/{name}.conf")),
            format!("title {title}\n{OPTIONS}\nlinux /l\n"),
        )
        .unwrap();
    }
    fs::write(root.join("ignition.firstboot"), "").unwrap();
}

fn all_changes() -> CoreosChanges {
    CoreosChanges {
        ignition: Some(b"{ \"ignition\": {\"version\": \"3.2.0\"} }\n".to_vec()),
        append_kargs: vec!["nosmt".into(), "foo=bar baz".into()],
        delete_kargs: vec!["console=tty0".into()],
        firstboot_args: Some("rd.neednet=1 ip=dhcp".into()),
        network_keyfiles: vec![("eth0.nmconnection".into(), b"[connection]\n".to_vec())],
        ..CoreosChanges::default()
    }
}

fn assert_changed(boot: &Path) {
    let changes = all_changes();
    let text = |path: &str| fs::read_to_string(boot.join(path)).unwrap();
    let mode = |path: &str| fs::metadata(boot.join(path)).unwrap().mode() & 0o7777;
    assert_eq!(
        fs::read(boot.join("ignition/config.ign")).unwrap(),
        changes.ignition.unwrap()
    );
    assert_eq!(
        (mode("ignition"), mode("ignition/config.ign")),
        (0o700, 0o600)
    );
    assert_eq!(
        text("loader/entries/ostree-2-x.conf"),
        "title new\noptions $ignition_firstboot rw ignition.platform.id=metal console=ttyS0,115200n8 nosmt foo=bar baz\nlinux /l\n"
    );
    assert_eq!(
        text("loader/entries/ostree-1-x.conf"),
        format!("title old\n{OPTIONS}\nlinux /l\n"),
        "only the last entry"
    );
    assert_eq!(
        text("ignition.firstboot"),
        "set ignition_network_kcmdline=\"rd.neednet=1 ip=dhcp\"\n"
    );
    let keyfile = "coreos-firstboot-network/eth0.nmconnection";
    assert_eq!(text(keyfile), "[connection]\n");
    assert_eq!(
        (mode("coreos-firstboot-network"), mode(keyfile)),
        (0o755, 0o600)
    );
}

#[test]
fn every_change_in_its_place() {
    let boot = tempfile::tempdir().unwrap();
    coreos_boot(boot.path());
    apply(boot.path(), &all_changes()).unwrap();
    assert_changed(boot.path());
}

#[test]
fn what_can_be_refused_is_refused_before_the_first_change() {
    let files = |root: &Path| -> Vec<String> {
        let output = Command::new("find")
            .arg(root)
            .args(["-printf", "%P %s %l\n"])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 4] = [
        ("no first boot", |root| {
            fs::remove_file(root.join("ignition.firstboot")).unwrap();
        }),
        ("a config is there", |root| {
            fs::create_dir(root.join("ignition")).unwrap();
            fs::write(root.join("ignition/config.ign"), "{}").unwrap();
        }),
        ("two options lines", |root| {
            let path = root.join("loader/entries/ostree-2-x.conf");
            fs::write(path, format!("{OPTIONS}\n{OPTIONS}\n")).unwrap();
        }),
        ("no entries", |root| {
            fs::remove_dir_all(root.join("loader.1")).unwrap();
        }),
    ];
    for (what, damage) in damages {
        let boot = tempfile::tempdir().unwrap();
        coreos_boot(boot.path());
        damage(boot.path());
        let before = files(boot.path());
        assert!(apply(boot.path(), &all_changes()).is_err(), "{what}");
        assert_eq!(files(boot.path()), before, "{what}");
    }
}

#[test]
fn bad_changes_are_known_before_a_disk_is_looked_at() {
    type Spoil = fn(&mut CoreosChanges);
    let spoils: [Spoil; 5] = [
        |changes| changes.ignition = Some(b"no json".to_vec()),
        |changes| changes.append_kargs.push("a\"b".into()),
        |changes| changes.delete_kargs.push(String::new()),
        |changes| changes.firstboot_args = Some("$x".into()),
        |changes| changes.network_keyfiles[0].0 = "../x".into(),
    ];
    for spoil in spoils {
        let mut changes = all_changes();
        spoil(&mut changes);
        let permission = WritePermission::by_operator();
        let image = crate::disk::fixtures::gpt_image(8 << 20, 512);
        let table = Table::parse(&image[..1 << 20], 512).unwrap();
        let failure =
            install_coreos(Path::new("/dev/none"), &table, &changes, &permission).unwrap_err();
        assert_eq!(failure.class, Class::InvalidCommandParamsError, "{failure}");
    }
    assert!(CoreosChanges::default().is_empty());
}

/// The real thing on a real ext4 with CoreOS's 1 KiB blocks, through the
/// kernel's own driver, checked by e2fsck.
#[test]
fn a_mounted_ext4_is_changed_and_clean() {
    let tree = tempfile::tempdir().unwrap();
    coreos_boot(tree.path());
    let image = tempfile::NamedTempFile::new().unwrap();
    image.as_file().set_len(16 << 20).unwrap();
    let made = Command::new("/sbin/mke2fs")
        .args(["-q", "-t", "ext4", "-b", "1024", "-L", "boot", "-d"])
        .arg(tree.path())
        .arg(image.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let mount_point = tempfile::tempdir().unwrap();
    let Some(device) = loop_device(image.path(), 512) else {
        return;
    };
    let changed = change_mounted(device.path(), "ext4", mount_point.path(), &all_changes());
    if let Err(failure) = &changed
        && failure.details.contains("Operation not permitted")
    {
        return skip(failure);
    }
    changed.unwrap();
    let read_only = MsFlags::MS_RDONLY;
    let mounted =
        written_disk::mount(device.path(), mount_point.path(), "ext4", read_only).unwrap();
    assert_changed(mount_point.path());
    mounted.unmount().unwrap();
    drop(device);
    let checked = Command::new("/sbin/e2fsck")
        .arg("-fn")
        .arg(image.path())
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
}
