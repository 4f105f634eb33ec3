//! Reads the memory use of the agent. Operators of small machines ask for this
//! figure.

use std::fs;

/// `VmRSS` and `VmHWM` of this process in KiB: current and peak resident memory.
pub fn resident_and_peak_kib() -> Option<(u64, u64)> {
    parse(&fs::read_to_string("/proc/self/status").ok()?)
}

fn parse(status: &str) -> Option<(u64, u64)> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some((field("VmRSS:")?, field("VmHWM:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_proc_status() {
        let text = "Name:\tx\nVmHWM:\t    9000 kB\nVmRSS:\t    8192 kB\n";
        assert_eq!(parse(text), Some((8192, 9000)));
        assert_eq!(parse("Name:\tx\n"), None);
    }
}
