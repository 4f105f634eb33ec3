//! The kernel argument of an installed CoreOS whose disk is a software RAID array.

use uuid::Uuid;

use crate::given_kargs::{GivenKargs, name};
use crate::install_coreos::CoreosChanges;

/// dracut assembles no arrays unless one of these arguments requests it
/// (dracut.cmdline(7), "MD RAID").
const DECISIONS: [&str; 2] = ["rd.md.uuid", "rd.auto"];

/// Returns these changes plus the argument that makes the initramfs assemble the array.
/// Returns them unchanged if they already add or delete `rd.md.uuid` or `rd.auto`.
pub fn for_array(changes: &CoreosChanges, array: Uuid) -> CoreosChanges {
    let given = GivenKargs::of(changes);
    let mut all = given.appended.iter().chain(&given.deleted);
    if all.any(|word| DECISIONS.contains(&name(word))) {
        return changes.clone();
    }
    let argument = format!("rd.md.uuid={}", mdadm_text(array));
    tracing::info!("the disk is a software RAID: the installed system gets {argument}");
    given.with(changes, &[&argument])
}

/// The UUID as mdadm writes it: four groups of eight digits.
fn mdadm_text(array: Uuid) -> String {
    let digits = array.simple().to_string();
    let groups = [&digits[..8], &digits[8..16], &digits[16..24], &digits[24..]];
    groups.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_array_is_named_unless_the_operator_decides() {
        let array = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let with = |append: &[&str], delete: &[&str]| {
            let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
            let changes = CoreosChanges {
                append_kargs: texts(append),
                delete_kargs: texts(delete),
                ..CoreosChanges::default()
            };
            let changes = for_array(&changes, array);
            changes.check().unwrap();
            changes.append_kargs
        };
        let named = "rd.md.uuid=01234567:89abcdef:01234567:89abcdef";
        assert_eq!(with(&["nosmt"], &[]), ["nosmt", named]);
        assert_eq!(with(&["a rd.auto=1"], &[]), ["a rd.auto=1"]);
        assert_eq!(with(&["rd.md.uuid=x"], &[]), ["rd.md.uuid=x"]);
        assert_eq!(with(&[], &["rd.md.uuid=x"]), [""; 0]);
    }
}
