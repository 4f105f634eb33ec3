//! The kernel arguments of an installed CoreOS whose disk is an iSCSI target of the
//! firmware.

use crate::install_coreos::CoreosChanges;

/// The initramfs logs in to the firmware's targets, over the NIC as the firmware configures
/// it (dracut.cmdline(7), "iSCSI"). assisted-installer and the documentation of CoreOS give
/// the same two.
const FIRMWARE: &str = "rd.iscsi.firmware=1";
const NETWORK: &str = "ip=ibft";

/// What an operator must not have decided otherwise.
const DECISIONS: [&str; 3] = ["rd.iscsi.firmware", "netroot", "rd.iscsi.initiator"];

/// These changes and the arguments for a disk on an iSCSI target of the firmware. They stay
/// as they are if they name the target themselves, or delete one of these arguments. A
/// network in the arguments takes the place of the firmware's.
pub fn for_firmware_target(changes: &CoreosChanges) -> CoreosChanges {
    let mut changes = changes.clone();
    let words = |list: &[String]| -> Vec<String> {
        let words = list.iter().flat_map(|text| text.split_whitespace());
        words.map(str::to_owned).collect()
    };
    let (appended, deleted) = (words(&changes.append_kargs), words(&changes.delete_kargs));
    let is_deleted = |argument: &str| deleted.iter().any(|word| word == argument);
    let decides = |word: &String| DECISIONS.contains(&name(word));
    if appended.iter().any(decides) || is_deleted(FIRMWARE) {
        tracing::info!(
            "the disk is an iSCSI target of the firmware, and the kernel arguments of the installed system for it are those that were given"
        );
        return changes;
    }
    let mut new = vec![FIRMWARE];
    if !appended.iter().any(|word| name(word) == "ip") && !is_deleted(NETWORK) {
        new.push(NETWORK);
    }
    tracing::info!(
        "the disk is an iSCSI target of the firmware: the installed system gets {}",
        new.join(" ")
    );
    changes
        .append_kargs
        .extend(new.into_iter().map(str::to_owned));
    changes
}

fn name(word: &str) -> &str {
    word.split_once('=').map_or(word, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_added_unless_the_operator_decides() {
        let arguments = |append: &[&str], delete: &[&str]| {
            let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
            let changes = CoreosChanges {
                append_kargs: texts(append),
                delete_kargs: texts(delete),
                ..CoreosChanges::default()
            };
            let changes = for_firmware_target(&changes);
            changes.check().unwrap();
            changes.append_kargs
        };
        assert_eq!(arguments(&[], &[]), [FIRMWARE, NETWORK]);
        assert_eq!(
            arguments(&["nosmt ip=dhcp"], &[]),
            ["nosmt ip=dhcp", FIRMWARE]
        );
        assert_eq!(arguments(&[], &["ip=ibft"]), [FIRMWARE]);
        for given in [
            "rd.iscsi.firmware=0",
            "x netroot=iscsi:192.0.2.1::::iqn",
            "rd.iscsi.firmware",
        ] {
            assert_eq!(arguments(&[given], &[]), [given]);
        }
        assert_eq!(arguments(&[], &["rd.iscsi.firmware=1"]), [""; 0]);
    }
}
