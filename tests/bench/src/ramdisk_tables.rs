//! The tables of what [`super::ramdisk_build`] measured.

use std::time::Duration;

use anyhow::Result;

use super::builder::{Iso, Ramdisk};
use super::measured::Usage;
use super::ramdisk_build::{Builds, Peer};
use super::{Quantity, Row, Table, machine};

/// The targets, as parts of the time of dracut with zstd -19.
const COLD_TARGET: f64 = 0.5;
const WARM_TARGET: f64 = 0.1;

fn wall(name: &'static str, runs: &[Usage]) -> Quantity {
    let values: Vec<Duration> = runs.iter().map(|run| run.wall).collect();
    Quantity::seconds(name, &values)
}

fn cpu(name: &'static str, runs: &[Usage]) -> Quantity {
    let values: Vec<Duration> = runs.iter().map(|run| run.cpu).collect();
    Quantity::seconds(name, &values)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

/// One row for each target. `isos` has the ISOs of each target, without and with firmware.
pub(super) fn sizes(builds: &[Builds], isos: &[[Iso; 2]], runs: usize) -> Result<Table> {
    let mut rows = Vec::new();
    for (one, [iso, complete]) in builds.iter().zip(isos) {
        let cold = wall("cold wall", &one.cold);
        let cold_cpu = cpu("cold cpu", &one.cold);
        let warm = wall("warm wall", &one.warm);
        let Ramdisk {
            kernel_release,
            bytes,
            modules,
            memory_floor,
            ..
        } = &one.ramdisk;
        rows.push(Row {
            name: one.target.set.to_owned(),
            cells: vec![
                kernel_release.clone(),
                one.target.arch.to_owned(),
                format!("{:.1}", cold.median),
                format!("{:.1}", cold_cpu.median),
                format!("{:.1}", warm.median),
                megabytes(*bytes),
                megabytes(iso.bytes),
                with_firmware(complete),
                modules.to_string(),
                memory_floor.boot_mib.to_string(),
                memory_floor.deployment_mib.to_string(),
            ],
            quantities: vec![cold, cold_cpu, warm],
        });
    }
    let columns = [
        "set",
        "kernel",
        "architecture",
        "cold, wall s",
        "cold, CPU s",
        "warm, wall s",
        "ramdisk, MB",
        "ISO, MB",
        "with firmware, MB",
        "modules",
        "memory to boot, MiB",
        "memory to deploy, MiB",
    ];
    Ok(Table {
        title: format!("Building a ramdisk: every set and kernel, medians of {runs} runs in turns"),
        columns: columns.map(str::to_owned).into(),
        rows,
        notes: vec![
            "The kernel is a .deb file, which each build unpacks. Cold: `--no-cache`. Warm: with a cache \
             that has everything; the ramdisk has the same bytes. With firmware: empty if this machine has \
             no firmware for the set, neither in out/packages/firmware nor installed. Memory: the least of \
             a host, as landfall-image computes it."
                .to_owned(),
            machine()?,
        ],
    })
}

fn with_firmware(iso: &Iso) -> String {
    match iso.ramdisk.firmware_files {
        0 => String::new(),
        files => format!("{} ({files} files)", megabytes(iso.bytes)),
    }
}

/// A row of the comparison.
struct Compared<'a> {
    name: String,
    /// Where the kernel comes from.
    kernel: &'static str,
    runs: &'a [Usage],
    bytes: u64,
    modules: usize,
    /// For landfall-image: the target.
    target: Option<f64>,
}

impl Compared<'_> {
    /// `peers`: the median wall times of dracut in seconds. The first value is for zstd
    /// -19.
    fn row(self, peers: &[f64]) -> Row {
        let (wall, cpu) = (wall("wall", self.runs), cpu("cpu", self.runs));
        let mut cells = vec![
            self.kernel.to_owned(),
            format!("{:.1}", wall.median),
            format!("{:.1}", cpu.median),
            megabytes(self.bytes),
            self.modules.to_string(),
        ];
        if let (Some(target), Some(first)) = (self.target, peers.first()) {
            let ratio = |peer: &f64| wall.median / peer;
            cells.extend(peers.iter().map(|peer| format!("{:.2}", ratio(peer))));
            let verdict = match ratio(first) <= target {
                true => "met",
                false => "**not met**",
            };
            cells.push(format!("≤ {target:.2}: {verdict}"));
        } else {
            // An empty cell for each ratio, and one for the target.
            cells.extend(vec![String::new(); peers.len() + 1]);
        }
        Row {
            name: self.name,
            cells,
            quantities: vec![wall, cpu],
        }
    }
}

/// The set `server` with the kernel as a .deb file and unpacked, next to dracut.
pub(super) fn comparison(
    packaged: &Builds,
    unpacked: &Builds,
    peers: &[Peer],
    version: &str,
) -> Result<Table> {
    let times = peers.iter().map(|peer| wall("wall", &peer.runs).median);
    let times: Vec<f64> = times.collect();
    let mut rows = Vec::new();
    for (builds, kernel) in [(packaged, ".deb"), (unpacked, "unpacked")] {
        for (name, runs, target) in [
            ("cold", &builds.cold, COLD_TARGET),
            ("warm", &builds.warm, WARM_TARGET),
        ] {
            let compared = Compared {
                name: format!("landfall-image, {name}"),
                kernel,
                runs,
                bytes: builds.ramdisk.bytes,
                modules: builds.ramdisk.modules,
                target: Some(target),
            };
            rows.push(compared.row(&times));
        }
    }
    for peer in peers {
        let compared = Compared {
            name: format!("dracut, {}", peer.compressor.name()),
            kernel: "unpacked",
            runs: &peer.runs,
            bytes: peer.bytes,
            modules: peer.modules,
            target: None,
        };
        rows.push(compared.row(&times));
    }
    let columns = [
        "program",
        "kernel",
        "wall s",
        "CPU s",
        "ramdisk, MB",
        "modules",
        "time / dracut's (zstd -19)",
        "time / dracut's (gzip)",
        "target",
    ];
    Ok(Table {
        title: format!(
            "Building a ramdisk: the set server next to dracut, kernel {}",
            unpacked.ramdisk.kernel_release
        ),
        columns: columns.map(str::to_owned).into(),
        rows,
        notes: vec![
            format!(
                "dracut {version} with `--no-hostonly` reads an unpacked kernel with its modules.dep, as on a \
                 machine on which it is installed; of landfall-image, the rows \"unpacked\" do the same. \
                 The ramdisks have different contents: dracut's has file systems, udev and systemd of this \
                 machine, and no drivers of network cards. All are without firmware. The targets are for \
                 zstd -19, which both programs use."
            ),
            machine()?,
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_part_of_the_first_peers_time() {
        let runs = [4.0, 5.0, 6.0].map(|seconds| Usage {
            wall: Duration::from_secs_f64(seconds),
            ..Usage::default()
        });
        let cells = |target| {
            let compared = Compared {
                name: String::new(),
                kernel: "",
                runs: &runs,
                bytes: 0,
                modules: 0,
                target,
            };
            compared.row(&[10.0, 20.0]).cells.split_off(5)
        };
        assert_eq!(cells(Some(0.5)), ["0.50", "0.25", "≤ 0.50: met"]);
        assert_eq!(cells(Some(0.1)), ["0.50", "0.25", "≤ 0.10: **not met**"]);
        assert_eq!(cells(None), ["", "", ""]);
    }
}
