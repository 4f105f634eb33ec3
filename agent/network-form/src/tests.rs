use std::sync::mpsc::channel;

use super::*;
use landfall_boot_params::NetArgs;
use landfall_network_plan::NetworkPlan;
use proptest::prelude::*;

/// The NICs `eth0` and `eth1`, whose addresses end in 1 and 2.
pub(super) fn nics() -> Vec<OfferedNic> {
    let nic = |number: u8| OfferedNic {
        name: format!("eth{number}"),
        other_names: vec![format!("ens{number}")],
        macs: vec![MacAddr([0x52, 0x54, 0, 0, 0, number + 1])],
        carrier: true,
        description: format!("52:54:00:00:00:0{}, virtio_net, carrier", number + 1),
    };
    vec![nic(0), nic(1)]
}

pub(super) fn prefill(plan: &NetworkPlan) -> Prefill {
    let becomes = |text: &str| NetworkPlan::for_boot(&NetArgs::parse(text));
    Prefill::of_plan(plan, &nics(), Values::default(), becomes)
}

fn of_arguments(arguments: &str) -> Prefill {
    prefill(&NetworkPlan::for_boot(&NetArgs::parse(arguments)))
}

#[test]
fn values_and_arguments_say_the_same() {
    for arguments in [
        "ip=eth0:auto",
        "ip=192.0.2.10::192.0.2.1:24::eth0:none nameserver=192.0.2.53 nameserver=192.0.2.54",
        "vlan=vlan5:eth0 ip=192.0.2.10::192.0.2.1:24::vlan5:none",
        "bond=bond0:eth0,eth1:mode=802.3ad,miimon=100 ip=192.0.2.10:::24::bond0:none",
        "bond=bond0:eth0,eth1:mode=active-backup,miimon=100 vlan=vlan4094:bond0 ip=192.0.2.10:::24::vlan4094:none",
        "ip=[2001:db8::10]::[2001:db8::1]:64::eth0:none nameserver=[2001:db8::53]",
        "ip=192.0.2.10::192.0.2.1:24:node7:eth0:none",
        "ip=::::node7:eth0:auto",
    ] {
        let prefill = of_arguments(arguments);
        assert_eq!(prefill.values.arguments().as_deref(), Ok(arguments));
        assert_eq!(prefill.notice(), None, "{arguments}");
    }
}

#[test]
fn an_invalid_value_is_rejected_in_its_field() {
    let good = Values {
        nic: "eth0".into(),
        address: "192.0.2.10/24".into(),
        ..Values::default()
    };
    let table: &[(Field, &str)] = &[
        (Field::Vlan, "0"),
        (Field::Vlan, "4095"),
        (Field::Vlan, "five"),
        (Field::Address, "192.0.2.10"),
        (Field::Address, "192.0.2.300/24"),
        (Field::Address, "192.0.2.10/33"),
        (Field::Gateway, "192.0.2"),
        (Field::Gateway, "2001:db8::1"),
        (Field::Dns, "dns.example.org"),
        (Field::Url, "192.0.2.1:6385"),
        (Field::Url, "http://x/\""),
    ];
    for (field, text) in table {
        let mut values = good.clone();
        (*text).clone_into(values.text_mut(*field).unwrap());
        let fault = values.arguments().unwrap_err();
        assert_eq!(fault.field, *field, "{text}: {}", fault.text);
    }
    let without_address = Values {
        address: String::new(),
        gateway: "192.0.2.1".into(),
        ..good
    };
    assert_eq!(
        without_address.arguments().unwrap_err().field,
        Field::Gateway
    );
}

#[test]
fn the_inventory_goes_to_the_given_service() {
    let values = |url: &str, path: Option<&str>| Values {
        nic: "eth0".into(),
        url: url.into(),
        inspection_path: path.map(str::to_owned),
        ..Values::default()
    };
    let path = Some("/v1/continue_inspection");
    for (url, path, arguments) in [
        (
            "http://h:6385",
            None,
            "ip=eth0:auto ipa-api-url=http://h:6385",
        ),
        (
            "http://h:6385",
            path,
            "ip=eth0:auto ipa-api-url=http://h:6385 \
             ipa-inspection-callback-url=http://h:6385/v1/continue_inspection",
        ),
        (
            "http://a,https://b",
            path,
            "ip=eth0:auto ipa-api-url=http://a,https://b \
             ipa-inspection-callback-url=http://a/v1/continue_inspection,https://b/v1/continue_inspection",
        ),
        ("mdns", path, "ip=eth0:auto ipa-api-url=mdns"),
        ("", path, "ip=eth0:auto"),
    ] {
        let mut values = values(url, path);
        assert_eq!(values.arguments().as_deref(), Ok(arguments));
        // The operator has not changed the URL of the boot.
        url.clone_into(&mut values.url_of_boot);
        assert_eq!(values.arguments().as_deref(), Ok("ip=eth0:auto"));
    }
}

