//! Memory, open files and CPU time of processes, and whether they grow.

use std::fs;
use std::time::{Duration, Instant};

/// Clock ticks per second in /proc (`USER_HZ`): 100 on all of our machines.
const TICKS: f64 = 100.0;

/// In KiB: growth of the resident memory is a fault only if it is larger than this and
/// also larger than the share [`GROWTH`] of the earlier value.
const GROWTH_KIB: u64 = 512;
/// The allowed growth of the resident memory as a share of its earlier value, if that
/// is more than [`GROWTH_KIB`].
const GROWTH: f64 = 0.05;
/// Growth of the number of open files is a fault only if it is larger than this.
const GROWTH_FILES: u64 = 2;

/// The share of samples at the start that do not count, because the agent is still
/// opening the files that it keeps open.
const WARM_UP: f64 = 0.1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub at: Instant,
    /// In KiB.
    pub resident: u64,
    /// In KiB.
    pub peak: u64,
    pub files: u64,
}

/// Takes a sample of a process. `None` if the process has ended.
#[must_use]
pub fn sample(pid: i32) -> Option<Sample> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kib = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    Some(Sample {
        at: Instant::now(),
        resident: kib("VmRSS:")?,
        peak: kib("VmHWM:")?,
        files: fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64,
    })
}

/// The CPU time of a process and its descendants, including ended ones, in seconds.
#[must_use]
pub fn cpu_seconds_of_tree(pid: i32) -> f64 {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return 0.0;
    };
    // After the name in parentheses: utime, stime, cutime and cstime are the fields 14
    // to 17 of proc_pid_stat(5), and the first field here is the third.
    let after = stat.rsplit(") ").next().unwrap_or_default();
    let ticks: f64 = after
        .split(' ')
        .skip(11)
        .take(4)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    let below: f64 = children(pid).into_iter().map(cpu_seconds_of_tree).sum();
    ticks / TICKS + below
}

/// The children of all threads of a process: any thread may have forked.
fn children(pid: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let children =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let children: String = children.collect();
    let children = children.split_whitespace();
    children.filter_map(|child| child.parse().ok()).collect()
}

/// A process and its descendants.
#[must_use]
pub fn tree(pid: i32) -> Vec<i32> {
    let mut all = vec![pid];
    all.extend(children(pid).into_iter().flat_map(tree));
    all
}

/// The median: of an even number of values the larger of the two in the middle, and 0
/// without values.
#[must_use]
pub fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Medians of the first and of the last third of the samples, after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trend {
    pub resident: (u64, u64),
    pub files: (u64, u64),
    pub samples: usize,
    pub lasted: Duration,
}

impl Trend {
    /// `None` if a third of the samples after the warm-up is less than five samples.
    #[must_use]
    pub fn of(samples: &[Sample]) -> Option<Self> {
        let warm = (samples.len() as f64 * WARM_UP).ceil() as usize;
        let samples = samples.get(warm..)?;
        let third = samples.len() / 3;
        if third < 5 {
            return None;
        }
        let (first, last) = (&samples[..third], &samples[samples.len() - third..]);
        let of =
            |part: &[Sample], value: fn(&Sample) -> u64| median(part.iter().map(value).collect());
        Some(Self {
            resident: (of(first, |s| s.resident), of(last, |s| s.resident)),
            files: (of(first, |s| s.files), of(last, |s| s.files)),
            samples: samples.len(),
            lasted: last.last()?.at - first.first()?.at,
        })
    }

    /// What has grown, in words; `None` if nothing has.
    #[must_use]
    pub fn growth(&self) -> Option<String> {
        let (before, after) = self.resident;
        let allowed = before + GROWTH_KIB.max((before as f64 * GROWTH) as u64);
        if after > allowed {
            return Some(format!("resident memory from {before} to {after} KiB"));
        }
        let (before, after) = self.files;
        (after > before + GROWTH_FILES).then(|| format!("open files from {before} to {after}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(resident: impl Fn(u64) -> u64, files: impl Fn(u64) -> u64) -> Vec<Sample> {
        let began = Instant::now();
        let sample = |number| Sample {
            at: began + Duration::from_secs(number),
            resident: resident(number),
            peak: 0,
            files: files(number),
        };
        (0..100).map(sample).collect()
    }

    #[test]
    fn growth_is_found() {
        let growth = |samples: &[Sample]| Trend::of(samples).unwrap().growth();
        assert_eq!(growth(&samples(|_| 8000, |_| 12)), None);
        assert_eq!(
            growth(&samples(|n| 8000 + n % 7 * 20, |n| 12 + n % 3)),
            None
        );
        let leaks = growth(&samples(|n| 8000 + 20 * n, |_| 12)).unwrap();
        assert!(leaks.contains("resident"), "{leaks}");
        let leaks = growth(&samples(|_| 8000, |n| 12 + n / 10)).unwrap();
        assert!(leaks.contains("files"), "{leaks}");
    }

    #[test]
    fn the_start_does_not_count() {
        let trend = Trend::of(&samples(|n| if n < 8 { 1 } else { 8000 }, |_| 12)).unwrap();
        assert_eq!(trend.growth(), None);
        assert_eq!(Trend::of(&[]), None);
    }

    /// A test runs in a thread of its own, so /proc lists the child under that thread
    /// only.
    #[test]
    fn children_of_threads_are_found() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let all = tree(std::process::id() as i32);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(all.contains(&(child.id() as i32)), "{all:?}");
    }

    #[test]
    fn this_process_can_be_read() {
        let own = sample(std::process::id() as i32).unwrap();
        assert!(own.resident > 100 && own.peak >= own.resident && own.files > 2);
        assert_eq!(sample(i32::MAX), None);
    }
}
