use proptest::prelude::*;

use super::*;
use crate::ParseError;

const GOOD: &str = "\
landfall-left-out 1
module e100
pci 80861209
module ax88179_178a
usb 0B951790
alias usb:v0B95p178Ad*dc*dsc*dp*icFFisc*ip*in*
firmware bnx2 bnx2/bnx2-mips-06-6.2.3.fw firmware-bnx2
firmware ice intel/ice/ddp/ice.pkg firmware-misc-nonfree (Debian 12), firmware-intel-misc (Debian 13)
firmware acme acme/*.bin
end
";

#[test]
fn good_text_is_understood_and_written_alike() {
    let content = LeftOut::parse(GOOD).unwrap();
    assert_eq!(content.to_text().unwrap(), GOOD);
    for (modalias, modules) in [
        (
            "pci:v00008086d00001209sv00001AF4sd00001100bc02sc00i00",
            &["e100"][..],
        ),
        ("pci:v00008086d0000120Asv00001AF4sd00001100bc02sc00i00", &[]),
        (
            "usb:v0B95p1790d0100dc00dsc00dp00icFFiscFFip00in00",
            &["ax88179_178a"],
        ),
        (
            "usb:v0B95p178Ad0100dc00dsc00dp00icFFiscFFip00in00",
            &["ax88179_178a"],
        ),
        ("usb:v0B95p178Ad0100dc00dsc00dp00ic02iscFFip00in00", &[]),
        ("", &[]),
    ] {
        assert_eq!(content.modules_for(modalias), modules, "{modalias}");
    }
    for (path, package) in [
        ("bnx2/bnx2-mips-06-6.2.3.fw", Some("firmware-bnx2")),
        ("acme/nic.bin", Some("")),
        ("other.bin", None),
    ] {
        let found = content.firmware(path).map(|file| file.package.as_str());
        assert_eq!(found, package, "{path}");
    }
}

#[test]
fn aliases_of_nothing_but_two_numbers_are_shortened() {
    for (alias, expected) in [
        (
            "pci:v00008086d00001572sv*sd*bc*sc*i*",
            DevicePattern::Pci {
                vendor: 0x8086,
                device: 0x1572,
            },
        ),
        (
            "usb:v0BDAp8153d*dc*dsc*dp*ic*isc*ip*in*",
            DevicePattern::Usb {
                vendor: 0x0bda,
                product: 0x8153,
            },
        ),
    ] {
        assert_eq!(DevicePattern::of_alias(alias), expected, "{alias}");
    }
    for alias in [
        "pci:v00001000d*sv*sd*bc*sc*i*",
        "pci:v00001000d00000097sv00001028sd*bc*sc*i*",
        "pci:v00001000d0000009fsv*sd*bc*sc*i*",
        "usb:v*p*d*dc*dsc*dp*ic08isc06ip50in*",
        "pci:v0000\u{e4}",
    ] {
        let expected = DevicePattern::Alias(alias.to_owned());
        assert_eq!(DevicePattern::of_alias(alias), expected, "{alias}");
    }
}

#[test]
fn every_fault_has_its_line() {
    let head = "landfall-left-out 1\n";
    for (text, expected) in [
        (
            "",
            "list of left-out drivers line 1: expected `landfall-left-out 1`",
        ),
        (
            head,
            "list of left-out drivers line 2: expected `end`: the text is cut off",
        ),
        (
            "landfall-left-out 1\npci 80861209\nend\n",
            "list of left-out drivers line 2: expected a `module` line before its devices",
        ),
        (
            "landfall-left-out 1\nmodule a\npci 8086120\nend\n",
            "list of left-out drivers line 3: expected `module`, `pci`, `usb`, `alias`, `firmware` or `end`",
        ),
        (
            "landfall-left-out 1\nfirmware a\nend\n",
            "list of left-out drivers line 2: expected `firmware DRIVER FILE [PACKAGE]`",
        ),
        (
            "landfall-left-out 1\nend\nmodule a\n",
            "list of left-out drivers line 3: expected nothing after `end`",
        ),
    ] {
        assert_eq!(LeftOut::parse(text).unwrap_err().to_string(), expected);
    }
    let long = "x".repeat(MAX_LEFT_OUT_BYTES + 1);
    let error = LeftOut::parse(&long).unwrap_err();
    assert!(
        matches!(error, ParseError::LeftOutTooLarge { .. }),
        "{error}"
    );
}

#[test]
fn an_error_of_writing_names_the_list() {
    let mut content = LeftOut::default();
    content.modules.push(LeftOutModule {
        name: "a b".to_owned(),
        devices: Vec::new(),
    });
    assert_eq!(
        content.to_text().unwrap_err().to_string(),
        "list of left-out drivers: module name `a b` is empty or contains white space or a control character"
    );
    content.modules[0].name = "a".repeat(MAX_LEFT_OUT_BYTES);
    let error = content.to_text().unwrap_err().to_string();
    let expected = "the written text cannot be read back: list of left-out drivers is ";
    assert!(error.starts_with(expected), "{error}");
}

fn device() -> impl Strategy<Value = DevicePattern> {
    prop_oneof![
        any::<(u16, u16)>().prop_map(|(vendor, device)| DevicePattern::Pci { vendor, device }),
        any::<(u16, u16)>().prop_map(|(vendor, product)| DevicePattern::Usb { vendor, product }),
        "[a-z]{1,4}:[ -~]{0,20}".prop_map(DevicePattern::Alias),
    ]
}

fn content() -> impl Strategy<Value = LeftOut> {
    let module = ("[a-z0-9_]{1,8}", prop::collection::vec(device(), 0..4))
        .prop_map(|(name, devices)| LeftOutModule { name, devices });
    let firmware = ("[a-z0-9_]{1,8}", "[!-~]{1,12}", "([!-~][ -~]{0,12})?").prop_map(
        |(driver, path, package)| LeftOutFirmware {
            driver,
            path,
            package,
        },
    );
    (
        prop::collection::vec(module, 0..4),
        prop::collection::vec(firmware, 0..4),
    )
        .prop_map(|(modules, firmware)| LeftOut { modules, firmware })
}

proptest! {
    #[test]
    fn a_written_list_is_read_back(content in content()) {
        let text = content.to_text().unwrap();
        prop_assert_eq!(LeftOut::parse(&text).unwrap(), content);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(landfall-left-out 1\n)?([a-z]{0,8} ?[ -~]{0,12}\n){0,4}(end\n)?") {
        let _ = LeftOut::parse(&text);
    }
}
