//! Summarises the processors in the same way as lscpu.

use std::collections::BTreeSet;

use super::arm_core;
use super::report_types::Cpu;
use super::system_path::SystemPath;
use super::{Warning, sysfs};

/// Reads /proc/cpuinfo and /sys/devices/system/cpu. The architecture is always that
/// of the running kernel, even if `root` is a captured tree.
pub fn collect(root: &SystemPath) -> (Cpu, Vec<Warning>) {
    let cpuinfo = sysfs::text(&root.join("proc/cpuinfo")).unwrap_or_default();
    let directory = root.join("sys/devices/system/cpu");
    let present = sysfs::text(&directory.join("present"))
        .map(|list| cpu_list(&list))
        .filter(|cpus| !cpus.is_empty())
        .unwrap_or_else(|| (0..values(&cpuinfo, "processor").count()).collect());
    let cpu = Cpu {
        model_name: values(&cpuinfo, "model name")
            .next()
            .map(str::to_owned)
            .or_else(|| arm_model(&cpuinfo))
            .unwrap_or_default(),
        frequency: max_frequency(&directory, &present).unwrap_or_default(),
        count: present.len(),
        architecture: machine(),
        // On arm64 the line is called `Features`.
        flags: values(&cpuinfo, "flags")
            .chain(values(&cpuinfo, "Features"))
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
        socket_count: sockets(&directory, &present, &cpuinfo),
    };
    let mut warnings = Vec::new();
    if cpu.count == 0 {
        warnings.push(Warning::new(
            "no processor in /proc/cpuinfo and /sys: their number and model are unknown",
        ));
    }
    (cpu, warnings)
}

/// The name of the core. On arm64, /proc/cpuinfo has only the numbers of the core's
/// implementer and type.
fn arm_model(cpuinfo: &str) -> Option<String> {
    let number = |key| {
        let text = values(cpuinfo, key).next()?;
        u16::from_str_radix(text.strip_prefix("0x")?, 16).ok()
    };
    let core = arm_core::name(number("CPU implementer")?, number("CPU part")?);
    core.map(str::to_owned)
}

fn machine() -> String {
    nix::sys::utsname::uname()
        .ok()
        .and_then(|names| names.machine().to_str().map(str::to_owned))
        .unwrap_or_default()
}

/// The values of all `key : value` lines with this key.
fn values<'a>(cpuinfo: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    cpuinfo.lines().filter_map(move |line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// Parses the kernel's list format, `0-3,8,10-11`, up to the first invalid part.
fn cpu_list(text: &str) -> Vec<usize> {
    // The maximum number of processors in a list. CONFIG_NR_CPUS is 8192 in the largest
    // distribution kernels.
    const LIMIT: usize = 65536;
    text.split(',')
        .map_while(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.trim().parse::<usize>().ok()?..=last.trim().parse::<usize>().ok()?)
        })
        .flatten()
        .take(LIMIT)
        .collect()
}

/// The highest frequency of all processors in MHz, in lscpu's format. `None` for a kernel
/// without cpufreq, as in most virtual machines: it knows only the current frequency,
/// which lscpu does not report as a maximum either.
fn max_frequency(directory: &SystemPath, cpus: &[usize]) -> Option<String> {
    let kilohertz = cpus
        .iter()
        .filter_map(|cpu| {
            sysfs::number::<u32>(&directory.join(format!("cpu{cpu}/cpufreq/cpuinfo_max_freq")))
        })
        .max()?;
    Some(format!("{:.4}", f64::from(kilohertz) / 1000.0))
}

/// The number of packages (sockets) with at least one running processor. At least 1 if
/// there is a processor, because some machines report no packages.
fn sockets(directory: &SystemPath, cpus: &[usize], cpuinfo: &str) -> usize {
    let mut packages: BTreeSet<String> = cpus
        .iter()
        .filter_map(|cpu| {
            sysfs::text(&directory.join(format!("cpu{cpu}/topology/physical_package_id")))
        })
        .collect();
    if packages.is_empty() {
        packages = values(cpuinfo, "physical id").map(str::to_owned).collect();
    }
    packages.len().max(usize::from(!cpus.is_empty()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::sys_tree::PlantedTree;

    #[test]
    fn lists_of_cpus() {
        for (text, expected) in [
            ("0", vec![0]),
            ("0-3", vec![0, 1, 2, 3]),
            ("0-1,8,10-11", vec![0, 1, 8, 10, 11]),
            ("", vec![]),
            ("x", vec![]),
            ("3-1", vec![]),
        ] {
            assert_eq!(cpu_list(text), expected, "{text}");
        }
        assert_eq!(cpu_list("0-99999999999").len(), 65536);
    }

    #[test]
    fn two_sockets_of_an_older_kernel_without_sysfs() {
        let root = PlantedTree::default();
        fs::create_dir(root.directory().join("proc")).unwrap();
        let one = |cpu, package| {
            format!(
                "processor\t: {cpu}\nmodel name\t: Xeon\nphysical id\t: {package}\nflags\t\t: fpu vme\n\n"
            )
        };
        fs::write(
            root.directory().join("proc/cpuinfo"),
            [one(0, 0), one(1, 1), one(2, 0), one(3, 1)].concat(),
        )
        .unwrap();
        let (cpu, warnings) = collect(root.path());
        assert_eq!((cpu.count, cpu.socket_count), (4, 2));
        assert_eq!(cpu.model_name, "Xeon");
        assert_eq!(cpu.flags, ["fpu", "vme"]);
        assert_eq!(cpu.frequency, "");
        assert_eq!(warnings, []);
    }

    #[test]
    fn a_core_of_arm_has_a_name() {
        let root = PlantedTree::default();
        fs::create_dir(root.directory().join("proc")).unwrap();
        let one = |cpu, part| {
            format!(
                "processor\t: {cpu}\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: {part}\n\n"
            )
        };
        for (part, expected) in [("0xd0c", "Neoverse-N1"), ("0xfff", ""), ("d0c", "")] {
            let text = [one(0, part), one(1, part)].concat();
            fs::write(root.directory().join("proc/cpuinfo"), text).unwrap();
            let (cpu, _) = collect(root.path());
            assert_eq!(cpu.model_name, expected);
            assert_eq!((cpu.count, cpu.socket_count), (2, 1));
            assert_eq!(cpu.flags, ["fp", "asimd"]);
        }
    }

    #[test]
    fn frequency_is_the_highest_of_all() {
        let root = PlantedTree::default();
        let directory = root.directory().join("sys/devices/system/cpu");
        for (cpu, kilohertz) in [(0, "3600000\n"), (1, "3900000\n")] {
            let cpufreq = directory.join(format!("cpu{cpu}/cpufreq"));
            fs::create_dir_all(&cpufreq).unwrap();
            fs::write(cpufreq.join("cpuinfo_max_freq"), kilohertz).unwrap();
        }
        fs::write(directory.join("present"), "0-1\n").unwrap();
        let (cpu, _) = collect(root.path());
        assert_eq!(cpu.frequency, "3900.0000");
        assert_eq!((cpu.count, cpu.socket_count), (2, 1));
    }

    #[test]
    fn nothing_known_is_a_warning() {
        let root = PlantedTree::default();
        let (cpu, warnings) = collect(root.path());
        assert_eq!((cpu.count, cpu.socket_count), (0, 0));
        assert_eq!(warnings.len(), 1);
    }
}
