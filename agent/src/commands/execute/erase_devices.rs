//! The steps `erase_devices`, which erases all data, and `erase_devices_express`, which
//! erases all data only on disks where this takes seconds.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::thread;

use landfall_devices::permission::WritePermission;
use landfall_disk::device::target::Target;
use landfall_disk::erase::overwrite::{Passes, overwrite};
use landfall_disk::erase::{ata, nvme};
use landfall_report::failure::{Failure, Result};
use serde_json::{Map, Value};

use super::erasable::{self, Erasable, Obstacle};
use super::erase_metadata::{self, in_use, unreadable};
use crate::commands::machine::{Machine, blocking};
use crate::commands::node::Node;

/// The maximum number of disks that are erased at a time: each needs a thread.
const MAX_CONCURRENCY: u64 = 64;
/// The maximum number of random passes over a disk.
const MAX_ITERATIONS: u64 = 100;

/// The conductor's configuration, which it sends in `driver_internal_info`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Options {
    concurrency: usize,
    passes: Passes,
    nvme_secure_erase: bool,
    ata_secure_erase: bool,
    overwrite_after_failure: bool,
    skip_read_only: bool,
}

impl Options {
    /// Reads the options. If the conductor does not send a value, uses the default
    /// of Ironic's agent.
    fn read(node: &Node) -> Self {
        let number = |key, default, most: u64| {
            let given = node.driver_info(key).and_then(Value::as_u64);
            given.unwrap_or(default).min(most)
        };
        // Old conductors send the option under the second name.
        let overwrite_after_failure = node
            .driver_info("agent_continue_if_secure_erase_failed")
            .or_else(|| node.driver_info("agent_continue_if_ata_erase_failed"))
            .and_then(Value::as_bool)
            .unwrap_or(false);
        Self {
            concurrency: number("disk_erasure_concurrency", 1, MAX_CONCURRENCY).max(1) as usize,
            passes: Passes {
                random: number("agent_erase_devices_iterations", 1, MAX_ITERATIONS) as u32,
                zeros: node.driver_switch("agent_erase_devices_zeroize", true),
            },
            nvme_secure_erase: node.driver_switch("agent_enable_nvme_secure_erase", true),
            ata_secure_erase: node.driver_switch("agent_enable_ata_secure_erase", true),
            overwrite_after_failure,
            skip_read_only: node.driver_switch("agent_erase_skip_read_only", false),
        }
    }
}

/// Erases all disks of [`erasable::list_unshared`], up to `disk_erasure_concurrency` at a
/// time. The result is an object whose keys are the names of these disks, also of the
/// skipped ones.
pub(super) async fn execute(
    machine: &Machine,
    node: &Node,
    permission: WritePermission,
) -> Result<Value> {
    let options = Options::read(node);
    let guarded = erasable::is_guarded(machine, node);
    let disks = erasable::list_unshared(machine, node, guarded).await?;
    blocking(move || {
        let names: Map<String, Value> = disks
            .iter()
            .map(|disk| (disk.name(), Value::Null))
            .collect();
        let failures = each(disks, options.concurrency, |disk| match &disk.obstacle {
            Some(Obstacle::Unreadable(reason)) => {
                let readable = unlocked(disk, reason, guarded, &options, &permission)?;
                erase(&readable, &options, &permission)
            }
            _ => erase(disk, &options, &permission),
        });
        erasable::joined(&failures).map_or(Ok(Value::Object(names)), Err)
    })
    .await
}

/// Erases NVMe disks by their own command, and the metadata of all other disks. If the
/// command fails or the conductor forbids it, erases only the metadata of the NVMe disk.
pub(super) async fn execute_express(
    machine: &Machine,
    node: &Node,
    permission: WritePermission,
) -> Result<Value> {
    let options = Options::read(node);
    let guarded = erasable::is_guarded(machine, node);
    let disks = erasable::list_unshared(machine, node, guarded).await?;
    blocking(move || {
        let mut failures = Vec::new();
        for disk in &disks {
            let own_means = disk.obstacle.is_none() && disk.is_nvme() && options.nvme_secure_erase;
            if own_means {
                let erased = disk
                    .release(&permission)
                    .and_then(|()| erase_nvme(disk, &permission));
                match erased {
                    Ok(()) => continue,
                    Err(failure) => {
                        tracing::warn!("{failure}; erasing the metadata instead");
                    }
                }
            }
            failures.extend(erase_metadata::erase_disk(disk, &permission));
        }
        erasable::joined(&failures).map_or(Ok(Value::Null), Err)
    })
    .await
}

