//! The names of the processor cores of aarch64 servers, as lscpu prints them.

/// Implementer and part number (Arm, `MIDR_EL1`; the kernel's
/// `arch/arm64/include/asm/cputype.h`), and the name of the core.
const CORES: [(u16, u16, &str); 24] = [
    (0x41, 0xd03, "Cortex-A53"),
    (0x41, 0xd07, "Cortex-A57"),
    (0x41, 0xd08, "Cortex-A72"),
    (0x41, 0xd09, "Cortex-A73"),
    (0x41, 0xd0a, "Cortex-A75"),
    (0x41, 0xd0b, "Cortex-A76"),
    (0x41, 0xd0c, "Neoverse-N1"),
    (0x41, 0xd40, "Neoverse-V1"),
    (0x41, 0xd42, "Cortex-A78AE"),
    (0x41, 0xd49, "Neoverse-N2"),
    (0x41, 0xd4a, "Neoverse-E1"),
    (0x41, 0xd4f, "Neoverse-V2"),
    (0x41, 0xd83, "Neoverse-V3AE"),
    (0x41, 0xd84, "Neoverse-V3"),
    (0x41, 0xd8e, "Neoverse-N3"),
    (0x43, 0x0a1, "ThunderX"),
    (0x43, 0x0af, "ThunderX2-99xx"),
    (0x46, 0x001, "A64FX"),
    (0x48, 0xd01, "TaiShan-v110"),
    (0x48, 0xd02, "TaiShan-v120"),
    (0x50, 0x000, "X-Gene"),
    (0x51, 0xc00, "Falkor"),
    (0xc0, 0xac3, "Ampere-1"),
    (0xc0, 0xac4, "Ampere-1a"),
];

/// The name of a core; `None` if [`CORES`] does not list it.
pub(crate) fn name(implementer: u16, part: u16) -> Option<&'static str> {
    let core = CORES
        .iter()
        .find(|core| (core.0, core.1) == (implementer, part));
    core.map(|core| core.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_names_each_core_once() {
        assert!(CORES.is_sorted_by(|a, b| (a.0, a.1) < (b.0, b.1)));
        assert_eq!(name(0xc0, 0xac3), Some("Ampere-1"));
        assert_eq!(name(0xc0, 0xd0c), None);
    }
}
