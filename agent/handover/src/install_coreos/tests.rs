use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;
use std::process::Command;

use landfall_disk::fixtures::loop_device;
use landfall_report::failure::Class;
use landfall_sys::mount::see_mounts_alone;
use landfall_sys::skip::skip;

use super::*;

const OPTIONS: &str =
    "options $ignition_firstboot rw ignition.platform.id=metal console=tty0 console=ttyS0,115200n8";

#[test]
fn a_config_of_spec_2_is_a_warning_and_no_error() {
    let with = |ignition: Option<&str>| CoreosChanges {
        ignition: ignition.map(|text| text.as_bytes().to_vec()),
        ..CoreosChanges::default()
    };
    let warning = |ignition| with(ignition).check().unwrap()?.warning();
    assert!(warning(Some(r#"{"ignition":{"version":"2.2.0"}}"#)).is_some());
    assert_eq!(warning(Some(r#"{"ignition":{"version":"3.2.0"}}"#)), None);
    assert_eq!(warning(None), None);
}

#[test]
fn the_summary_has_the_version_of_the_config() {
    let changes = CoreosChanges {
        ignition: Some(br#"{"ignition":{"version":"3.4.0"}}"#.to_vec()),
        ..CoreosChanges::default()
    };
    let spec = changes.check().unwrap();
    assert_eq!(
        summary(&changes, spec.as_ref()),
        "Ignition config (spec 3.4.0) of 32 bytes"
    );
    assert_eq!(summary(&changes, None), "Ignition config of 32 bytes");
}

/// A boot file system like that of CoreOS.
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
    fs::create_dir_all(root.join("coreos")).unwrap();
    fs::write(root.join("coreos/platforms.json"), PLATFORMS).unwrap();
    fs::create_dir_all(root.join("grub2")).unwrap();
    fs::write(root.join(GRUB_CFG), grub_cfg("serial --speed=115200\n")).unwrap();
}

const GRUB_CFG: &str = "grub2/grub.cfg";
const PLATFORMS: &str = r#"{
  "metal": {
    "grub_commands": ["serial --speed=115200", "terminal_input serial console"],
    "kernel_arguments": ["console=tty0", "console=ttyS0,115200n8"]
  },
  "openstack": {
    "grub_commands": ["serial --speed=115200", "terminal_input serial console"],
    "kernel_arguments": ["console=tty0", "console=ttyS0,115200n8"]
  },
  "qemu": {
    "grub_commands": ["serial --speed=115200", "terminal_input serial"],
    "kernel_arguments": ["console=ttyS0,115200n8"]
  },
  "vmware": {}
}"#;

fn grub_cfg(block: &str) -> String {
    format!("set timeout=1\n# CONSOLE-SETTINGS-START\n{block}# CONSOLE-SETTINGS-END\nblscfg\n")
}

fn all_changes() -> CoreosChanges {
    CoreosChanges {
        ignition: Some(b"{ \"ignition\": {\"version\": \"3.2.0\"} }\n".to_vec()),
        append_kargs: vec!["nosmt".into(), "foo=bar baz".into()],
        delete_kargs: vec!["console=tty0".into()],
        firstboot_args: Some("rd.neednet=1 ip=dhcp".into()),
        network_keyfiles: vec![("eth0.nmconnection".into(), b"[connection]\n".to_vec())],
        platform: Some("qemu".into()),
        consoles: vec!["ttyS0,115200".parse().unwrap()],
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
        "title new\noptions $ignition_firstboot rw ignition.platform.id=qemu console=ttyS0,115200n8 nosmt foo=bar baz\nlinux /l\n"
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

/// These rows were recorded with coreos-installer 0.26.0. The end-to-end tests compare
/// the agent with coreos-installer itself.
#[test]
fn platform_and_consoles_as_the_peer_sets_them() {
    let serial_and_screen = "serial --unit=0 --speed=115200 --word=8 --parity=no\nterminal_input console serial\nterminal_output console serial\n";
    let as_it_was = "serial --speed=115200\n";
    let consoles = "console=tty0 console=ttyS0,115200n8";
    for (platform, named, options, block) in [
        (
            Some("openstack"),
            &["ttyS0,115200n8", "tty0"][..],
            "openstack console=ttyS0,115200n8 console=tty0 nosmt",
            serial_and_screen,
        ),
        (
            None,
            &["ttyS0,115200n8", "tty0"],
            "metal console=ttyS0,115200n8 console=tty0 nosmt",
            serial_and_screen,
        ),
        (
            Some("metal"),
            &["ttyS1"],
            "metal console=ttyS1,9600n8 nosmt",
            "serial --unit=1 --speed=9600 --word=8 --parity=no\nterminal_input serial\nterminal_output serial\n",
        ),
        // The consoles of openstack are the same as those of metal. The agent deletes
        // them, and adds them again at the end.
        (
            Some("openstack"),
            &[],
            &format!("openstack {consoles} nosmt"),
            as_it_was,
        ),
        (
            Some("qemu"),
            &[],
            "qemu console=ttyS0,115200n8 nosmt",
            "serial --speed=115200\nterminal_input serial\n",
        ),
        (Some("vmware"), &[], "vmware nosmt", ""),
        (Some("nosuch"), &[], "nosuch nosmt", ""),
        (
            Some("metal"),
            &[],
            &format!("metal {consoles} nosmt"),
            as_it_was,
        ),
    ] {
        let boot = tempfile::tempdir().unwrap();
        coreos_boot(boot.path());
        let changes = CoreosChanges {
            platform: platform.map(str::to_owned),
            consoles: named.iter().map(|text| text.parse().unwrap()).collect(),
            append_kargs: vec!["nosmt".to_owned()],
            ..CoreosChanges::default()
        };
        apply(boot.path(), &changes).unwrap();
        let text = |path: &str| fs::read_to_string(boot.path().join(path)).unwrap();
        assert_eq!(
            text("loader/entries/ostree-2-x.conf"),
            format!(
                "title new\noptions $ignition_firstboot rw ignition.platform.id={options}\nlinux /l\n"
            ),
            "{platform:?} {named:?}"
        );
        assert_eq!(text(GRUB_CFG), grub_cfg(block), "{platform:?} {named:?}");
    }
}

/// Current images have the block in a separate file, which grub.cfg sources.
#[test]
fn console_cfg_is_edited_in_the_place_of_grub_cfg() {
    let console_cfg = |root: &Path| root.join("grub2/console.cfg");
    let boot = tempfile::tempdir().unwrap();
    coreos_boot(boot.path());
    fs::write(
        boot.path().join(GRUB_CFG),
        "source $prefix/console.cfg\nblscfg\n",
    )
    .unwrap();
    fs::write(console_cfg(boot.path()), grub_cfg("serial\n")).unwrap();
    let changes = CoreosChanges {
        consoles: vec!["ttyS1,9600".parse().unwrap()],
        ..CoreosChanges::default()
    };
    apply(boot.path(), &changes).unwrap();
    let text = |path: PathBuf| fs::read_to_string(path).unwrap();
    let edited = text(console_cfg(boot.path()));
    assert!(edited.contains("serial --unit=1 --speed=9600"), "{edited}");
    assert_eq!(
        text(boot.path().join(GRUB_CFG)),
        "source $prefix/console.cfg\nblscfg\n"
    );

    // If somebody has removed the markers from console.cfg, the agent changes
    // nothing, even if grub.cfg has a block.
    let boot = tempfile::tempdir().unwrap();
    coreos_boot(boot.path());
    fs::write(console_cfg(boot.path()), "serial --unit=0\n").unwrap();
    let entry = boot.path().join("loader/entries/ostree-2-x.conf");
    let before = text(entry.clone());
    let failure = apply(boot.path(), &changes).unwrap_err();
    assert!(failure.details.contains("console.cfg"), "{failure}");
    assert!(failure.details.contains("marker"), "{failure}");
    assert_eq!(text(console_cfg(boot.path())), "serial --unit=0\n");
    assert_eq!(
        text(boot.path().join(GRUB_CFG)),
        grub_cfg("serial --speed=115200\n")
    );
    assert_eq!(text(entry), before);
}

#[test]
fn an_image_without_the_table_has_only_its_platform_changed() {
    let boot = tempfile::tempdir().unwrap();
    coreos_boot(boot.path());
    fs::remove_dir_all(boot.path().join("coreos")).unwrap();
    fs::remove_dir_all(boot.path().join("grub2")).unwrap();
    let mut changes = CoreosChanges {
        platform: Some("qemu".to_owned()),
        ..CoreosChanges::default()
    };
    apply(boot.path(), &changes).unwrap();
    let entry = fs::read_to_string(boot.path().join("loader/entries/ostree-2-x.conf")).unwrap();
    assert!(entry.contains("ignition.platform.id=qemu console=tty0 console=ttyS0,115200n8\n"));
    // The entry no longer has `metal`, so a second change of the platform fails. Without
    // a platform, but with named consoles, an image without GRUB's console block is an
    // error.
    changes.consoles = vec!["tty0".parse().unwrap()];
    let failure = apply(boot.path(), &changes).unwrap_err();
    assert!(failure.details.contains("platform ID"), "{failure}");
    changes.platform = None;
    let failure = apply(boot.path(), &changes).unwrap_err();
    assert!(failure.details.contains("grub2/console.cfg"), "{failure}");
}

#[test]
fn faults_are_reported_before_the_first_change() {
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
    let damages: [(&str, Damage); 10] = [
        ("no first boot", |root| {
            fs::remove_file(root.join("ignition.firstboot")).unwrap();
        }),
        ("a config is there", |root| {
            fs::create_dir(root.join("ignition")).unwrap();
            fs::write(root.join("ignition/config.ign"), "{}").unwrap();
        }),
        ("a keyfile is there", |root| {
            fs::create_dir(root.join("coreos-firstboot-network")).unwrap();
            let path = root.join("coreos-firstboot-network/eth0.nmconnection");
            fs::write(path, "").unwrap();
        }),
        ("a link in the place of the keyfiles' directory", |root| {
            symlink("/nowhere", root.join("coreos-firstboot-network")).unwrap();
        }),
        ("a file in the place of the config's directory", |root| {
            fs::write(root.join("ignition"), "").unwrap();
        }),
        ("two options lines", |root| {
            let path = root.join("loader/entries/ostree-2-x.conf");
            fs::write(path, format!("{OPTIONS}\n{OPTIONS}\n")).unwrap();
        }),
        ("another platform", |root| {
            let path = root.join("loader.1/entries/ostree-2-x.conf");
            fs::write(path, "options rw ignition.platform.id=qemu\n").unwrap();
        }),
        ("a table that is none", |root| {
            fs::write(root.join("coreos/platforms.json"), "[]").unwrap();
        }),
        ("no console block", |root| {
            fs::write(root.join(GRUB_CFG), "blscfg\n").unwrap();
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
    let spoils: [Spoil; 6] = [
        |changes| changes.ignition = Some(b"no json".to_vec()),
        |changes| changes.append_kargs.push("a\"b".into()),
        |changes| changes.delete_kargs.push(String::new()),
        |changes| changes.firstboot_args = Some("$x".into()),
        |changes| changes.platform = Some("a b".into()),
        |changes| changes.network_keyfiles[0].0 = "../x".into(),
    ];
    for spoil in spoils {
        let mut changes = all_changes();
        spoil(&mut changes);
        let permission = WritePermission::by_operator();
        let image = landfall_disk::fixtures::gpt_image(8 << 20, 512);
        let table = Table::parse(&image[..1 << 20], 512).unwrap();
        let failure =
            install_coreos(Path::new("/dev/none"), &table, &changes, &permission).unwrap_err();
        assert_eq!(failure.class, Class::InvalidCommandParamsError, "{failure}");
    }
    assert!(CoreosChanges::default().is_empty());
}

/// Uses a real ext4 with CoreOS's 1 KiB blocks and the kernel's own driver; e2fsck
/// checks the result.
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
    // Other tests make mount namespaces. A copy of this test's mount in one of them would
    // keep the file system in use after the unmount.
    if let Err(error) = see_mounts_alone() {
        return skip(error);
    }
    change_mounted(device.path(), "ext4", mount_point.path(), &all_changes()).unwrap();
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
