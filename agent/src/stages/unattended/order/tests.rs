use landfall_boot_params::CommandLine;
use landfall_network_plan::{Document, Embedded, EmbeddedHost, Metal3Hints};
use landfall_settings::media::Media;
use landfall_settings::{ConfigFiles, IgnitionParts};

use super::*;

fn settings(line: &str) -> Settings {
    let line = CommandLine::parse(line);
    Settings::from_sources(
        line,
        Media::default(),
        ConfigFiles::default(),
        IgnitionParts::default(),
    )
}

fn order(line: &str) -> Order {
    Order::of(&settings(line), false).unwrap_or_else(|| panic!("no order in {line}"))
}

#[test]
fn a_machine_has_one_master() {
    const DISK: &str = "coreos.inst.install_dev=sda";
    for (line, is_ordered) in [
        ("ip=dhcp", false),
        ("coreos.inst.image_url=http://192.0.2.1/a", false),
        (DISK, true),
        ("coreos.inst=yes", true),
        (&format!("{DISK} ipa-api-url=http://192.0.2.1:6385"), false),
        (&format!("{DISK} ipa-api-url=mdns"), false),
        (
            &format!("{DISK} ipa-inspection-callback-url=http://192.0.2.1"),
            false,
        ),
        (&format!("{DISK} ipa-use-mdns=1"), false),
        (&format!("{DISK} ipa-insecure=1"), true),
    ] {
        assert_eq!(
            Order::of(&settings(line), false).is_some(),
            is_ordered,
            "{line}"
        );
    }
    // CoreOS's live system has its own installer, which reads the same arguments.
    assert!(Order::of(&settings(DISK), true).is_none());
}

/// The settings of a host that has root device hints in the ramdisk.
fn hinted(line: &str) -> Settings {
    let hints = serde_json::json!({"serialNumber": "S1"});
    let host = EmbeddedHost {
        host_name: None,
        macs: Vec::new(),
        nics: std::collections::BTreeMap::new(),
        root_device_hints: Metal3Hints::from_json(&hints).unwrap(),
        document: Document::None,
    };
    settings(line).with_embedded(Embedded {
        host: Some(host),
        ..Embedded::default()
    })
}

#[test]
fn root_device_hints_in_the_ramdisk_replace_the_disk_of_the_line() {
    const IMAGE: &str = "coreos.inst.image_url=http://192.0.2.1/a";
    let options = |line: &str| Order::of(&hinted(line), false).unwrap().options();
    assert_eq!(options(IMAGE).unwrap().dest_device, None);
    let named = options(&format!("{IMAGE} coreos.inst.install_dev=sda"));
    assert_eq!(named.unwrap().dest_device, Some("/dev/sda".into()));
    let misspelt = options(&format!("{IMAGE} coreos.inst.install_dve=sda"));
    let fault = misspelt.unwrap_err().details;
    assert!(fault.contains("install_dve: unknown name"), "{fault}");
    // Hints alone order nothing, and Ironic decides if it is named.
    for line in [
        "ip=dhcp",
        &format!("{IMAGE} ipa-api-url=http://192.0.2.1:6385"),
    ] {
        assert!(Order::of(&hinted(line), false).is_none(), "{line}");
    }
}

#[test]
fn config_files_do_not_make_hints_choose_the_disk() {
    for (line, uses_hints) in [
        ("", false),
        ("coreos.inst.instal_dev=/dev/sdb", false),
        ("coreos.inst.image_url=http://192.0.2.1/a", true),
    ] {
        let order = Order {
            line: CoreosInst::with_hinted_disk(&CommandLine::parse(line)),
            files: vec!["/etc/coreos/installer.d/10-karg.yaml".into()],
            skip_reboot: false,
        };
        assert_eq!(order.uses_hints(), uses_hints, "{line}");
    }
}