/// Runs `work` for each disk, up to `concurrency` at a time. Continues after failures.
/// Returns the failures with the names of the disks.
fn each(
    disks: Vec<Erasable>,
    concurrency: usize,
    work: impl Fn(&Erasable) -> Result<()> + Sync,
) -> Vec<(String, Failure)> {
    let threads = concurrency.min(disks.len());
    let queue = Mutex::new(VecDeque::from(disks));
    let failures = Mutex::new(Vec::new());
    let next = || {
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front()
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(disk) = next() {
                    if let Err(failure) = work(&disk) {
                        tracing::error!("{}: {failure}", disk.name());
                        let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                        failures.push((disk.name(), failure));
                    }
                }
            });
        }
    });
    failures
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
}

/// Unlocks a disk that an interrupted erase has left locked: a locked disk fails every
/// read. Afterwards the disk can be read and erased like any other disk.
fn unlocked(
    disk: &Erasable,
    reason: &str,
    guarded: bool,
    options: &Options,
    permission: &WritePermission,
) -> Result<Erasable> {
    if !disk.is_ata || !options.ata_secure_erase {
        return Err(unreadable(reason));
    }
    let target = disk.open(&disk.disk, permission)?;
    let unlocked = ata::unlock(target.device()).map_err(|error| {
        let failure = own_means_failed("ATA security", &error);
        Failure {
            details: format!("{}; {}", failure.details, unreadable(reason).details),
            ..failure
        }
    })?;
    if !unlocked {
        return Err(unreadable(reason));
    }
    tracing::info!(
        "{}: unlocked; an interrupted erase had left it locked",
        disk.name()
    );
    target.reread_partitions()?;
    drop(target);
    erasable::inspect_again(disk, guarded)
}

fn erase(disk: &Erasable, options: &Options, permission: &WritePermission) -> Result<()> {
    match &disk.obstacle {
        None => {}
        Some(Obstacle::InUse(uses)) => return Err(in_use(uses)),
        Some(Obstacle::Unreadable(reason)) => return Err(unreadable(reason)),
        Some(Obstacle::ReadOnly) if !options.skip_read_only => {
            return Err(Failure::erasure("it is read-only, and the conductor does not allow the agent to skip read-only disks",
            )
            .hint("name it in skip_block_devices of the node's properties, or set [deploy]erase_skip_read_only in Ironic's configuration"));
        }
        Some(obstacle) => {
            tracing::info!("{} is not erased: it is {obstacle}", disk.name());
            return Ok(());
        }
    }
    disk.release(permission)?;
    match erase_by_its_own_means(disk, options, permission) {
        Ok(true) => return Ok(()),
        Ok(false) => {}
        Err(failure) if options.overwrite_after_failure => {
            tracing::warn!("{failure}; overwriting {} instead", disk.name());
        }
        Err(failure) => {
            return Err(failure.hint(
                "to overwrite such a disk, set [deploy]continue_if_disk_secure_erase_fails in Ironic's configuration",
            ));
        }
    }
    let target = disk.open(&disk.disk, permission)?;
    overwrite(&target, options.passes)?;
    target.reread_partitions()?;
    target.refresh_other_paths();
    // Check again whether other disks have this disk's identity: two device nodes that
    // counted as paths to one disk may now show different content. In this case there are
    // two disks.
    target.refuse_namesake()
}

/// Erases the disk by the disk's own erase command. Returns `false` if an ATA disk has no
/// such command, if the disk is neither NVMe nor ATA, or if the options forbid the
/// command. An NVMe disk without the command is an error.
fn erase_by_its_own_means(
    disk: &Erasable,
    options: &Options,
    permission: &WritePermission,
) -> Result<bool> {
    if disk.is_nvme() {
        if options.nvme_secure_erase {
            erase_nvme(disk, permission)?;
        }
        return Ok(options.nvme_secure_erase);
    }
    // Behind a bridge or a RAID controller, an ATA command may reach no disk or another
    // disk.
    if !disk.is_ata || !options.ata_secure_erase {
        return Ok(false);
    }
    let target = disk.open(&disk.disk, permission)?;
    let erased =
        ata::erase(target.device()).map_err(|e| own_means_failed("ATA secure erase", &e))?;
    if erased {
        tracing::info!("{}: erased by ATA secure erase", disk.name());
        target.reread_partitions()?;
    }
    Ok(erased)
}

fn erase_nvme(disk: &Erasable, permission: &WritePermission) -> Result<()> {
    let target: Target = disk.open(&disk.disk, permission)?;
    let method = nvme::erase(target.device(), disk.erasable_namespaces)
        .map_err(|e| own_means_failed("NVMe format", &e))?
        .ok_or_else(|| Failure::erasure("NVMe format: the controller does not support it"))?;
    tracing::info!("{}: erased by NVMe format ({method:?})", disk.name());
    target.reread_partitions()?;
    target.refresh_other_paths();
    target.refuse_namesake()
}