/// A serial console keeps a log, and other people can see the screen.
#[test]
fn a_password_in_the_url_is_tried_but_never_shown() {
    let (tried, arguments) = channel();
    let try_arguments = move |text: &str| {
        tried.send(text.to_owned()).unwrap();
        Err(NetworkStays("the disk is being written"))
    };
    let mut form = NetworkForm::new(nics(), Prefill::default(), Box::new(try_arguments));
    form.press(Key::Up);
    form.press(Key::Up);
    for (typed, others) in [
        ("http://user:S3CRET@ironic.example.org/", ""),
        ("ftp://u:S3CRET@h", "expected"),
    ] {
        form.press(Key::Clear);
        for character in typed.chars() {
            form.press(Key::Char(character));
            let shown = text(&form);
            assert!(!shown.contains("S3") && !shown.contains("CRET"), "{shown}");
        }
        form.press(Key::Enter);
        form.press(Key::Enter);
        let shown = text(&form);
        assert!(!shown.contains("S3") && !shown.contains("CRET"), "{shown}");
        assert!(
            shown.contains(others) && shown.contains("not tried: "),
            "{shown}"
        );
        form.press(Key::Up);
    }
    let tried = arguments.recv().unwrap();
    let expected = "ip=eth0:auto ipa-api-url=http://user:S3CRET@ironic.example.org/";
    assert_eq!(tried, expected);
}

fn type_text(form: &mut NetworkForm, text: &str) {
    for character in text.chars() {
        assert!(form.press(Key::Char(character)));
    }
}

fn text(form: &NetworkForm) -> String {
    let lines = form.lines(80);
    // A terminal on a serial line has 24 lines.
    assert!(lines.len() <= 24, "{}", lines.len());
    let texts: Vec<String> = lines.into_iter().map(|line| line.text).collect();
    assert!(texts.iter().all(|line| line.len() <= 80), "{texts:#?}");
    texts.join("\n")
}

#[test]
fn keys_correct_a_vlan_and_try_it() {
    let (tried, arguments) = channel();
    let start = of_arguments("vlan=eth0.5:eth0 ip=192.0.2.10::192.0.2.1:24::eth0.5:none");
    let try_arguments = move |text: &str| {
        tried.send(text.to_owned()).unwrap();
        Ok(())
    };
    let mut form = NetworkForm::new(nics(), start, Box::new(try_arguments));
    for _ in 0..3 {
        form.press(Key::Down);
    }
    form.press(Key::Backspace);
    type_text(&mut form, "4095");
    assert!(text(&form).contains("VLAN: expected a number from 1 to 4094"));
    form.press(Key::Clear);
    type_text(&mut form, "7");
    looks_like_the_guide(&form);
    for _ in 0..5 {
        assert!(form.press(Key::Enter));
    }
    assert!(!form.press(Key::Enter), "the form closes");
    assert_eq!(
        arguments.recv().unwrap(),
        "vlan=vlan7:eth0 ip=192.0.2.10::192.0.2.1:24::vlan7:none"
    );
}

/// Checks that the guide shows this form.
pub(super) fn looks_like_the_guide(form: &NetworkForm) {
    let guide = include_str!("../../../docs/guide.md");
    let lines = text(form);
    let lines: Vec<&str> = lines.lines().map(str::trim_end).collect();
    assert!(guide.contains(&lines.join("\n")), "{lines:#?}");
}

#[test]
fn choices_go_round_and_a_refusal_keeps_the_form_open() {
    let refuse = |_: &str| Err(NetworkStays("the disk is being written"));
    let mut form = NetworkForm::new(nics(), Prefill::default(), Box::new(refuse));
    form.press(Key::Right);
    assert_eq!(form.values.nic, "eth1");
    form.press(Key::Right);
    assert_eq!(form.values.nic, "eth0");
    form.press(Key::Down);
    for expected in [Some("eth1"), None, Some("eth1")] {
        form.press(Key::Right);
        assert_eq!(form.values.second.as_deref(), expected);
    }
    form.press(Key::Down);
    form.press(Key::Left);
    assert!(text(&form).contains("bond=bond0:eth0,eth1:mode=802.3ad,miimon=100"));
    form.press(Key::Up);
    form.press(Key::Up);
    form.press(Key::Up);
    assert!(form.press(Key::Enter), "it stays open");
    assert!(text(&form).contains("not tried: the disk is being written"));
    assert!(!form.press(Key::Escape));
}

#[test]
fn a_machine_without_a_nic_shows_a_message() {
    let mut form = NetworkForm::new(Vec::new(), Prefill::default(), Box::new(|_| Ok(())));
    form.press(Key::Right);
    assert!(text(&form).contains("this machine has no NIC"));
}

fn keys() -> impl Strategy<Value = Key> {
    prop_oneof![
        8 => prop::char::range(' ', '~').prop_map(Key::Char),
        1 => Just(Key::Enter),
        1 => Just(Key::Backspace),
        1 => Just(Key::Clear),
        2 => Just(Key::Up),
        4 => Just(Key::Down),
        1 => Just(Key::Left),
        1 => Just(Key::Right),
    ]
}

proptest! {
    /// Presses any keys, including pasted garbage. The form's lines must always fit,
    /// and the kernel arguments that the form tries must have no fault.
    #[test]
    fn any_keys_leave_a_form_that_fits(
        typed in prop::collection::vec(keys(), 0..600), width in 1_usize..120,
    ) {
        let (tried, arguments) = channel();
        let try_arguments = move |text: &str| {
            tried.send(text.to_owned()).unwrap();
            Ok(())
        };
        let mut form = NetworkForm::new(nics(), Prefill::default(), Box::new(try_arguments));
        for key in typed {
            if !form.press(key) {
                break;
            }
        }
        for line in form.lines(width) {
            prop_assert!(line.text.len() <= width, "{:?}", line.text);
            prop_assert!(line.text.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        }
        for text in arguments.try_iter() {
            let plan = landfall_network_plan::NetworkPlan::from_boot_args(&NetArgs::parse(&text));
            prop_assert!(plan.warnings.is_empty(), "{text}: {:?}", plan.warnings);
        }
    }
}
