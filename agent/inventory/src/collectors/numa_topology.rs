//! The collector `numa-topology`: lists which memory, cores and NICs belong to which NUMA
//! node.

use std::collections::BTreeMap;

use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NumaTopology {
    ram: Vec<Ram>,
    cpus: Vec<Core>,
    nics: Vec<Nic>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Ram {
    numa_node: u32,
    size_kb: u64,
}

/// A processor core. `cpu` is the kernel's `core_id`, its number within its package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Core {
    cpu: u32,
    numa_node: u32,
    thread_siblings: Vec<u32>,
}

/// A NIC. `numa_node` is -1 if its device belongs to no node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Nic {
    name: String,
    numa_node: i32,
}

/// A value of a NUMA node that the kernel does not report.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NumaError {
    /// The kernel does not report the memory of this NUMA node. The agent sends the
    /// inventory without the NUMA topology.
    #[error("NUMA node {0} has no MemTotal in its meminfo")]
    NoMemory(u32),
    /// The kernel does not report the core of this processor thread. The agent sends the
    /// inventory without the NUMA topology.
    #[error("cpu{thread} of NUMA node {node} has no core_id")]
    NoCore { thread: u32, node: u32 },
}

/// Reads /sys/devices/system/node and /sys/class/net. Leaves out network interfaces
/// without the attribute `numa_node`, for example virtual ones.
///
/// # Errors
/// If the memory of a node or the number of a core is missing, because an incomplete
/// topology could be mistaken for a complete one.
pub fn collect(root: &SystemPath) -> Result<NumaTopology, NumaError> {
    let directory = root.join("sys/devices/system/node");
    let mut nodes: Vec<u32> = numbered(&directory, "node");
    nodes.sort_unstable();
    let mut ram = Vec::new();
    let mut cores: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    for &node in &nodes {
        let directory = directory.join(format!("node{node}"));
        let size_kb = sysfs::text(&directory.join("meminfo"))
            .and_then(|text| total_kilobytes(&text))
            .ok_or(NumaError::NoMemory(node))?;
        ram.push(Ram {
            numa_node: node,
            size_kb,
        });
        for thread in numbered(&directory, "cpu") {
            let core = sysfs::number(&directory.join(format!("cpu{thread}/topology/core_id")))
                .ok_or(NumaError::NoCore { thread, node })?;
            cores.entry((node, core)).or_default().push(thread);
        }
    }
    let cpus = cores.into_iter().map(|((numa_node, cpu), mut threads)| {
        threads.sort_unstable();
        Core {
            cpu,
            numa_node,
            thread_siblings: threads,
        }
    });
    let net = root.join("sys/class/net");
    let nics = sysfs::names(&net).into_iter().filter_map(|name| {
        let numa_node = sysfs::number(&net.join(&name).join("device/numa_node"))?;
        Some(Nic { name, numa_node })
    });
    Ok(NumaTopology {
        ram,
        cpus: cpus.collect(),
        nics: nics.collect(),
    })
}

/// The numbers of all entries with names `<prefix><number>`.
fn numbered(directory: &SystemPath, prefix: &str) -> Vec<u32> {
    sysfs::names(directory)
        .iter()
        .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
        .collect()
}

/// Parses `Node 0 MemTotal:        2518456 kB`.
fn total_kilobytes(meminfo: &str) -> Option<u64> {
    let (_, value) = meminfo
        .lines()
        .find(|line| line.contains("MemTotal"))?
        .split_once(':')?;
    value.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use landfall_sys::sys_tree::plant;
    use serde_json::json;

    use super::*;

    const TWO_NODES: &str = "\
sys/devices/system/node/node0/meminfo = Node 0 MemTotal:        2518456 kB\\nNode 0 MemFree: 1 kB\\n
sys/devices/system/node/node0/cpu0/topology/core_id = 0\\n
sys/devices/system/node/node0/cpu2/topology/core_id = 0\\n
sys/devices/system/node/node0/cpulist = 0,2\\n
sys/devices/system/node/node1/meminfo = Node 1 MemTotal: 1000 kB\\n
sys/devices/system/node/node1/cpu1/topology/core_id = 0\\n
sys/devices/system/node/possible = 0-1\\n
sys/class/net/eth0/device/numa_node = -1\\n
sys/class/net/eth1/device/uevent = \\n
";

    #[test]
    fn cores_are_identified_by_node_and_number() {
        let root = plant(TWO_NODES);
        assert_eq!(
            serde_json::to_value(collect(root.path()).unwrap()).unwrap(),
            json!({
                "ram": [{"numa_node": 0, "size_kb": 2_518_456}, {"numa_node": 1, "size_kb": 1000}],
                "cpus": [
                    {"cpu": 0, "numa_node": 0, "thread_siblings": [0, 2]},
                    {"cpu": 0, "numa_node": 1, "thread_siblings": [1]},
                ],
                "nics": [{"name": "eth0", "numa_node": -1}],
            })
        );
    }

    #[test]
    fn missing_values_are_named() {
        for (line, expected) in [
            (
                "sys/devices/system/node/node0/meminfo = nothing\\n",
                "NUMA node 0 has no MemTotal in its meminfo",
            ),
            (
                "sys/devices/system/node/node0/cpu0/topology/core_id = x\\n",
                "cpu0 of NUMA node 0 has no core_id",
            ),
        ] {
            let root = plant(&format!("{TWO_NODES}{line}\n"));
            assert_eq!(collect(root.path()).unwrap_err().to_string(), expected);
        }
    }
}