fn own_means_failed(what: &str, error: &std::io::Error) -> Failure {
    Failure::erasure(format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use landfall_disk::fixtures::{exchange, loop_device, run};
    use serde_json::json;

    use super::*;

    #[test]
    fn options_are_the_conductors() {
        let options = |info| Options::read(&Node(json!({"driver_internal_info": info})));
        let default = options(json!({}));
        assert_eq!(
            default,
            Options {
                concurrency: 1,
                passes: Passes {
                    random: 1,
                    zeros: true
                },
                nvme_secure_erase: true,
                ata_secure_erase: true,
                overwrite_after_failure: false,
                skip_read_only: false,
            }
        );
        // The values that a current conductor sends.
        let sent = options(json!({
            "agent_erase_devices_iterations": 3,
            "agent_erase_devices_zeroize": false,
            "agent_continue_if_secure_erase_failed": false,
            "agent_continue_if_ata_erase_failed": true,
            "agent_enable_nvme_secure_erase": false,
            "agent_enable_ata_secure_erase": false,
            "disk_erasure_concurrency": 4,
            "agent_erase_skip_read_only": true,
        }));
        assert_eq!(
            sent,
            Options {
                concurrency: 4,
                passes: Passes {
                    random: 3,
                    zeros: false
                },
                nvme_secure_erase: false,
                ata_secure_erase: false,
                overwrite_after_failure: false,
                skip_read_only: true,
            }
        );
        let old = options(json!({"agent_continue_if_ata_erase_failed": true}));
        assert!(old.overwrite_after_failure, "the name of old conductors");
        let odd =
            options(json!({"disk_erasure_concurrency": 0, "agent_erase_devices_iterations": -1}));
        assert_eq!((odd.concurrency, odd.passes.random), (1, 1));
    }

    /// A file with a file system, as the content of a disk. Also returns its bytes.
    fn used() -> (tempfile::NamedTempFile, Vec<u8>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(8 << 20).unwrap();
        run(
            "/sbin/mke2fs",
            &["-q", "-F", &file.path().to_string_lossy()],
        );
        let content = std::fs::read(file.path()).unwrap();
        (file, content)
    }

    /// While the agent erased the first disk, the second disk disappeared, and a disk
    /// that the operator keeps got the name of the second disk.
    #[test]
    fn a_disk_that_got_the_name_of_a_listed_disk_is_not_erased() {
        let options = Options::read(&Node(json!({})));
        let permission = WritePermission::by_operator();
        let ((listed, of_listed), (kept, of_kept)) = (used(), used());
        let Some(device) = loop_device(listed.path(), 512) else {
            return;
        };
        let disk = Erasable::for_test(&device.path().to_string_lossy());
        if !exchange(device.path(), kept.path()) {
            return;
        }
        let refused = "found another one";
        let failure = erase(&disk, &options, &permission).unwrap_err();
        assert!(failure.details.contains(refused), "{failure}");
        // The name may also change after the disk was released.
        let failure = disk.open(&disk.disk, &permission).unwrap_err();
        assert!(failure.details.contains(refused), "{failure}");
        // The steps erase_devices_metadata and erase_devices_express call `erase_disk`.
        let failures = erase_metadata::erase_disk(&disk, &permission);
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert!(failures[0].1.details.contains(refused), "{failures:?}");
        // The step erase_devices calls `inspect_again` for a disk that it has unlocked.
        let failure = erasable::inspect_again(&disk, false).unwrap_err();
        assert!(failure.details.contains(refused), "{failure}");
        for (file, content) in [(&listed, of_listed), (&kept, of_kept)] {
            assert!(std::fs::read(file.path()).unwrap() == content);
        }
        // The same disk under the same name is erased.
        let disk = Erasable::for_test(&device.path().to_string_lossy());
        erase(&disk, &options, &permission).unwrap();
        let content = std::fs::read(kept.path()).unwrap();
        assert!(content.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn so_many_at_a_time_and_all_are_tried() {
        let disks: Vec<Erasable> = (0..9)
            .map(|n| Erasable::for_test(&format!("/dev/sd{n}")))
            .collect();
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let mut failures = each(disks, 3, |disk| {
            let running = now.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(running, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(20));
            now.fetch_sub(1, Ordering::SeqCst);
            if disk.name().ends_with(['2', '7']) {
                return Err(Failure::erasure("no"));
            }
            Ok(())
        });
        assert_eq!(most.into_inner(), 3);
        failures.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(
            erasable::joined(&failures).unwrap().details,
            "\"/dev/sd2\": no; \"/dev/sd7\": no"
        );
        assert!(each(Vec::new(), 3, |_| Ok(())).is_empty());
    }
}
