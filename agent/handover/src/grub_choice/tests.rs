use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

const CFG: &str = r#"
set ignition_firstboot=""
if [ -f "/ignition.firstboot" ]; then
    set ignition_network_kcmdline='rd.neednet=1 ip=dhcp'
    source "/ignition.firstboot"
    set ignition_firstboot="ignition.firstboot ${ignition_network_kcmdline}"
fi
blscfg
"#;

const ENTRY: &str = "title CoreOS\nversion 1\n\
    options $ignition_firstboot ostree=/ostree/boot.1/x/0 ignition.platform.id=metal\n\
    linux /ostree/x/vmlinuz\ninitrd /ostree/x/initramfs.img\n";

/// A boot partition like that of CoreOS. `marker` is the content of
/// `ignition.firstboot`.
fn boot(marker: Option<&str>) -> TempDir {
    let boot = tempfile::tempdir().unwrap();
    let root = boot.path();
    for directory in ["loader.1/entries", "grub2", "ostree/x"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    symlink("loader.1", root.join("loader")).unwrap();
    fs::write(root.join("grub2/grub.cfg"), CFG).unwrap();
    fs::write(root.join("loader.1/entries/ostree-1-x.conf"), ENTRY).unwrap();
    let older = ENTRY.replace("ostree/x", "ostree/older");
    fs::write(root.join("loader.1/entries/ostree-0-x.conf"), older).unwrap();
    for file in ["vmlinuz", "initramfs.img"] {
        fs::write(root.join("ostree/x").join(file), "").unwrap();
    }
    if let Some(marker) = marker {
        fs::write(root.join(FIRST_BOOT), marker).unwrap();
    }
    boot
}

fn arguments(marker: Option<&str>) -> String {
    let boot = boot(marker);
    let next = read(boot.path()).unwrap();
    let root = boot.path().canonicalize().unwrap();
    assert_eq!(next.kernel, root.join("ostree/x/vmlinuz"));
    assert_eq!(next.initrds, [root.join("ostree/x/initramfs.img")]);
    next.arguments
}

#[test]
fn the_marker_decides_over_the_default() {
    const REST: &str = "ostree=/ostree/boot.1/x/0 ignition.platform.id=metal";
    for (marker, expected) in [
        (None, REST.to_owned()),
        (
            Some(""),
            format!("ignition.firstboot rd.neednet=1 ip=dhcp {REST}"),
        ),
        (
            Some("set ignition_network_kcmdline=\"rd.neednet=1 ip=192.0.2.2::::::none\"\n"),
            format!("ignition.firstboot rd.neednet=1 ip=192.0.2.2::::::none {REST}"),
        ),
        (
            Some("# a\nset ignition_network_kcmdline=a\nset ignition_network_kcmdline=\"\"\n"),
            format!("ignition.firstboot {REST}"),
        ),
    ] {
        assert_eq!(arguments(marker), expected, "{marker:?}");
    }
}

#[test]
fn scripts_that_only_grub_understands_are_rejected() {
    for marker in [
        "set timeout=5",
        "set ignition_network_kcmdline=\"ip=$net_default_ip\"",
        "set ignition_network_kcmdline=a b",
        "set ignition_network_kcmdline=\"a\" ; reboot",
        "if true; then",
    ] {
        let boot = boot(Some(marker));
        let failure = read(boot.path()).unwrap_err();
        assert!(failure.details.contains(FIRST_BOOT), "{marker}: {failure}");
    }
    let value_of = |name: &str| (name == "known").then_some("x  y");
    assert_eq!(
        expand("a $known ${known} b", value_of).unwrap(),
        "a x y x y b"
    );
    for options in ["$kernelopts", "a=\"b c\"", "root=${known}", "a\\ b", "$"] {
        assert!(expand(options, value_of).is_err(), "{options}");
    }
}

#[test]
fn an_entry_has_all_its_parts() {
    let entry = Entry::parse(
        "initrd /a /b\ninitrd /c $tuned_initrd\nlinux\t/k\noptions x\noptions y\ntitle",
    )
    .unwrap();
    assert_eq!(entry.initrds, "/a /b /c $tuned_initrd");
    assert_eq!((&*entry.linux, &*entry.options), ("/k", "x y"));
    for (key, line) in [
        ("linux", "linux /ostree/x/vmlinuz\n"),
        ("initrd", "initrd /ostree/x/initramfs.img\n"),
    ] {
        let fault = Entry::parse(&ENTRY.replace(line, "")).unwrap_err();
        assert_eq!(
            fault.to_string(),
            format!("expected a line '{key}', found none")
        );
    }
}

/// The boot loader entries of RHEL 8 name `$kernelopts`, whose value is in the
/// environment block. CoreOS hosts that were upgraded from RHEL 8 have such entries, too.
#[test]
fn variables_are_those_of_the_environment_block() {
    let boot = boot(None);
    let entry = boot.path().join("loader.1/entries/ostree-1-x.conf");
    let text = ENTRY.replace("ostree=", "$kernelopts $tuned_params ostree=");
    fs::write(
        &entry,
        text.replace("initramfs.img", "initramfs.img $tuned_initrd"),
    )
    .unwrap();
    let failure = read(boot.path()).unwrap_err();
    assert!(failure.details.contains("$kernelopts"), "{failure}");
    let block = "# GRUB Environment Block\nkernelopts=root=/dev/sda4 quiet\n";
    let block = format!("{block}{}", "#".repeat(1024 - block.len()));
    fs::write(boot.path().join("grub2/grubenv"), block).unwrap();
    let next = read(boot.path()).unwrap();
    assert!(
        next.arguments.starts_with("root=/dev/sda4 quiet ostree="),
        "{next:?}"
    );
    assert_eq!(next.initrds.len(), 1);
}

#[test]
fn no_path_leads_out_of_the_partition() {
    let boot = boot(None);
    let entry = boot.path().join("loader.1/entries/ostree-2-x.conf");
    fs::write(
        &entry,
        ENTRY.replace("/ostree/x/vmlinuz", "/../../etc/passwd"),
    )
    .unwrap();
    let failure = read(boot.path()).unwrap_err();
    assert!(failure.details.contains("passwd"), "{failure}");
}
