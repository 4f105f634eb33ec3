use proptest::prelude::*;

use super::*;

fn read(text: &str) -> CoreosInst {
    CoreosInst::from_command_line(&CommandLine::parse(text))
}

/// The arguments as `show-params` prints them. Fails on a fault.
fn listed(text: &str) -> Vec<String> {
    let inst = read(text);
    assert_eq!(inst.faults, Vec::<String>::new(), "{text}");
    let list = inst.list().into_iter();
    list.map(|(key, value)| format!("{key}={value}")).collect()
}

#[test]
fn a_line_of_today() {
    let (image, config) = ("0a".repeat(32), "0b".repeat(64));
    let text = format!(
        "coreos.inst.install_dev=/dev/disk/by-id/wwn-0x5000c500a1b2c3d4 \
         coreos.inst.image_url=http://u:p@192.0.2.1/m.raw.xz coreos.inst.insecure \
         coreos.inst.ignition_url=http://192.0.2.1/w.ign coreos.inst.platform_id=qemu \
         coreos.inst.save_partlabel=data* coreos.inst.save_partindex=5-,2 \
         coreos.inst.skip_reboot landfall.coreos.inst.image_digest=sha256:{image} \
         landfall.coreos.inst.ignition_hash=sha512-{config}"
    );
    assert_eq!(
        listed(&text),
        [
            "coreos.inst.install_dev=/dev/disk/by-id/wwn-0x5000c500a1b2c3d4",
            "coreos.inst.image_url=http://***@192.0.2.1/m.raw.xz",
            "coreos.inst.ignition_url=http://192.0.2.1/w.ign",
            "coreos.inst.platform_id=qemu",
            "coreos.inst.save_partlabel=data*",
            "coreos.inst.save_partindex=5-,2",
            "coreos.inst.insecure=1",
            "coreos.inst.skip_reboot=1",
            &format!("landfall.coreos.inst.image_digest=sha256:{image}"),
            &format!("landfall.coreos.inst.ignition_hash=sha512-{config}"),
        ]
    );
    let inst = read(&text);
    assert!(inst.is_wanted() && !inst.legacy);
    assert_eq!(inst.warnings, Vec::<String>::new());
    let url = inst.image_url.as_deref();
    assert_eq!(url, Some("http://u:p@192.0.2.1/m.raw.xz"));
}

/// Like the current installer, the agent ignores `coreos.inst=yes` here and verifies the
/// image.
#[test]
fn a_line_of_today_with_the_old_word_is_verified() {
    for current_only in [
        "coreos.inst.insecure=0",
        "coreos.inst.insecure=",
        "coreos.inst.stream=stable",
        "coreos.inst.platform_id=qemu",
        "coreos.inst.save_partlabel=data",
        "coreos.inst.save_partindex=4",
    ] {
        let inst = read(&format!(
            "coreos.inst=yes coreos.inst.install_dev=sda {current_only}"
        ));
        assert!(inst.is_wanted() && !inst.legacy, "{current_only}");
        let warning = "the image is verified unless coreos.inst.insecure is set";
        assert!(inst.warnings[0].ends_with(warning), "{inst:?}");
    }
}

/// As in the documentation of OpenShift 4.1 to 4.4.
#[test]
fn a_line_of_the_old_installer() {
    let inst = read(
        "ip=dhcp rd.neednet=1 coreos.inst=yes coreos.inst.install_dev=sda \
         coreos.inst.image_url=http://192.0.2.1/rhcos-4.1.0-x86_64-metal-bios.raw.gz \
         coreos.inst.ignition_url=http://192.0.2.1/worker.ign coreos.inst.skip_media_check",
    );
    assert!(inst.is_wanted() && inst.legacy && !inst.insecure);
    assert_eq!(inst.faults, Vec::<String>::new());
    assert_eq!(inst.install_dev.as_deref(), Some("/dev/sda"));
    let expected = IgnitionPlace::Url("http://192.0.2.1/worker.ign".to_owned());
    assert_eq!(inst.ignition_url, Some(expected));
    assert_eq!(
        inst.warnings,
        ["coreos.inst.skip_media_check: ignored; this installer does not check media"]
    );
}

#[test]
fn disks_are_paths_below_dev() {
    for (text, path) in [
        ("sda", "/dev/sda"),
        ("/dev/nvme0n1", "/dev/nvme0n1"),
        ("disk/by-path/x", "/dev/disk/by-path/x"),
    ] {
        let inst = read(&format!("coreos.inst.install_dev={text}"));
        assert_eq!(inst.install_dev.as_deref(), Some(path));
    }
}

