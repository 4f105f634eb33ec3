//! Fuzz functions for the firmware's table of iSCSI targets, and for the answers of a
//! target to a login.

use landfall_boot_params::FirmwareRecord;
use landfall_boot_params::argument_value::Secret;
use landfall_iscsi::login::{Login, Next, Wish};
use landfall_iscsi::pdu::{self, HEADER, LoginResponse, MOST_DATA};
use landfall_iscsi::{BootTable, Chap};

/// Reads the firmware's table from lines `DIRECTORY/FILE=CONTENT`, like the files below
/// `/sys/firmware/ibft`.
pub fn ibft(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let mut records: Vec<FirmwareRecord> = Vec::new();
    for line in text.lines() {
        let Some((path, content)) = line.split_once('=') else {
            continue;
        };
        let Some((name, file)) = path.split_once('/') else {
            continue;
        };
        let known = records.iter().position(|record| record.name == name);
        let at = known.unwrap_or_else(|| {
            records.push(FirmwareRecord {
                name: name.to_owned(),
                ..FirmwareRecord::default()
            });
            records.len() - 1
        });
        records[at]
            .files
            .insert(file.to_owned(), content.to_owned());
    }
    let of = |prefix: &str| -> Vec<FirmwareRecord> {
        let records = records.iter();
        let records = records.filter(|record| record.name.starts_with(prefix));
        records.cloned().collect()
    };
    let table = BootTable::parse(&of("initiator"), &of("target"), &of("ethernet"));
    for target in table.targets {
        assert!(target.portal.port() != 0 && !target.portal.ip().is_unspecified());
        assert!(!target.name.is_empty() && !target.name.contains(char::is_whitespace));
        assert!(!table.initiator.is_empty());
    }
}

/// Logs in to a target. The first byte chooses the authentication. The target's
/// responses follow, each with its padding.
pub fn iscsi_login(data: &[u8]) {
    let Some((choice, mut rest)) = data.split_first() else {
        return;
    };
    let secret = |text: &str| Secret(text.to_owned());
    let must_prove = choice % 3 == 2;
    let chap = (choice % 3 != 0).then(|| Chap {
        name: "host".to_owned(),
        secret: secret("secretsecret"),
        reverse: must_prove.then(|| ("array".to_owned(), secret("otherothersecret"))),
    });
    let mut login = Login::new(Wish {
        initiator: "iqn.2010-04.org.example:host".to_owned(),
        target: "iqn.2003-01.org.example:disk".to_owned(),
        isid: [0x80, 1, 2, 3, 0, 0],
        chap,
    });
    login.first().encode();
    while let Some((header, after)) = rest.split_first_chunk::<HEADER>() {
        let Ok(length) = pdu::data_length(header) else {
            return;
        };
        let length = pdu::padded(length).min(after.len());
        let Ok(response) = LoginResponse::parse(header, &after[..length]) else {
            return;
        };
        rest = &after[length..];
        match login.answer(&response) {
            Ok(Next::Send(request)) => {
                assert!(request.encode().len() <= HEADER + MOST_DATA);
            }
            Ok(Next::Done(session)) => {
                assert!(
                    !must_prove,
                    "nobody can know the answer to a random challenge"
                );
                assert!(session.agreed.longest_first_burst <= session.agreed.longest_burst);
                return;
            }
            Ok(Next::Elsewhere(to)) => return assert!(to.port != 0),
            Err(fault) => return assert!(!fault.cause().remedy().is_empty()),
        }
    }
}
