//! Runs a program to its end and measures its processor time, wall time, peak
//! memory and the bytes that it wrote to block devices.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

/// Interval for sampling a running program. Peak memory only rises, so only a rise
/// in the last interval can be missed.
const LOOK: Duration = Duration::from_millis(10);
/// A program that takes longer is considered hung. Next to other work, dracut with
/// zstd -19 takes more than eight minutes on two processors.
const LIMIT: Duration = Duration::from_secs(1800);
/// The number of lines that an error quotes of what a program reported.
const QUOTED: usize = 10;

#[derive(Debug, Clone, Default)]
pub(super) struct Usage {
    /// User and system processor time, including that of child processes.
    pub(super) cpu: Duration,
    /// Processor time of all kernel threads during the run: writeback from the page
    /// cache, the loop device, memory reclaim. It includes work for other
    /// processes.
    pub(super) kernel: Duration,
    pub(super) wall: Duration,
    /// Peak resident memory in bytes: the sum of the peaks of all programs of one run. Of
    /// two runs, the larger value.
    pub(super) memory: u64,
    /// Bytes sent to block devices.
    pub(super) written: u64,
    /// Processor time of each sampled thread of the first program, by name.
    pub(super) threads: BTreeMap<String, Duration>,
}

impl Usage {
    /// The usage of two runs, one after the other.
    pub(super) fn then(self, next: Self) -> Self {
        Self {
            cpu: self.cpu + next.cpu,
            kernel: self.kernel + next.kernel,
            wall: self.wall + next.wall,
            memory: self.memory.max(next.memory),
            written: self.written + next.written,
            threads: self.threads,
        }
    }

    pub(super) fn slowest_thread(&self) -> Option<(&str, Duration)> {
        let busiest = self.threads.iter().max_by_key(|thread| thread.1)?;
        Some((busiest.0, *busiest.1))
    }
}

/// The counters before a run.
pub(super) struct Before {
    cpu: Duration,
    kernel: BTreeMap<u32, Duration>,
    clock: Instant,
}

impl Before {
    /// Call this before the programs start.
    pub(super) fn now() -> Result<Self> {
        Ok(Self {
            cpu: children_cpu()?,
            kernel: kernel_threads()?,
            clock: Instant::now(),
        })
    }
}

/// Waits for programs that were started at the same time.
///
/// # Errors
/// If a program fails or hangs.
pub(super) fn wait(mut programs: Vec<Child>, before: &Before) -> Result<Usage> {
    let mut peaks = vec![0; programs.len()];
    let mut usage = Usage::default();
    let mut running = programs.len();
    let mut ended = vec![false; programs.len()];
    while running > 0 {
        for (index, program) in programs.iter_mut().enumerate() {
            if ended[index] {
                continue;
            }
            peaks[index] = peak_memory(program.id()).unwrap_or(peaks[index]);
            if index == 0 {
                look_at_threads(program.id(), &mut usage.threads);
            }
            if has_ended(program.id())? {
                // The program is not reaped yet, so the kernel still has its
                // counters.
                usage.written += written(program.id())?;
                let status = program.wait()?;
                ensure!(status.success(), "program {index} of the run: {status}");
                ended[index] = true;
                running -= 1;
            }
        }
        if before.clock.elapsed() > LIMIT {
            for program in &mut programs {
                // The program may have just ended.
                let _ = program.kill();
            }
            bail!("it takes longer than {} s", LIMIT.as_secs());
        }
        if running > 0 {
            sleep(LOOK);
        }
    }
    usage.wall = before.clock.elapsed();
    usage.cpu = children_cpu()?.saturating_sub(before.cpu);
    for (thread, time) in kernel_threads()? {
        let earlier = before.kernel.get(&thread).copied().unwrap_or_default();
        usage.kernel += time.saturating_sub(earlier);
    }
    usage.memory = peaks.iter().sum();
    Ok(usage)
}

/// Runs one program.
///
/// # Errors
/// If it fails or hangs.
pub(super) fn run(command: &mut Command) -> Result<Usage> {
    let before = Before::now()?;
    let child = command
        .spawn()
        .with_context(|| format!("starting {}", command.get_program().display()))?;
    wait(vec![child], &before).with_context(|| format!("{command:?}"))
}