#[test]
fn configs_are_skipped_or_files() {
    let place = |text: &str| {
        let inst = read(&format!(
            "coreos.inst.install_dev=a coreos.inst.ignition_url={text}"
        ));
        assert_eq!(inst.faults, Vec::<String>::new(), "{text}");
        inst.ignition_url
    };
    assert_eq!(place("skip"), None);
    assert_eq!(place(""), None);
    let warnings = |text: &str| read(&format!("coreos.inst.install_dev=a {text}")).warnings;
    assert_eq!(warnings("coreos.inst.ignition_url=skip"), [""; 0]);
    assert_eq!(warnings("coreos.inst.ignition_url=").len(), 1);
    let file = IgnitionPlace::File("/etc/worker.ign".to_owned());
    assert_eq!(place("/etc/worker.ign"), Some(file));
}

#[test]
fn switches_are_those_of_the_service() {
    for (text, on) in [
        ("", false),
        ("coreos.inst.insecure", true),
        ("coreos.inst.insecure=1", true),
        ("coreos.inst.insecure=yes", true),
        ("coreos.inst.insecure=anything", true),
        ("coreos.inst.insecure=", false),
        ("coreos.inst.insecure=0", false),
        ("coreos.inst.insecure=no", false),
        ("coreos.inst.insecure=OFF", false),
        ("coreos.inst.insecure=false", false),
        ("coreos.inst.insecure coreos.inst.insecure=0", false),
    ] {
        assert_eq!(read(text).insecure, on, "{text}");
    }
    let warnings = read("coreos.inst.install_dev=a coreos.inst.skip_reboot=false").warnings;
    assert!(
        warnings[0].contains("write coreos.inst.skip_reboot=0"),
        "{warnings:?}"
    );
}

#[test]
fn an_argument_that_would_change_the_installation_is_a_fault() {
    const DISK: &str = "coreos.inst.install_dev=a";
    for (text, fault) in [
        (
            "coreos.inst=yes",
            "coreos.inst=yes: expected coreos.inst.install_dev=DISK as well, found none",
        ),
        (
            "coreos.inst.install_dev",
            "coreos.inst.install_dev: expected coreos.inst.install_dev=VALUE, found no value",
        ),
        (
            &format!("{DISK} coreos.inst.image_url=ftp://192.0.2.1/a"),
            "coreos.inst.image_url: expected an http:// or https:// URL, found \"ftp://192.0.2.1/a\"",
        ),
        (
            &format!("{DISK} coreos.inst.ignition_url=worker.ign"),
            "coreos.inst.ignition_url: expected an http:// or https:// URL, found \"worker.ign\"",
        ),
        (
            &format!("{DISK} coreos.inst.image_url=http://a/b coreos.inst.stream=stable"),
            "coreos.inst.image_url and coreos.inst.stream: expected one of them, found both",
        ),
        (
            &format!(
                "{DISK} landfall.coreos.inst.ignition_hash=sha256-{}",
                "0".repeat(64)
            ),
            "landfall.coreos.inst.ignition_hash: expected coreos.inst.ignition_url as well, found none",
        ),
        (
            &format!("{DISK} landfall.coreos.inst.image_digest=0"),
            "landfall.coreos.inst.image_digest: expected ALGORITHM:HEX, e.g. sha256:0123..., found \"0\"",
        ),
        (
            &format!("{DISK} coreos.inst.secure_ipl"),
            "coreos.inst.secure_ipl: only s390x machines have a secure IPL -- remove the argument",
        ),
    ] {
        assert_eq!(read(text).faults, [fault], "{text}");
    }
    // All faults are reported together.
    let both = read("coreos.inst=yes coreos.inst.image_url=x coreos.inst.ignition_url=y");
    assert_eq!(both.faults.len(), 3);
}

#[test]
fn ignored_arguments_are_reported() {
    for (text, warning) in [
        (
            "coreos.inst.instal_dev=sda",
            "coreos.inst.instal_dev: unknown name; ignored -- did you mean coreos.inst.install_dev?",
        ),
        (
            "coreos.inst.colour=red",
            "coreos.inst.colour: unknown name; ignored",
        ),
        (
            "landfall.coreos.inst.image_digset=x",
            "landfall.coreos.inst.image_digset: unknown name; ignored -- did you mean landfall.coreos.inst.image_digest?",
        ),
        (
            "coreos.inst.install_dev=sda",
            "coreos.inst.ignition_url: none given; the installed system will have no Ignition config",
        ),
        (
            "coreos.inst.ignition_url=http://a/i coreos.inst.install_dev=sda \
             coreos.inst.install_dev=sdb",
            "coreos.inst.install_dev: given 2 times; the last one takes effect",
        ),
    ] {
        assert_eq!(read(text).warnings, [warning], "{text}");
    }
    assert_eq!(
        read("quiet ip=dhcp coreos.live.rootfs_url=x"),
        CoreosInst::default()
    );
}

