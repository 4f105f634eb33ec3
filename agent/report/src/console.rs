//! Prints on the kernel's consoles and on the firmware's serial ports, and reads the keys
//! of the form there. Each console has its own thread for output and a bounded queue,
//! because a serial line that stops the output (flow control) would otherwise stop the
//! installation.

mod blocks;
mod device;
mod firmware_port;
mod keyboard;
mod open_form;
mod screen;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use device::{CONSOLE_QUEUE, Console};
pub use firmware_port::FirmwarePort;
pub use keyboard::KeyDecoder;
use landfall_boot_params::argument_value::ConsoleMode;
use landfall_sys::serial_speed::set_serial_speed;
use landfall_sys::uevent::{Action, Received, UeventSocket};
use nix::libc::{ENOTTY, O_NOCTTY, O_NONBLOCK};
use tracing::Level;

/// The maximum number of earlier lines that a new console prints first.
const BACKLOG: usize = CONSOLE_QUEUE / 2;

/// How long to wait before the agent opens a new console: the kernel announces the device
/// node shortly before it registers the console itself (`hvc_alloc` in
/// drivers/tty/hvc/hvc_console.c).
const REGISTRATION: Duration = Duration::from_secs(1);

/// All consoles of the kernel, including those whose driver is loaded later: hvc0
/// of a hypervisor, or a USB console.
#[derive(Debug)]
pub(super) struct Consoles {
    list: PathBuf,
    devices: PathBuf,
    /// /sys, if the agent also prints on the firmware's serial ports; otherwise `None`.
    system: Option<PathBuf>,
    mode: ConsoleMode,
    /// Whether a key opens the form, if one is offered.
    form: bool,
    open: RwLock<BTreeMap<PathBuf, Console>>,
}

impl Consoles {
    /// `list` has the format of /proc/consoles. `devices` is /dev.
    pub(super) fn new(list: &Path, devices: &Path, mode: ConsoleMode, form: bool) -> Self {
        Self {
            mode,
            form,
            list: list.to_owned(),
            devices: devices.to_owned(),
            system: None,
            open: RwLock::default(),
        }
    }

    /// Also prints on the serial ports that the firmware uses as its console. `system` is
    /// /sys.
    fn with_firmware_ports(self, system: &Path) -> Self {
        Self {
            system: Some(system.to_owned()),
            ..self
        }
    }

    /// Opens the consoles of this machine, and starts a thread that opens those that
    /// appear later. A new console first prints the last lines that `earlier_lines` returns.
    pub(super) fn of_this_machine(
        mode: ConsoleMode,
        form: bool,
        earlier_lines: fn() -> Vec<String>,
    ) -> Arc<Self> {
        let list = Path::new("/proc/consoles");
        let consoles = Self::new(list, Path::new("/dev"), mode, form);
        let consoles = Arc::new(consoles.with_firmware_ports(Path::new("/sys")));
        // Open the socket before the first scan, so that no console is missed.
        let socket = UeventSocket::open();
        consoles.open_new(Vec::new);
        if let Ok(socket) = socket {
            let followed = Arc::clone(&consoles);
            // If the thread cannot be started, only consoles that appear later stay silent.
            let _ = thread::Builder::new()
                .name("consoles".into())
                .spawn(move || followed.follow(&socket, earlier_lines));
        }
        consoles
    }

    fn follow(&self, socket: &UeventSocket, earlier_lines: fn() -> Vec<String>) {
        let mut changed = false;
        loop {
            match socket.recv(changed.then_some(REGISTRATION)) {
                Ok(Received::Event(event)) => {
                    changed |= event.action == Action::Add && event.subsystem() == "tty";
                }
                Ok(Received::Lost) => changed = true,
                Ok(Received::TimedOut) => {
                    changed = false;
                    self.open_new(earlier_lines);
                }
                Err(_) => return,
            }
        }
    }

    /// Opens the listed consoles and the firmware's serial ports that are not open yet.
    pub(super) fn open_new(&self, earlier_lines: impl FnOnce() -> Vec<String>) {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let listed = names(&self.list);
        let mut new: Vec<(PathBuf, Console)> = { listed.iter() }
            .filter(|name| !open.contains_key(*name))
            .filter_map(|name| Some((name.clone(), self.open_device(name)?)))
            .collect();
        let ports = self.system.as_deref().map(firmware_port::of_machine);
        for (name, port) in ports.unwrap_or_default() {
            let name = PathBuf::from(name);
            // The kernel has set up its own consoles.
            if listed.contains(&name) || open.contains_key(&name) {
                continue;
            }
            // Keep the line open until `open_device` has opened it too, because the last
            // close resets its settings.
            let line = OpenOptions::new()
                .write(true)
                .custom_flags(O_NOCTTY | O_NONBLOCK)
                .open(self.devices.join(&name));
            let Ok(line) = line else { continue };
            // With a wrong speed the output would be garbled. Skip a port that rejects
            // the settings: without CLOCAL, opening it could wait forever for a carrier,
            // and block all other consoles. ENOTTY is no error: a port of a virtual
            // machine may not be a terminal.
            match set_serial_speed(&line, port.speed) {
                Err(error) if error.raw_os_error() != Some(ENOTTY) => continue,
                Ok(()) | Err(_) => {}
            }
            new.extend(self.open_device(&name).map(|console| (name, console)));
        }
        if new.is_empty() {
            return;
        }
        let lines = earlier_lines();
        for line in lines.iter().skip(lines.len().saturating_sub(BACKLOG)) {
            for (_, console) in &new {
                console.print(line);
            }
        }
        open.extend(new.drain(..));
    }

