//! Maps Ethernet link modes to speeds.

/// The speed in Mbit/s of a bit of `enum ethtool_link_mode_bit_indices` in
/// <linux/ethtool.h>. `None` for bits of ports, pause frames or error correction, and for
/// modes newer than Linux 6.15.
fn speed(bit: usize) -> Option<u32> {
    Some(match bit {
        0 | 1 | 92 | 99..=102 => 10,
        2 | 3 | 67 | 90 | 91 => 100,
        4 | 5 | 17 | 41 | 68 => 1000,
        15 | 47 => 2500,
        48 => 5000,
        12 | 18..=20 | 42..=46 => 10_000,
        21 | 22 => 20_000,
        31..=33 => 25_000,
        23..=26 => 40_000,
        34 | 35 | 40 | 52..=56 => 50_000,
        27..=30 => 56_000,
        36..=39 | 57..=61 | 75..=79 => 100_000,
        62..=66 | 80..=84 | 103..=108 => 200_000,
        69..=73 | 85..=89 | 109..=114 => 400_000,
        93..=98 | 115..=120 => 800_000,
        _ => return None,
    })
}

/// The speed of the fastest mode in Mbit/s; `None` if no mode has a speed.
pub fn fastest(modes: &[usize]) -> Option<u32> {
    modes.iter().filter_map(|&bit| speed(bit)).max()
}

#[cfg(test)]
mod tests {
    use landfall_sys::skip::skip;

    use super::*;

    #[test]
    fn fastest_mode_counts() {
        // The modes that e1000e, mlx5 (25G) and virtio_net report.
        for (modes, expected) in [
            (vec![0, 1, 2, 3, 5, 6, 7], Some(1000)),
            (
                vec![6, 10, 13, 14, 17, 31, 32, 33, 41, 49, 50, 51],
                Some(25_000),
            ),
            (vec![], None),
            (vec![6, 7, 13], None),
            (vec![500], None),
        ] {
            assert_eq!(fastest(&modes), expected, "{modes:?}");
        }
    }

    /// Compares the table with the kernel header of this machine, if the header is
    /// installed. The header's names of the bits contain the speeds.
    #[test]
    fn table_agrees_with_the_header() {
        let Ok(header) = std::fs::read_to_string("/usr/include/linux/ethtool.h") else {
            return skip("no <linux/ethtool.h> on this machine");
        };
        let mut checked = 0;
        for line in header.lines() {
            let Some((name, bit)) = line
                .trim()
                .strip_prefix("ETHTOOL_LINK_MODE_")
                .and_then(|rest| rest.split_once("_BIT"))
            else {
                continue;
            };
            let Some(bit) = bit.trim().strip_prefix('=') else {
                continue;
            };
            let bit: usize = bit.trim().trim_end_matches(',').parse().unwrap();
            let expected = name
                .split_once("base")
                .map(|(speed, _)| speed.parse::<u32>().unwrap());
            assert_eq!(speed(bit), expected, "{name}");
            checked += 1;
        }
        assert!(checked > 60, "{checked} modes in the header");
    }
}
