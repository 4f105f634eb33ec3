use landfall_boot_params::CommandLine;

use super::*;
use crate::media::Media;
use crate::settings::ConfigFiles;

fn settings(line: &str) -> Settings {
    let line = CommandLine::parse(line);
    Settings::from_sources(line, Media::default(), ConfigFiles::default())
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
    // CoreOS's live system has its own installer, which reads the same line.
    assert!(Order::of(&settings(DISK), true).is_none());
}

#[test]
fn an_image_is_found_for_a_line_that_names_none() {
    let own = || {
        Some(ImageUrls {
            urls: vec!["http://192.0.2.9/own.raw".to_owned()],
            sha256: Some("0".repeat(64)),
        })
    };
    let filled = |line: &str, default: Option<ImageUrls>| {
        let order = order(line);
        let mut options = order.options().unwrap();
        let filled = order.fill_in_image(&mut options, default);
        filled.map(|()| options.image_url)
    };
    const DISK: &str = "coreos.inst.install_dev=sda";
    assert_eq!(filled(DISK, own()).unwrap(), ["http://192.0.2.9/own.raw"]);
    assert!(filled(DISK, None).unwrap().is_empty());
    let named = format!("{DISK} coreos.inst.image_url=http://192.0.2.1/a");
    assert_eq!(filled(&named, own()).unwrap(), ["http://192.0.2.1/a"]);
    let stream = format!("{DISK} coreos.inst.stream=next");
    assert!(filled(&stream, own()).unwrap().is_empty());
    let old = format!("{DISK} coreos.inst=yes");
    assert!(filled(&old, None).is_err());
    assert!(filled(&old, own()).is_ok());
}

#[test]
fn each_server_is_looked_for_once_and_the_image_s_last() {
    let urls = |line: &str| {
        let servers = servers(&order(line).options().unwrap()).unwrap();
        let urls = servers.into_iter().map(|server| server.url);
        urls.collect::<Vec<_>>()
    };
    const DISK: &str = "coreos.inst.install_dev=sda";
    assert_eq!(
        urls(&format!(
            "{DISK} coreos.inst.image_url=http://u:p@[2001:db8::1]:8080/a \
             coreos.inst.ignition_url=https://config.example.org/w.ign"
        )),
        ["https://config.example.org", "http://[2001:db8::1]:8080"]
    );
    assert_eq!(
        urls(&format!(
            "{DISK} coreos.inst.image_url=http://192.0.2.1/a \
             coreos.inst.ignition_url=http://192.0.2.1:80/b"
        )),
        ["http://192.0.2.1"]
    );
    assert_eq!(urls(DISK), ["https://builds.coreos.fedoraproject.org"]);
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
