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
    let given = ImageUrls {
        urls: vec!["http://192.0.2.9/given.raw".to_owned()],
        sha256: Some("0".repeat(64)),
    };
    let filled = |line: &str, given: Option<&ImageUrls>, has_own_image| {
        let order = order(line);
        let mut options = order.options().unwrap();
        order.fill_in_image(&mut options, given).unwrap();
        order.refuse_stream(&options, has_own_image)?;
        Ok::<_, Failure>((options.image_url, options.image_digest.is_some()))
    };
    const DISK: &str = "coreos.inst.install_dev=sda";
    let of_given = (given.urls.clone(), true);
    assert_eq!(filled(DISK, Some(&given), false).unwrap(), of_given);
    assert_eq!(filled(DISK, None, false).unwrap(), (Vec::new(), false));
    let named = format!("{DISK} coreos.inst.image_url=http://192.0.2.1/a");
    let of_line = (vec!["http://192.0.2.1/a".to_owned()], false);
    assert_eq!(filled(&named, Some(&given), true).unwrap(), of_line);
    let stream = format!("{DISK} coreos.inst.stream=next");
    let nothing = (Vec::new(), false);
    assert_eq!(filled(&stream, Some(&given), true).unwrap(), nothing);
    let old = format!("{DISK} coreos.inst=yes");
    assert!(filled(&old, None, false).is_err());
    assert_eq!(filled(&old, None, true).unwrap(), nothing);
    assert_eq!(filled(&old, Some(&given), false).unwrap(), of_given);
}

#[test]
fn each_server_is_looked_for_once_and_the_image_s_last() {
    let urls_beside = |line: &str, has_own_image| {
        let servers = servers(&order(line).options().unwrap(), has_own_image).unwrap();
        let urls = servers.into_iter().map(|server| server.url);
        urls.collect::<Vec<_>>()
    };
    let urls = |line: &str| urls_beside(line, false);
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
    assert!(urls_beside(DISK, true).is_empty());
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
