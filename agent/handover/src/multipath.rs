//! The kernel arguments of an installed CoreOS whose disk has several paths.

use crate::given_kargs::{GivenKargs, name};
use crate::install_coreos::CoreosChanges;

/// Without the first argument CoreOS mounts the disk by one path and does not survive the
/// failure of this path. The second argument makes the initramfs wait for the multipath
/// device, which is built on all paths. The documentation of Fedora CoreOS, "Installing
/// CoreOS on Bare Metal", section on multipath, passes all three arguments to
/// `coreos-installer install --append-karg`.
const ARGUMENTS: [&str; 3] = [
    "rd.multipath=default",
    "root=/dev/disk/by-label/dm-mpath-root",
    "rw",
];

/// If the operator appends one of these arguments, the agent adds none of [`ARGUMENTS`].
const DECISIONS: [&str; 2] = ["rd.multipath", "root"];

/// Returns these changes plus the arguments for a disk with several paths. Returns them
/// unchanged if they add `rd.multipath` or `root`, or if they delete one of the
/// arguments for such a disk.
pub fn for_several_paths(changes: &CoreosChanges) -> CoreosChanges {
    let given = GivenKargs::of(changes);
    let decides = |word: &&str| DECISIONS.contains(&name(word));
    if given.appended.iter().any(decides)
        || given.deleted.iter().any(|word| ARGUMENTS.contains(word))
    {
        tracing::info!(
            "the disk has several paths, and the kernel arguments of the installed system for them are those that were given"
        );
        return changes.clone();
    }
    tracing::info!(
        "the disk has several paths: the installed system gets {}",
        ARGUMENTS.join(" ")
    );
    given.with(changes, &ARGUMENTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(append: &[&str], delete: &[&str]) -> Vec<String> {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        let changes = CoreosChanges {
            append_kargs: texts(append),
            delete_kargs: texts(delete),
            ..CoreosChanges::default()
        };
        let changes = for_several_paths(&changes);
        changes.check().unwrap();
        assert_eq!(changes.delete_kargs.len(), delete.len());
        changes.append_kargs
    }

    #[test]
    fn the_documented_arguments_are_added_unless_the_operator_decides() {
        assert_eq!(arguments(&[], &[]), ARGUMENTS);
        assert_eq!(
            arguments(&["nosmt rw"], &["console=tty0"]),
            ["nosmt rw", ARGUMENTS[0], ARGUMENTS[1]]
        );
        for given in [
            "rd.multipath=0",
            "a rd.multipath=default",
            "root=UUID=1",
            "rd.multipath",
        ] {
            assert_eq!(arguments(&[given], &[]), [given]);
        }
        assert_eq!(arguments(&[], &["rd.multipath=default"]), [""; 0]);
        assert_eq!(arguments(&["rootflags=x"], &[]).len(), 4);
    }
}
