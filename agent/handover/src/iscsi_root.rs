//! The kernel arguments of an installed CoreOS whose disk is an iSCSI target of the
//! firmware.

use crate::given_kargs::{GivenKargs, name};
use crate::install_coreos::CoreosChanges;

/// The initramfs logs in to the firmware's targets, over the NIC as the firmware
/// configures it (dracut.cmdline(7), "iSCSI"). assisted-installer and the documentation
/// of CoreOS give the same two arguments as this module.
const FIRMWARE: &str = "rd.iscsi.firmware=1";
const NETWORK: &str = "ip=ibft";

/// If the operator appends one of these arguments, the agent adds none.
const DECISIONS: [&str; 3] = ["rd.iscsi.firmware", "netroot", "rd.iscsi.initiator"];

/// Returns these changes plus the arguments for a disk on an iSCSI target of the
/// firmware. Returns them unchanged if they already name the target, or delete
/// `rd.iscsi.firmware=1`. Does not add `ip=ibft` if the changes append an `ip` argument
/// or delete `ip=ibft`.
pub fn for_firmware_target(changes: &CoreosChanges) -> CoreosChanges {
    let given = GivenKargs::of(changes);
    let decides = |word: &&str| DECISIONS.contains(&name(word));
    if given.appended.iter().any(decides) || given.deleted.contains(&FIRMWARE) {
        tracing::info!(
            "the disk is an iSCSI target of the firmware, and the kernel arguments of the installed system for it are those that were given"
        );
        return changes.clone();
    }
    let mut new = vec![FIRMWARE];
    let has_network = given.appended.iter().any(|word| name(word) == "ip");
    if !has_network && !given.deleted.contains(&NETWORK) {
        new.push(NETWORK);
    }
    tracing::info!(
        "the disk is an iSCSI target of the firmware: the installed system gets {}",
        new.join(" ")
    );
    given.with(changes, &new)
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
