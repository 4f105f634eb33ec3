use super::*;

const TARGET: &str = "flags=3 target-name=iqn.2003-01.org.example:x ip-addr=192.0.2.1 port=3260 \
                      lun=01000000 nic-assoc=1 chap-type=0";
const NIC: &str = "index=1 mac=00:53:00:ab:00:01 vlan=7";

fn record(name: &str, text: &str) -> FirmwareRecord {
    let files = text
        .split_whitespace()
        .filter_map(|word| word.split_once('='));
    FirmwareRecord {
        name: name.to_owned(),
        files: files
            .map(|(name, content)| (name.to_owned(), content.to_owned()))
            .collect(),
    }
}

fn table(target: &str) -> BootTable {
    let initiator = record(
        "initiator",
        "flags=3 initiator-name=iqn.2010-04.org.example:host",
    );
    BootTable::parse(
        &[initiator],
        &[record("target0", target)],
        &[record("ethernet0", NIC)],
    )
}

#[test]
fn a_target_is_read_with_its_nic() {
    let table = table(TARGET);
    assert_eq!(table.faults, [""; 0]);
    assert_eq!(table.initiator, "iqn.2010-04.org.example:host");
    let [target] = &table.targets[..] else {
        panic!("{table:?}")
    };
    assert_eq!(
        target.to_string(),
        "iqn.2003-01.org.example:x at 192.0.2.1:3260"
    );
    assert_eq!(target.lun.number(), 1);
    let nic = target.nic.as_ref().unwrap();
    assert_eq!(
        (nic.mac, nic.vlan),
        (MacAddr([0, 0x53, 0, 0xab, 0, 1]), Some(7))
    );
    assert_eq!(target.chap, None);
}

#[test]
fn secrets_are_read_and_not_shown() {
    let table = table(&format!(
        "{TARGET} chap-name=host chap-secret=plantedsecret1 rev-chap-name=array rev-chap-name-secret=plantedsecret2"
    ));
    let chap = table.targets[0].chap.clone().unwrap();
    assert_eq!(
        (chap.name.as_str(), chap.secret.0.as_str()),
        ("host", "plantedsecret1")
    );
    let (name, secret) = chap.reverse.as_ref().unwrap();
    assert_eq!(
        (name.as_str(), secret.0.as_str()),
        ("array", "plantedsecret2")
    );
    assert!(!format!("{table:?} {}", table.targets[0]).contains("plantedsecret"));
}

#[test]
fn unusable_records_are_named() {
    for (change, fault) in [
        ("flags=0", None),
        (
            "target-name=",
            Some("target0: target-name: \"\" cannot be used; this target is ignored"),
        ),
        (
            "ip-addr=0.0.0.0",
            Some("target0: ip-addr: \"0.0.0.0\" cannot be used; this target is ignored"),
        ),
        (
            "port=0",
            Some("target0: port: \"0\" cannot be used; this target is ignored"),
        ),
        (
            "lun=1",
            Some("target0: lun: \"1\" cannot be used; this target is ignored"),
        ),
        (
            "chap-name=x",
            Some(
                "target0: chap-secret is missing, but there is a chap-name; this target is ignored",
            ),
        ),
        (
            "rev-chap-name=x rev-chap-name-secret=y",
            Some(
                "target0: chap-name is missing, but there is a rev-chap-name; this target is ignored",
            ),
        ),
    ] {
        let table = table(&format!("{TARGET} {change}"));
        assert!(table.targets.is_empty(), "{change}");
        assert_eq!(table.faults.first().map(String::as_str), fault, "{change}");
    }
    let nameless = BootTable::parse(&[], &[record("target0", TARGET)], &[]);
    assert_eq!(
        nameless.faults,
        [
            "expected a name of this initiator, found none; the targets are ignored -- enter the initiator name (IQN) in the firmware's iSCSI settings"
        ]
    );
}

#[test]
fn the_table_is_read_from_sysfs() {
    let root = tempfile::tempdir().unwrap();
    let sysfs = SystemPath::captured(root.path()).unwrap();
    assert_eq!(BootTable::read(&sysfs), None);
    for (path, content) in [
        ("initiator/initiator-name", "iqn.2010-04.org.example:host\n"),
        ("target1/target-name", "iqn.2003-01.org.example:y\n"),
        ("target1/ip-addr", "2001:db8::1\n"),
        ("target1/lun", "00000000\n"),
        ("target1/flags", "1\n"),
        ("acpi_header/signature", "iBFT\n"),
    ] {
        let path = root.path().join("firmware/ibft").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let table = BootTable::read(&sysfs).unwrap();
    assert_eq!(table.faults, [""; 0]);
    assert_eq!(table.targets[0].portal.to_string(), "[2001:db8::1]:3260");
}
