//! The lock that tells udev to leave a disk alone (systemd's "Locking Block
//! Device Access").
//!
//! Whenever somebody who could write has closed a disk, udev has the kernel read
//! its table anew, and the kernel forgets the partitions that are in none yet.
//! Our ramdisk has no udev; a live system has.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// udev itself holds it for as long as a look at the disk takes.
const PATIENCE: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_millis(20);

/// A locked disk, until this is dropped.
#[derive(Debug)]
pub struct DeviceLock {
    _disk: File,
}

impl DeviceLock {
    /// Waits for the lock of a whole disk.
    ///
    /// # Errors
    /// If the disk cannot be opened, or another program keeps the lock.
    pub fn take(path: &Path) -> io::Result<Self> {
        Self::take_within(path, PATIENCE)
    }

    fn take_within(path: &Path, patience: Duration) -> io::Result<Self> {
        let disk = File::open(path)?;
        let end = Instant::now() + patience;
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
    fn one_at_a_time_and_not_for_ever() {
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
