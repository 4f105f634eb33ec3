//! Fuzz functions for data from the kernel, the firmware and the devices.

use std::fs::File;

use landfall_inventory::hint_expression::Expression;
use landfall_inventory::lldp::{Frame, LldpParser, tlv};
use landfall_inventory::{ata_identify, disk_query, memory, smbios, vpd};
use landfall_nvme_boot::nbft::fixtures::correct_checksum;
use landfall_nvme_boot::nbft::{LARGEST, Nbft};
use landfall_nvme_boot::{FirmwareTable, connections, firmware_nics, nvme_tcp};
use landfall_parser_child::{Parser as _, Session};
use landfall_sys::uevent::Uevent;

/// Reads a uevent, the kernel's message about a device.
pub fn uevent(data: &[u8]) {
    if let Some(event) = Uevent::parse(data) {
        let _ = (event.subsystem(), event.modalias(), event.devtype());
    }
}

pub fn smbios(data: &[u8]) {
    for structure in smbios::structures(data) {
        let _ = (
            structure.byte(4),
            structure.word(4),
            structure.double_word(4),
        );
    }
    let _ = memory::modules_mib(data);
}

/// Reads the firmware's table NBFT, and makes the options for the kernel. No text of the
/// table may add an option.
pub fn nvme_boot_table(data: &[u8]) {
    let mut data = data[..data.len().min(LARGEST)].to_vec();
    correct_checksum(&mut data);
    let Ok(Some(content)) = Nbft::parse(&data) else {
        return;
    };
    let tables = [FirmwareTable {
        name: "NBFT".to_owned(),
        content,
    }];
    let _ = firmware_nics(&tables);
    for connection in connections(&tables).0 {
        let options = connection.options(&Default::default());
        assert!(options.len() < 1024 && !options.contains('\n'), "{options}");
        let keys = ["transport", "traddr", "trsvcid", "nqn", "hostnqn", "hostid"];
        let digests = ["hdr_digest", "data_digest"];
        let names = options
            .split(',')
            .filter_map(|option| option.split('=').next());
        for (at, name) in names.enumerate() {
            let expected = keys.get(at) == Some(&name) || digests.contains(&name);
            assert!(expected, "{options}");
        }
    }
}

/// Reads the answer of a target to the first request of an NVMe/TCP connection, as it
/// arrives byte by byte. Once the result is known, further bytes must not change it.
pub fn nvme_tcp_answer(data: &[u8]) {
    let data = &data[..data.len().min(nvme_tcp::INITIALIZE)];
    let mut decided = None;
    for length in 0..=data.len() {
        let answer = nvme_tcp::answer(&data[..length]);
        assert!(decided.is_none() || answer == decided, "{answer:?}");
        decided = answer;
    }
    assert!(decided.is_some() || data.len() < 10, "{data:?}");
    let is_answer = data.len() >= 8 && data[0] == 1;
    assert_eq!(decided == Some(Ok(())), is_answer);
}

/// Reads a page of a SCSI disk's vital product data.
pub fn vpd(data: &[u8]) {
    let _ = (vpd::unit_serial(data), vpd::pre_spc3_name(data));
    let _ = vpd::designators(data).count();
    let _ = vpd::lists(data, 0x83);
    let _ = (
        ata_identify::in_page_83(data),
        ata_identify::in_page_89(data),
    );
}

/// Reads IDENTIFY data as the disk sends it, and as text, in which a captured tree has
/// it (`landfall_inventory::disk_query`).
pub fn ata_identify(data: &[u8]) {
    let _ = ata_identify::parse(data);
    let text = String::from_utf8_lossy(data);
    if let Some(words) = disk_query::words(&text) {
        let _ = ata_identify::parse(&words);
    }
    let _ = disk_query::bytes(&text);
}

/// Reads an LLDP frame without its Ethernet header, as the agent's parser does in its
/// child process. The agent checks the answer of the parser and must accept it.
pub fn lldp(data: &[u8]) {
    /// In bytes: the maximum length of a frame that the agent receives.
    const LONGEST: usize = 1600;
    let data = &data[..data.len().min(LONGEST)];
    let Ok(nothing) = File::open("/dev/null") else {
        return;
    };
    let session = Session::start(nothing);
    let frame = session.and_then(|session| Frame::of(session, data.to_vec()));
    let frame = frame.unwrap_or_else(|error| panic!("{error}"));
    let elements = tlv::parse(data);
    assert_eq!(frame.elements, elements);
    assert_eq!(frame.switch, tlv::switch_in_words(&elements));
    check_frame(&frame, data);
    let bytes: usize = { elements.iter() }
        .map(|(_, digits)| 2 + digits.len() / 2)
        .sum();
    assert!(bytes + 1 >= data.len(), "bytes are left out");
    let answer = serde_json::to_string(&frame).unwrap_or_default();
    assert!(
        answer.len() <= LldpParser::LARGEST_ANSWER,
        "{}",
        answer.len()
    );
}

/// Checks what the agent relies on when it gets a frame from a parser.
pub(crate) fn check_frame(frame: &Frame, data: &[u8]) {
    let elements = &frame.elements;
    let bytes: usize = { elements.iter() }
        .map(|(_, digits)| 2 + digits.len() / 2)
        .sum();
    assert!(bytes <= data.len(), "{bytes} bytes");
    for (_, digits) in elements {
        let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        assert!(digits.len().is_multiple_of(2) && digits.chars().all(is_digit));
    }
    if let Some(words) = &frame.switch {
        assert!(!words.contains(char::is_control), "{words:?}");
        // Two names of 40 characters, and ` port ` between them.
        assert!(words.chars().count() <= 86, "{words:?}");
    }
    assert!(tlv::time_to_live(elements).as_secs() <= u16::MAX.into());
    let mut tags = tlv::vlan_tags(elements);
    assert!(tags.iter().all(|tag| (1..=4094).contains(tag)), "{tags:?}");
    let count = tags.len();
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(tags.len(), count, "a VLAN twice");
}

/// Compares a root device hint (first line) with a property of a disk (the
/// rest).
pub fn root_device_hint(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (hint, value) = text.split_once('\n').unwrap_or((&text, ""));
    if let Ok(expression) = Expression::for_text(hint) {
        let _ = (expression.matches_text(value), expression.is_exclusion());
    }
    if let Ok(expression) = Expression::for_size(hint) {
        let _ = expression.matches_size(value.parse().unwrap_or(100.0));
    }
}
