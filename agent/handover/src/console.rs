//! Parses the option `--console`, and builds the kernel argument and the GRUB
//! commands of a console.

use std::fmt;
use std::str::FromStr;

/// The accepted forms, for the error message.
const EXPECTED: &str = "expected tty0, hvc0, ttysclp0, or ttyS<n> or ttyAMA<n> with [,speed[parity[bits]]], \
     speed in bit/s, parity n, o or e, and 5 to 8 bits";
/// The defaults of Linux and GRUB (Documentation/admin-guide/serial-console.rst;
/// GRUB manual, "serial").
const DEFAULT_SPEED: u32 = 9600;
const DEFAULT_BITS: u8 = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Console {
    /// A screen, or a console that the machine presents as one.
    Graphical(GraphicalConsole),
    Serial(SerialConsole),
}

/// A console without line settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphicalConsole {
    /// The virtual terminal.
    Tty0,
    /// The console of a hypervisor.
    Hvc0,
    /// The console of an s390x machine.
    Ttysclp0,
}

/// A serial port and its line settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SerialConsole {
    driver: SerialDriver,
    port: u8,
    speed: u32,
    parity: Parity,
    bits: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SerialDriver {
    /// 8250 and compatible chips.
    TtyS,
    /// ARM's PL011.
    TtyAma,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parity {
    None,
    Odd,
    Even,
}

impl Console {
    /// The whole kernel argument, with `console=`.
    pub fn kernel_argument(&self) -> String {
        format!("console={self}")
    }

    /// GRUB's name for a terminal of this kind.
    fn grub_terminal(&self) -> &'static str {
        match self {
            Self::Graphical(_) => "console",
            Self::Serial(_) => "serial",
        }
    }

    /// GRUB's command that sets up the serial line; `None` for a graphical console.
    fn grub_command(&self) -> Option<String> {
        let Self::Serial(serial) = self else {
            return None;
        };
        let parity = match serial.parity {
            Parity::None => "no",
            Parity::Odd => "odd",
            Parity::Even => "even",
        };
        Some(format!(
            "serial --unit={} --speed={} --word={} --parity={parity}",
            serial.port, serial.speed, serial.bits
        ))
    }
}

/// All GRUB commands for these consoles.
pub fn grub_commands(consoles: &[Console]) -> Vec<String> {
    let mut commands: Vec<String> = consoles.iter().filter_map(Console::grub_command).collect();
    let mut terminals: Vec<_> = consoles.iter().map(Console::grub_terminal).collect();
    terminals.sort_unstable();
    terminals.dedup();
    let terminals = terminals.join(" ");
    commands.push(format!("terminal_input {terminals}"));
    commands.push(format!("terminal_output {terminals}"));
    commands
}

/// Why a text is no console.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConsoleError {
    #[error("console {text:?}: leave out {prefix:?}")]
    Prefix { text: String, prefix: &'static str },
    #[error("console {0:?}: {EXPECTED}")]
    Unknown(String),
}

impl FromStr for Console {
    type Err = ConsoleError;

    /// Accepts the same texts as `--console` of coreos-installer.
    fn from_str(text: &str) -> Result<Self, ConsoleError> {
        for prefix in ["console=", "/dev/"] {
            if text.starts_with(prefix) {
                let text = text.to_owned();
                return Err(ConsoleError::Prefix { text, prefix });
            }
        }
        match text {
            "tty0" => Some(Self::Graphical(GraphicalConsole::Tty0)),
            "hvc0" => Some(Self::Graphical(GraphicalConsole::Hvc0)),
            "ttysclp0" => Some(Self::Graphical(GraphicalConsole::Ttysclp0)),
            serial => SerialConsole::parse(serial).map(Self::Serial),
        }
        .ok_or_else(|| ConsoleError::Unknown(text.to_owned()))
    }
}