    fn open_device(&self, name: &Path) -> Option<Console> {
        Console::open(&self.devices.join(name), self.mode, self.form)
    }

    /// Prints a line of this level on every console. In the mode `Quiet`, prints only
    /// warnings and errors.
    pub(super) fn print(&self, level: Level, text: &str) {
        if self.mode == ConsoleMode::Quiet && level > Level::WARN {
            return;
        }
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        for console in open.values() {
            console.print(text);
        }
    }

    /// Waits until each console has printed all earlier lines, at most `bound` for each
    /// console.
    pub(super) fn wait_until_printed(&self, bound: Duration) {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        for console in open.values() {
            console.wait_until_printed(bound);
        }
    }
}

/// The device names in a /proc/consoles text: the first word of each line. If the file
/// cannot be read, only `console`.
fn names(path: &Path) -> Vec<PathBuf> {
    let Ok(text) = fs::read_to_string(path) else {
        return vec![PathBuf::from("console")];
    };
    text.lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(PathBuf::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_consoles() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("consoles");
        fs::write(
            &path,
            "tty0                 -WU (EC  p  )    4:7\nttyS0                -W- (E   p a)    4:64\n",
        )
        .unwrap();
        assert_eq!(
            names(&path),
            [PathBuf::from("tty0"), PathBuf::from("ttyS0")]
        );
    }

    #[test]
    fn a_console_that_appears_later_gets_earlier_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let text = |name: &str| fs::read_to_string(path(name)).unwrap();
        for name in ["ttyS0", "hvc0"] {
            fs::write(path(name), "").unwrap();
        }
        let list = path("consoles");
        fs::write(&list, "ttyS0 -W-\n").unwrap();
        let consoles = Consoles::new(&list, dir.path(), ConsoleMode::Lines, false);
        consoles.open_new(Vec::new);
        consoles.print(Level::INFO, "first");
        // The list has a console without a device node.
        fs::write(&list, "ttyS0 -W-\nhvc0 -W-\nnetcon0 -W-\n").unwrap();
        consoles.open_new(|| vec!["first".to_owned()]);
        consoles.print(Level::INFO, "second");
        consoles.wait_until_printed(Duration::from_secs(20));
        assert_eq!(text("ttyS0"), "first\nsecond\n");
        assert_eq!(text("hvc0"), "first\nsecond\n");
    }

    #[test]
    fn the_firmwares_serial_port_is_a_console() {
        use firmware_port::tests::{port, put, table};
        let dir = tempfile::tempdir().unwrap();
        let sys = dir.path().join("sys");
        let list = dir.path().join("consoles");
        fs::write(&list, "ttyS0 -W-\n").unwrap();
        for name in ["ttyS0", "ttyS1"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        put(&sys, "firmware/acpi/tables/SPCR", table(1, 0x2f8, 7));
        // The kernel already uses this port, ttyS0, as a console.
        put(&sys, "firmware/acpi/tables/SPCR2", table(1, 0x3f8, 7));
        port(&sys, "ttyS0", "4", "0x3F8", "0x0");
        port(&sys, "ttyS1", "4", "0x2F8", "0x0");
        let consoles = Consoles::new(&list, dir.path(), ConsoleMode::Lines, false);
        let consoles = consoles.with_firmware_ports(&sys);
        consoles.open_new(Vec::new);
        consoles.open_new(Vec::new);
        consoles.print(Level::INFO, "said");
        consoles.wait_until_printed(Duration::from_secs(20));
        for name in ["ttyS0", "ttyS1"] {
            let text = fs::read_to_string(dir.path().join(name)).unwrap();
            assert_eq!(text, "said\n", "{name}");
        }
    }

    #[test]
    fn a_quiet_console_shows_warnings_and_errors_only() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("consoles");
        fs::write(&list, "tty0 -W-\n").unwrap();
        fs::write(dir.path().join("tty0"), "").unwrap();
        let consoles = Consoles::new(&list, dir.path(), ConsoleMode::Quiet, false);
        consoles.open_new(Vec::new);
        consoles.print(Level::INFO, "said");
        consoles.print(Level::WARN, "warned");
        consoles.wait_until_printed(Duration::from_secs(20));
        let text = fs::read_to_string(dir.path().join("tty0")).unwrap();
        assert_eq!(text, "warned\n");
    }

    #[test]
    fn a_virtual_terminal_shows_the_status_and_a_serial_line_shows_lines() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("consoles");
        fs::write(&list, "tty0 -W-\nttyS0 -W-\n").unwrap();
        for name in ["tty0", "ttyS0"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let consoles = Consoles::new(&list, dir.path(), ConsoleMode::Status, false);
        consoles.open_new(Vec::new);
        consoles.print(Level::INFO, "said");
        consoles.wait_until_printed(Duration::from_secs(20));
        let text = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(text("ttyS0"), "said\n");
        assert!(text("tty0").contains(" Landfall "), "{}", text("tty0"));
        assert!(!text("tty0").contains("said\n"), "{}", text("tty0"));
    }

    #[test]
    fn a_long_past_does_not_fill_the_queue() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("consoles");
        fs::write(&list, "hvc0 -W-\n").unwrap();
        fs::write(dir.path().join("hvc0"), "").unwrap();
        let consoles = Consoles::new(&list, dir.path(), ConsoleMode::Lines, false);
        consoles.open_new(|| (0..10_000).map(|number| number.to_string()).collect());
        consoles.wait_until_printed(Duration::from_secs(20));
        let text = fs::read_to_string(dir.path().join("hvc0")).unwrap();
        assert_eq!(text.lines().count(), BACKLOG);
        assert!(text.ends_with("\n9999\n"));
    }
}