#[test]
fn an_image_is_found_for_a_line_that_names_none() {
    let filled = |line: &str, has_own_image| {
        let order = order(line);
        let mut options = order.options().unwrap();
        order.fill_in_image(&mut options, &settings(line).params)?;
        order.refuse_stream(&options, has_own_image)?;
        let digest = options.image_digest.map(|digest| digest.hex().len() * 4);
        Ok::<_, Failure>((options.image_url.concat(), digest))
    };
    const DISK: &str = "coreos.inst.install_dev=sda";
    const GIVEN: &str = "http://192.0.2.9/given.raw";
    let (sum, other) = ("0".repeat(64), "1".repeat(64));
    let given = format!("{DISK} landfall.coreos.image={GIVEN}");
    let checksum = format!("{given} landfall.coreos.image_checksum");
    let image = |url: &str, digest_bits| Some((url.to_owned(), digest_bits));
    for (line, has_own_image, expected) in [
        (DISK, false, image("", None)),
        (&given, false, image(GIVEN, None)),
        (&given, true, image(GIVEN, None)),
        (
            &format!("{given}?sha256={sum}"),
            true,
            image(GIVEN, Some(256)),
        ),
        (
            &format!("{checksum}=sha512:{sum}{sum}"),
            true,
            image(GIVEN, Some(512)),
        ),
        (&format!("{checksum}={sum}"), true, image(GIVEN, Some(256))),
        // A digest of 32 digits is an MD5, or half of a SHA-256.
        (&format!("{checksum}={}", &sum[..32]), true, None),
        (&format!("{checksum}=http://192.0.2.9/sums"), true, None),
        // Nobody can know which of the two digests is meant.
        (
            &format!("{given}?sha256={sum} landfall.coreos.inst.image_digest=sha256:{other}"),
            true,
            None,
        ),
        (
            &format!("{given}?sha256={sum} landfall.coreos.inst.image_digest=sha256:{sum}"),
            true,
            image(GIVEN, Some(256)),
        ),
        (
            &format!("{given} coreos.inst.image_url=http://192.0.2.1/a"),
            true,
            image("http://192.0.2.1/a", None),
        ),
        (
            &format!("{given} coreos.inst.stream=next"),
            true,
            image("", None),
        ),
        (&format!("{DISK} coreos.inst=yes"), false, None),
        (&format!("{DISK} coreos.inst=yes"), true, image("", None)),
        (
            &format!("{given} coreos.inst=yes"),
            false,
            image(GIVEN, None),
        ),
    ] {
        assert_eq!(filled(line, has_own_image).ok(), expected, "{line}");
    }
}

#[test]
fn each_server_is_looked_for_once_and_the_image_s_last() {
    let urls_of = |line: &str, has_own_image| {
        let servers = servers(&order(line).options().unwrap(), has_own_image).unwrap();
        let urls = servers.into_iter().map(|server| server.urls.join(" "));
        urls.collect::<Vec<_>>()
    };
    let urls = |line: &str| urls_of(line, false);
    const DISK: &str = "coreos.inst.install_dev=sda";
    assert_eq!(
        urls(&format!(
            "{DISK} coreos.inst.image_url=http://u:p@[2001:db8::1]:8080/a \
             coreos.inst.ignition_url=https://config.example.org/w.ign"
        )),
        [
            "https://config.example.org/w.ign",
            "http://u:p@[2001:db8::1]:8080/a"
        ]
    );
    assert_eq!(
        urls(&format!(
            "{DISK} coreos.inst.image_url=http://192.0.2.1/a \
             coreos.inst.ignition_url=http://192.0.2.1:80/b"
        )),
        ["http://192.0.2.1/a"]
    );
    assert_eq!(
        urls(DISK),
        ["https://builds.coreos.fedoraproject.org/streams/stable.json"]
    );
    // Any mirror is enough, and a file in the ramdisk needs no server.
    let mut options = order(DISK).options().unwrap();
    for (images, expected) in [
        (
            vec!["http://192.0.2.1/a", "http://192.0.2.2/a"],
            vec!["http://192.0.2.1/a", "http://192.0.2.2/a"],
        ),
        (vec!["http://192.0.2.1/a", "file:///a"], vec![]),
    ] {
        options.image_url = images.into_iter().map(str::to_owned).collect();
        let found = servers(&options, false).unwrap();
        let urls: Vec<_> = found.into_iter().flat_map(|server| server.urls).collect();
        assert_eq!(urls, expected);
    }
    assert!(urls_of(DISK, true).is_empty());
}

#[test]
fn config_files_come_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("none");
    assert!(config_files(&missing).unwrap().is_empty());
    for name in ["0002-b.yaml", "0001-a.yaml"] {
        fs::write(directory.path().join(name), "").unwrap();
    }
    fs::create_dir(directory.path().join("sub")).unwrap();
    let names: Vec<_> = config_files(directory.path())
        .unwrap()
        .into_iter()
        .map(|path| path.file_name().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["0001-a.yaml", "0002-b.yaml"]);
}
