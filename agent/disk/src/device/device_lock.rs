//! The lock that keeps udev away from a disk (systemd, "Locking Block Device
//! Access").
//!
//! When a program closes a disk that it had open for writing, udev makes the kernel
//! read the partition table again. The kernel then forgets the partitions that the agent
//! has added to the kernel, but not yet to the table. The ramdisk has no udev, but a live
//! system has.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// udev holds the lock itself while it probes the disk.
const TIMEOUT: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_millis(20);

/// Holds the lock of a disk until it is dropped.
#[derive(Debug)]
pub struct DeviceLock {
    _disk: File,
}

impl DeviceLock {
    /// Waits up to 10 s for the lock of a whole disk.
    ///
    /// # Errors
    /// If the disk cannot be opened, or another program still holds the lock after
    /// 10 s.
    pub fn take(path: &Path) -> io::Result<Self> {
        Self::take_within(path, TIMEOUT)
    }

    fn take_within(path: &Path, timeout: Duration) -> io::Result<Self> {
        let disk = File::open(path)?;
        let end = Instant::now() + timeout;
        loop {
            match disk.try_lock() {
                Ok(()) => return Ok(Self { _disk: disk }),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if Instant::now() < end => sleep(INTERVAL),
                Err(TryLockError::WouldBlock) => {
                    return Err(io::Error::other("locked by another program (flock)"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_has_one_holder_and_a_timeout() {
        let disk = tempfile::NamedTempFile::new().unwrap();
        let held = DeviceLock::take(disk.path()).unwrap();
        let refused = DeviceLock::take_within(disk.path(), INTERVAL).unwrap_err();
        assert!(refused.to_string().contains("locked"), "{refused}");
        let path = disk.path().to_owned();
        let waiting = std::thread::spawn(move || DeviceLock::take(&path));
        sleep(INTERVAL);
        drop(held);
        waiting.join().unwrap().unwrap();
    }
}