/// Runs one program with its output in files of `folder`, and returns what it printed
/// on standard output.
///
/// # Errors
/// If it fails or hangs. The error quotes the end of its standard error.
pub(super) fn run_captured(command: &mut Command, folder: &Path) -> Result<(Usage, String)> {
    let [printed, reported] = ["stdout", "stderr"].map(|name| folder.join(name));
    command.stdout(File::create(&printed)?);
    command.stderr(File::create(&reported)?);
    let usage = run(command).with_context(|| {
        let reported = fs::read(&reported).unwrap_or_default();
        let reported = String::from_utf8_lossy(&reported);
        let lines: Vec<&str> = reported.lines().collect();
        let skipped = lines.len().saturating_sub(QUOTED);
        format!("it reported at its end:\n{}", lines[skipped..].join("\n"))
    })?;
    Ok((usage, fs::read_to_string(printed)?))
}

/// Processor time of all child processes that have ended, and of their children.
fn children_cpu() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = |time: nix::sys::time::TimeVal| {
        u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).unwrap_or(0)
    };
    Ok(Duration::from_micros(
        micros(usage.user_time()) + micros(usage.system_time()),
    ))
}

/// Processor time of each kernel thread, by thread ID.
fn kernel_threads() -> Result<BTreeMap<u32, Duration>> {
    /// The process ID of kthreadd, the parent of all other kernel threads.
    const PARENT: &str = "2";
    let mut threads = BTreeMap::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|id| id.parse().ok()) else {
            continue;
        };
        // The process may have ended since the listing of /proc.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        // The fields in proc_pid_stat(5): the name in brackets, the state, the parent.
        let parent = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split(' ').nth(2));
        if parent == Some(PARENT)
            && let Some(time) = on_processor(&entry.path())
        {
            threads.insert(id, time);
        }
    }
    Ok(threads)
}

/// The first field of `schedstat`: processor time in nanoseconds.
fn on_processor(task: &Path) -> Option<Duration> {
    let statistics = fs::read_to_string(task.join("schedstat")).ok()?;
    let nanoseconds = statistics.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

fn has_ended(process: u32) -> Result<bool> {
    let id = Id::Pid(Pid::from_raw(process.cast_signed()));
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
    Ok(waitid(id, flags)? != WaitStatus::StillAlive)
}

/// The peak memory, `VmHWM`, in bytes.
fn peak_memory(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

/// The bytes that the process sent to storage (`write_bytes`), through the page cache
/// or with direct I/O. Unlike the counter of a loop device, this excludes zeroed
/// ranges.
fn written(process: u32) -> Result<u64> {
    let io = fs::read_to_string(format!("/proc/{process}/io"))?;
    let line = io
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(line.context("/proc/PID/io without write_bytes")?.parse()?)
}

fn look_at_threads(process: u32, threads: &mut BTreeMap<String, Duration>) {
    let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else {
        return;
    };
    for task in tasks.flatten() {
        // A thread may have ended since the listing.
        let name = fs::read_to_string(task.path().join("comm"));
        if let (Ok(name), Some(time)) = (name, on_processor(&task.path())) {
            // Several threads may have one name. Only the busiest of them counts.
            let busiest = threads.entry(name.trim().to_owned()).or_default();
            *busiest = time.max(*busiest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_measured() {
        let script = "x=$(head -c 30000000 /dev/zero | tr '\\0' x); sleep 0.1; true";
        let usage = run(Command::new("bash").args(["-c", script])).unwrap();
        assert!(usage.wall >= Duration::from_millis(100), "{usage:?}");
        assert!(usage.cpu > Duration::from_millis(5), "{usage:?}");
        assert!(usage.memory > 30_000_000, "{usage:?}");
        assert_eq!(usage.written, 0);
        assert!(run(&mut Command::new("false")).is_err());
    }

    #[test]
    fn output_is_returned_and_an_error_quotes_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let captured = |script: &str| {
            let mut command = Command::new("bash");
            run_captured(command.args(["-c", script]), folder.path())
        };
        let (_, printed) = captured("echo result; echo progress >&2").unwrap();
        assert_eq!(printed, "result\n");
        let error = captured("seq 20 >&2; false").unwrap_err().to_string();
        assert!(error.contains(":\n11\n12\n"), "{error}");
        assert!(error.ends_with("\n20"), "{error}");
    }
}
