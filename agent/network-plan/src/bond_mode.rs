//! The names of a bond's modes.

/// The kernel's names (`bonding.rst`), each at its number.
const MODES: [&str; 7] = [
    "balance-rr",
    "active-backup",
    "balance-xor",
    "broadcast",
    "802.3ad",
    "balance-tlb",
    "balance-alb",
];

/// The name of a mode that is given by name or number.
pub fn bond_mode(text: &str) -> Option<&'static str> {
    match text.parse::<usize>() {
        Ok(number) => MODES.get(number).copied(),
        Err(_) => MODES.iter().find(|mode| **mode == text).copied(),
    }
}

/// The kernel's number of a mode.
pub fn bond_mode_number(name: &str) -> Option<u8> {
    let index = MODES.iter().position(|mode| *mode == name)?;
    u8::try_from(index).ok()
}
