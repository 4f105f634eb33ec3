//! Fuzz functions for the bytes of a terminal, or of a serial line with noise, and for the
//! firmware's table of its serial port.

use std::sync::mpsc::{Sender, channel};

use landfall_boot_params::NetArgs;
use landfall_network_form::{NetworkForm, NetworkStays, OfferedNic, Prefill, Values};
use landfall_network_plan::NetworkPlan;
use landfall_report::form::{Form as _, Key};
use landfall_report::{FirmwarePort, KeyDecoder};

/// A pause between two keys. No character in UTF-8 contains this byte.
const PAUSE: u8 = 0xff;

/// Reads the firmware's table SPCR.
pub fn serial_port_table(data: &[u8]) {
    if let Some(port) = FirmwarePort::of_table(data) {
        assert!((300..=4_000_000).contains(&port.speed));
    }
}

/// Types keys into the network form. The first byte is the width of the terminal, the
/// second byte the number of NICs, and the rest are the keys. A form that closes is
/// opened again.
pub fn keys(data: &[u8]) {
    let [width, nics, bytes @ ..] = data else {
        return;
    };
    let width = usize::from(*width).max(1);
    let (tried, arguments) = channel();
    let mut form = form(nics % 4, tried.clone());
    for key in decoded(bytes) {
        let stays_open = form.press(key);
        if matches!(key, Key::Enter | Key::Escape) {
            check_lines(&form, width);
        }
        if !stays_open {
            form = self::form(nics % 4, tried.clone());
        }
    }
    check_lines(&form, width);
    for text in arguments.try_iter() {
        assert!(!text.contains(char::is_control), "{text:?}");
        let plan = NetworkPlan::from_boot_args(&NetArgs::parse(&text));
        assert!(plan.warnings.is_empty(), "{text}: {:?}", plan.warnings);
    }
}

fn decoded(bytes: &[u8]) -> Vec<Key> {
    let mut decoder = KeyDecoder::default();
    let mut keys = Vec::new();
    for byte in bytes {
        if *byte == PAUSE && decoder.is_incomplete() {
            keys.extend(decoder.end());
        } else {
            keys.extend(decoder.next(*byte));
        }
    }
    keys.extend(decoder.end());
    assert!(keys.len() <= bytes.len());
    let is_typed = |key: &Key| match key {
        Key::Char(character) => matches!(character, ' '..='~'),
        _ => true,
    };
    assert!(keys.iter().all(is_typed), "{keys:?}");
    // After any input, the decoder must recognise the next key.
    assert_eq!(decoder.next(b'\r'), Some(Key::Enter));
    keys
}

/// The form of a machine that booted with a VLAN and a second NIC. The form rejects
/// arguments whose length is odd.
fn form(nics: u8, tried: Sender<String>) -> NetworkForm {
    let nics = (0..nics).map(|number| OfferedNic {
        name: format!("eth{number}"),
        other_names: Vec::new(),
        macs: Vec::new(),
        carrier: true,
        description: format!("52:54:00:00:00:0{number}, virtio_net, carrier"),
    });
    let nics = nics.collect::<Vec<_>>();
    let plan = |text: &str| NetworkPlan::for_boot(&NetArgs::parse(text));
    let args = "vlan=vlan5:eth0 ip=192.0.2.10::192.0.2.1:24::vlan5:none ip=eth1:dhcp";
    let prefill = Prefill::of_plan(&plan(args), &nics, Values::default(), plan);
    let try_arguments = move |text: &str| {
        let sent = tried.send(text.to_owned());
        sent.map_err(|_| NetworkStays("the agent is ending"))?;
        match text.len() % 2 {
            0 => Ok(()),
            _ => Err(NetworkStays(
                "the disk is being written; reset the machine first",
            )),
        }
    };
    NetworkForm::new(nics, prefill, Box::new(try_arguments))
}

fn check_lines(form: &NetworkForm, width: usize) {
    for line in form.lines(width) {
        let text = &line.text;
        assert!(text.chars().count() <= width, "{text:?} in {width} columns");
        assert!(text.chars().all(|c| matches!(c, ' '..='~')), "{text:?}");
    }
}
