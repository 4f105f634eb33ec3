//! Handles the power button. A BMC presses it when Ironic requests a soft power off,
//! which metal3 tries before a hard power off.
//!
//! The kernel reports the button as the key `KEY_POWER` of an input device (modules
//! button and evdev). On other systems systemd-logind reads it.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use landfall_sys::uevent::{Received, UeventSocket};
use nix::errno::Errno;
use nix::libc::O_NONBLOCK;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::shutdown::Ending;
use super::supervise::Supervisor;

/// The code of the key in <linux/input-event-codes.h>.
const KEY_POWER: u16 = 116;
const EV_KEY: u16 = 1;
/// The `value` of a key that is pressed. 0 means released, 2 means repeated.
const PRESSED: i32 = 1;
/// The size of `struct input_event` on a 64-bit machine: two 64-bit words of
/// time, then type, code and value.
const EVENT_BYTES: usize = 24;

/// Starts a thread that orders a power off from `supervisor` when a power button is
/// pressed.
pub(super) fn watch_in_background(supervisor: &Arc<Supervisor>) {
    let supervisor = Arc::clone(supervisor);
    super::spawn("power button", "the power button does nothing", move || {
        if let Err(error) = watch(&supervisor) {
            tracing::warn!("cannot watch the power button: {error}; it does nothing in this boot");
        }
    });
}

fn watch(supervisor: &Arc<Supervisor>) -> std::io::Result<()> {
    // Open the socket before the first scan. Otherwise, a device that appears after the
    // scan and before the socket is open would be missed.
    let socket = UeventSocket::open()?;
    let mut buttons = HashMap::new();
    open_new(&mut buttons);
    loop {
        let ready: Vec<String> = {
            let names: Vec<&String> = buttons.keys().collect();
            let files = names.iter().map(|name| buttons[*name].as_fd());
            let mut fds: Vec<PollFd<'_>> = std::iter::once(socket.as_fd())
                .chain(files)
                .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
                .collect();
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            let is_ready = |fd: &PollFd<'_>| fd.any().unwrap_or(true);
            let ready = names.iter().zip(&fds[1..]).filter(|(_, fd)| is_ready(fd));
            ready.map(|(name, _)| (*name).clone()).collect()
        };
        for name in ready {
            match buttons.get_mut(&name).map(is_pressed) {
                Some(Ok(true)) => {
                    supervisor.order_end(Ending::PowerOff, "the power button was pressed");
                }
                Some(Ok(false)) | None => {}
                // The device has been removed.
                Some(Err(_)) => {
                    buttons.remove(&name);
                }
            }
        }
        let mut changed = false;
        while let Some(received) = socket.try_recv()? {
            changed |= match received {
                Received::Event(event) => event.subsystem() == "input",
                Received::Lost => true,
                Received::TimedOut => false,
            };
        }
        if changed {
            open_new(&mut buttons);
        }
    }
}

/// Opens the input devices that have a power key and are not open yet.
fn open_new(buttons: &mut HashMap<String, File>) {
    for entry in fs::read_dir("/sys/class/input")
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with("event") || buttons.contains_key(&name) {
            continue;
        }
        let keys = entry.path().join("device/capabilities/key");
        if !has_key(&fs::read_to_string(keys).unwrap_or_default(), KEY_POWER) {
            continue;
        }
        let node = Path::new("/dev/input").join(&name);
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(O_NONBLOCK)
            .open(&node);
        match opened {
            Ok(file) => {
                buttons.insert(name, file);
            }
            // sysfs shows the device before its node exists. The kernel sends a uevent
            // when it has created the node.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!("cannot open the power button {}: {error}", node.display())
            }
        }
    }
}

/// Whether a bitmap of sysfs has this bit. The bitmap is a list of 64-bit words in
/// hexadecimal, the most significant word first.
fn has_key(bitmap: &str, key: u16) -> bool {
    let word = bitmap.split_whitespace().rev().nth(usize::from(key / 64));
    let word = word.and_then(|word| u64::from_str_radix(word, 16).ok());
    word.is_some_and(|word| word >> (key % 64) & 1 == 1)
}

fn is_pressed(button: &mut File) -> std::io::Result<bool> {
    let mut events = [0; 64 * EVENT_BYTES];
    match button.read(&mut events) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(length) => Ok(presses_power(&events[..length])),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn presses_power(events: &[u8]) -> bool {
    let (events, _) = events.as_chunks::<EVENT_BYTES>();
    events.iter().any(|event| {
        let kind = u16::from_ne_bytes([event[16], event[17]]);
        let code = u16::from_ne_bytes([event[18], event[19]]);
        let value = i32::from_ne_bytes([event[20], event[21], event[22], event[23]]);
        (kind, code, value) == (EV_KEY, KEY_POWER, PRESSED)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_power_key_is_one_of_the_bitmap() {
        for (keys, expected) in [
            // In this order: an ACPI button, a mouse, an AT keyboard, an AT keyboard
            // without a power key.
            ("10000000000000 0\n", true),
            ("ff0000 0 0 0 0\n", false),
            (
                "402000000 3803078f800d001 feffffdfffefffff fffffffffffffffe\n",
                true,
            ),
            (
                "402000000 3803078f800d001 feefffdfffefffff fffffffffffffffe\n",
                false,
            ),
            ("", false),
            ("0", false),
            ("x y", false),
        ] {
            assert_eq!(has_key(keys, KEY_POWER), expected, "{keys:?}");
        }
    }

    #[test]
    fn only_a_press_of_the_power_key_counts() {
        let event = |kind: u16, code: u16, value: i32| {
            let mut bytes = vec![0xff; 16];
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(code.to_ne_bytes());
            bytes.extend(value.to_ne_bytes());
            bytes
        };
        let up = event(EV_KEY, KEY_POWER, 0);
        let other = event(EV_KEY, 30, PRESSED);
        let sync = event(0, 0, 0);
        assert!(!presses_power(&[up, other, sync.clone()].concat()));
        let down = event(EV_KEY, KEY_POWER, PRESSED);
        assert!(presses_power(&[sync, down.clone()].concat()));
        assert!(!presses_power(&down[..23]), "cut off");
        assert!(!presses_power(&[]));
    }
}