/// The message is a remark and not a warning, because a config file can request an
/// installation.
#[test]
fn a_line_that_installs_nothing_is_reported() {
    for (text, remark) in [
        (
            "coreos.inst.image_url=http://a/b",
            "coreos.inst.image_url: nothing is installed without coreos.inst.install_dev or root device hints in the ramdisk",
        ),
        (
            "coreos.inst=no",
            "coreos.inst: nothing is installed without coreos.inst.install_dev or root device hints in the ramdisk",
        ),
    ] {
        let inst = read(text);
        assert_eq!(inst.remarks, [remark], "{text}");
        assert_eq!(inst.warnings, [""; 0], "{text}");
    }
    let hinted = CoreosInst::with_hinted_disk(&CommandLine::parse("coreos.inst.ignition_url=skip"));
    assert_eq!(
        hinted.remarks,
        [
            "coreos.inst.ignition_url: nothing is installed without coreos.inst.install_dev, coreos.inst.image_url, coreos.inst.stream or a config in coreos.inst.ignition_url"
        ]
    );
    assert_eq!(read("coreos.inst.install_dev=a").remarks, [""; 0]);
}

/// The hints replace only the disk.
#[test]
fn root_device_hints_replace_a_missing_disk() {
    let hinted = |text: &str| CoreosInst::with_hinted_disk(&CommandLine::parse(text));
    const IMAGE: &str = "coreos.inst.image_url=http://a/b coreos.inst.ignition_url=http://a/i";
    for (text, is_wanted) in [
        (IMAGE, true),
        ("coreos.inst.stream=stable", true),
        ("coreos.inst.ignition_url=http://a/i", true),
        ("coreos.inst.install_dev=sda", true),
        ("coreos.inst.ignition_url=skip", false),
        ("coreos.inst.insecure", false),
        ("coreos.inst.image_url=", false),
        ("coreos.inst.image_url=ftp://a/b", true),
        ("ip=dhcp", false),
    ] {
        assert_eq!(hinted(text).is_wanted(), is_wanted, "{text}");
    }
    let inst = hinted(IMAGE);
    assert_eq!((inst.install_dev, inst.faults), (None, Vec::new()));
    assert_eq!(inst.warnings, [""; 0]);
    for (more, fault) in [
        (
            "coreos.inst.instal_dev=sdb",
            "coreos.inst.instal_dev: unknown name -- did you mean coreos.inst.install_dev?",
        ),
        (
            "coreos.inst.stream=stable",
            "coreos.inst.image_url and coreos.inst.stream: expected one of them, found both",
        ),
        (
            "coreos.inst=yes",
            "coreos.inst=yes: expected coreos.inst.install_dev=DISK as well, found none",
        ),
    ] {
        assert_eq!(hinted(&format!("{IMAGE} {more}")).faults, [fault]);
    }
    let named = hinted(&format!(
        "{IMAGE} coreos.inst.install_dev=sda coreos.inst.colour=1"
    ));
    assert_eq!(named.faults, [""; 0]);
    assert_eq!(
        named.warnings,
        ["coreos.inst.colour: unknown name; ignored"]
    );
}

/// [`BootParams`](crate::BootParams) does not warn about arguments with this prefix,
/// because [`CoreosInst`] reads them.
#[test]
fn the_settings_do_not_call_them_unknown() {
    let text =
        "landfall.coreos.inst.image_digest=x landfall.coreos.inst.zzz=1 landfall.coreos.imag=x";
    let params = crate::BootParams::from_command_line(&CommandLine::parse(text));
    assert_eq!(params.warnings.len(), 1, "{:?}", params.warnings);
    assert!(params.warnings[0].starts_with("landfall.coreos.imag:"));
}

proptest! {
    #[test]
    fn never_panics_and_secrets_stay(value in "[ -~]{0,40}", key in 0..KNOWN.len()) {
        let line = format!("{}={value} coreos.inst.image_url=http://u:S3CRET@h/", KNOWN[key]);
        let inst = read(&line);
        let shows = inst.list().iter().any(|(_, shown)| shown.contains("S3CRET"));
        prop_assert!(!shows);
        prop_assert!(inst.install_dev.iter().all(|path| path.starts_with('/')));
    }
}
