//! The kernel arguments of an installed CoreOS whose disk is at the other end of an
//! NVMe/TCP connection that the firmware makes.

use crate::given_kargs::{GivenKargs, name};
use crate::install_coreos::CoreosChanges;

/// dracut's module `nvmf` connects what the firmware's table (NBFT) names, without an
/// argument, and NetworkManager configures the NICs of the table. But the scripts of CoreOS
/// look on the kernel command line: `netroot` makes them wait for the network before they
/// look for the disk, and keep the network when the initramfs ends
/// (coreos-diskful-generator and coreos-teardown-initramfs.sh of fedora-coreos-config, git
/// of 2024-10). The value is the one that dracut's module sets itself
/// (parse-nvmf-boot-connections.sh).
const ARGUMENTS: [&str; 2] = ["rd.neednet=1", "netroot=nbft"];

/// What an operator must not have decided otherwise.
const DECISION: &str = "netroot";
/// With one of these the installed system does not read the tables.
const IGNORES: [&str; 2] = ["rd.nvmf.nonbft", "rd.nonvmf"];

/// These changes and the arguments for a disk of the firmware's NVMe boot. They stay as
/// they are if they have or delete `netroot` themselves, or switch the tables off.
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
