//! Repeats a system call that fails with `EBUSY`. Others may use a disk for a moment:
//! another program (udev, a probe), or a child of this process between `fork` and
//! `exec`, which has copies of all open files.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;

/// Calls `call` again after each `pause` while it fails with `EBUSY`, until `limit` has
/// passed.
///
/// # Errors
/// The error of the last call.
pub fn repeat_while_busy<T>(
    limit: Duration,
    pause: Duration,
    mut call: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let end = Instant::now() + limit;
    loop {
        match call() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < end => {
                thread::sleep(pause);
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(1);

    fn error(number: i32) -> io::Error {
        io::Error::from_raw_os_error(number)
    }

    #[test]
    fn only_a_busy_device_is_tried_again() {
        let mut answers = vec![Ok(3), Err(error(libc::EBUSY)), Err(error(libc::EBUSY))];
        let done = repeat_while_busy(Duration::from_mins(1), PAUSE, || answers.pop().unwrap());
        assert_eq!(done.unwrap(), 3);

        let mut calls = 0;
        let done: io::Result<()> = repeat_while_busy(Duration::from_mins(1), PAUSE, || {
            calls += 1;
            Err(error(libc::EIO))
        });
        assert_eq!(done.unwrap_err().raw_os_error(), Some(libc::EIO));
        assert_eq!(calls, 1);
    }

    #[test]
    fn the_limit_ends_the_tries() {
        let limit = Duration::from_millis(20);
        let start = Instant::now();
        let done: io::Result<()> = repeat_while_busy(limit, PAUSE, || Err(error(libc::EBUSY)));
        assert_eq!(done.unwrap_err().raw_os_error(), Some(libc::EBUSY));
        assert!(start.elapsed() >= limit);
    }
}