impl SerialConsole {
    fn parse(text: &str) -> Option<Self> {
        let (driver, rest) = text
            .strip_prefix("ttyS")
            .map(|rest| (SerialDriver::TtyS, rest))
            .or_else(|| Some((SerialDriver::TtyAma, text.strip_prefix("ttyAMA")?)))?;
        let (port, rest) = digits(rest)?;
        let (mut speed, mut parity, mut bits) = (DEFAULT_SPEED, Parity::None, DEFAULT_BITS);
        if !rest.is_empty() {
            let (number, rest) = digits(rest.strip_prefix(',')?)?;
            speed = number.parse().ok()?;
            let mut settings = rest.bytes();
            parity = match settings.next() {
                None | Some(b'n') => Parity::None,
                Some(b'o') => Parity::Odd,
                Some(b'e') => Parity::Even,
                Some(_) => return None,
            };
            bits = match settings.next() {
                None => DEFAULT_BITS,
                Some(digit @ b'5'..=b'8') => digit - b'0',
                Some(_) => return None,
            };
            if settings.next().is_some() {
                return None;
            }
        }
        Some(Self {
            driver,
            port: port.parse().ok()?,
            speed,
            parity,
            bits,
        })
    }
}

/// Splits off the leading digits; `None` if the text does not begin with a digit.
fn digits(text: &str) -> Option<(&str, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// The kernel's notation, with every setting written out.
impl fmt::Display for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Graphical(GraphicalConsole::Tty0) => f.write_str("tty0"),
            Self::Graphical(GraphicalConsole::Hvc0) => f.write_str("hvc0"),
            Self::Graphical(GraphicalConsole::Ttysclp0) => f.write_str("ttysclp0"),
            Self::Serial(serial) => {
                let driver = match serial.driver {
                    SerialDriver::TtyS => "ttyS",
                    SerialDriver::TtyAma => "ttyAMA",
                };
                let parity = match serial.parity {
                    Parity::None => 'n',
                    Parity::Odd => 'o',
                    Parity::Even => 'e',
                };
                let (port, speed, bits) = (serial.port, serial.speed, serial.bits);
                write!(f, "{driver}{port},{speed}{parity}{bits}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_becomes_a_kernel_argument_and_a_grub_command() {
        for (text, kernel, grub) in [
            ("tty0", "console=tty0", None),
            ("hvc0", "console=hvc0", None),
            ("ttysclp0", "console=ttysclp0", None),
            (
                "ttyS1",
                "console=ttyS1,9600n8",
                Some("serial --unit=1 --speed=9600 --word=8 --parity=no"),
            ),
            (
                "ttyAMA0,115200",
                "console=ttyAMA0,115200n8",
                Some("serial --unit=0 --speed=115200 --word=8 --parity=no"),
            ),
            (
                "ttyS2,57600o",
                "console=ttyS2,57600o8",
                Some("serial --unit=2 --speed=57600 --word=8 --parity=odd"),
            ),
            (
                "ttyS255,4294967295e5",
                "console=ttyS255,4294967295e5",
                Some("serial --unit=255 --speed=4294967295 --word=5 --parity=even"),
            ),
        ] {
            let console: Console = text.parse().unwrap();
            assert_eq!(console.kernel_argument(), kernel);
            assert_eq!(console.grub_command().as_deref(), grub, "{text}");
            assert_eq!(console.to_string().parse(), Ok(console), "{text}");
        }
    }

    #[test]
    fn the_terminals_are_named_once_and_in_order() {
        let consoles =
            ["ttyS0,115200n8", "tty0", "ttyS1"].map(|text| text.parse::<Console>().unwrap());
        assert_eq!(
            grub_commands(&consoles),
            [
                "serial --unit=0 --speed=115200 --word=8 --parity=no",
                "serial --unit=1 --speed=9600 --word=8 --parity=no",
                "terminal_input console serial",
                "terminal_output console serial",
            ]
        );
        assert_eq!(
            grub_commands(&consoles[1..2]),
            ["terminal_input console", "terminal_output console"]
        );
    }

    #[test]
    fn an_invalid_console_is_rejected() {
        for bad in [
            "",
            "tty",
            "tty1",
            "hvc1",
            "ttyS",
            "ttyS0,",
            "ttyS0,n8",
            "ttyS0 ",
            "ttyS-1",
            "ttyS256",
            "ttyS0,115200x",
            "ttyS0,115200n9",
            "ttyS0,115200n4",
            "ttyS0,115200n88",
            "ttyS0,115200n8r",
            "ttyS0,4294967296",
            "ttyS\u{0663}",
            "ttyUSB0",
            "TTYS0",
        ] {
            let reason = bad.parse::<Console>().unwrap_err().to_string();
            assert!(reason.contains("expected tty0"), "{bad:?}: {reason}");
        }
        for bad in ["console=tty0", "/dev/ttyS0"] {
            let reason = bad.parse::<Console>().unwrap_err().to_string();
            assert!(reason.contains("leave out"), "{bad:?}: {reason}");
        }
    }
}
