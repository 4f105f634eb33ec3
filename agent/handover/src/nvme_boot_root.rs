//! The kernel arguments of an installed CoreOS on a disk that the firmware connects
//! over NVMe/TCP.

use crate::given_kargs::{GivenKargs, name};
use crate::install_coreos::CoreosChanges;

/// dracut's module `nvmf` needs no argument to connect the disks that the firmware's
/// table (NBFT) names, and NetworkManager configures the NICs of the table. But the
/// scripts of CoreOS read the kernel command line: with `netroot` they wait for the
/// network before they look for the disk, and keep the network when the initramfs ends
/// (coreos-diskful-generator and coreos-teardown-initramfs.sh of fedora-coreos-config,
/// git of 2024-10). dracut's module itself sets the same value
/// (parse-nvmf-boot-connections.sh).
const ARGUMENTS: [&str; 2] = ["rd.neednet=1", "netroot=nbft"];

/// If the operator appends or deletes this argument, the agent adds none.
const DECISION: &str = "netroot";
/// With one of these arguments the installed system does not read the NBFTs.
const IGNORES: [&str; 2] = ["rd.nvmf.nonbft", "rd.nonvmf"];

/// Returns these changes plus the arguments for a disk that the firmware connects by
/// NVMe/TCP. Returns them unchanged if they append or delete `netroot`, or if they append
/// `rd.nvmf.nonbft` or `rd.nonvmf`.
pub fn for_nvme_boot(changes: &CoreosChanges) -> CoreosChanges {
    let given = GivenKargs::of(changes);
    let mut all = given.appended.iter().chain(&given.deleted);
    let ignores = |word: &&str| IGNORES.contains(&name(word));
    if all.any(|word| name(word) == DECISION) || given.appended.iter().any(ignores) {
        return changes.clone();
    }
    tracing::info!(
        "the disk is in a storage network: the installed system gets {}",
        ARGUMENTS.join(" ")
    );
    given.with(changes, &ARGUMENTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_added_unless_the_operator_decides() {
        for (append, delete, expected) in [
            (&[][..], &[][..], &ARGUMENTS[..]),
            (
                &["a rd.neednet=1"],
                &["b"],
                &["a rd.neednet=1", ARGUMENTS[1]],
            ),
            (&["netroot=iscsi:x"], &[], &["netroot=iscsi:x"]),
            (&[], &["netroot=nbft"], &[]),
            (&["rd.nvmf.nonbft"], &[], &["rd.nvmf.nonbft"]),
        ] {
            let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
            let changes = CoreosChanges {
                append_kargs: texts(append),
                delete_kargs: texts(delete),
                ..CoreosChanges::default()
            };
            let changes = for_nvme_boot(&changes);
            changes.check().unwrap();
            assert_eq!(changes.append_kargs, expected);
        }
    }
}
