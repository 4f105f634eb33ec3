//! Kernel arguments that can pass through GRUB and iPXE scripts.
//!
//! In the menus of a network boot, GRUB and iPXE read the arguments as part of a
//! script. The builder rejects everything that one of these loaders would not read as
//! plain text, so that nobody can add a command to a boot menu with an argument. The
//! area of an ISO is no script: GRUB also passes on what other programs have put there.

use std::fmt;

use landfall_boot_params::cmdline::COMMAND_LINE_SIZE;
use landfall_boot_params::{BootParams, CommandLine, CoreosInst, NetArgs};
use landfall_initramfs::arch::Arch;
use landfall_network_plan::{EmbeddedHost, NetworkPlan};

/// The number of bytes that are reserved for the arguments that loaders add:
/// `BOOT_IMAGE=` with a URL (GRUB), `initrd=` (iPXE), `BOOTIF=` (both),
/// `landfall.medium=` (our ISO).
const LOADER_SHARE: usize = 256;
/// The maximum length in bytes of the arguments that the builder accepts.
pub const MAX_BYTES: usize = COMMAND_LINE_SIZE - LOADER_SHARE;

/// A warning names at most this many hosts.
const MOST_NAMED: usize = 10;

/// The console on the screen. The builder adds it even if the user gives a
/// serial console, because an operator at the BMC's remote screen would see
/// nothing otherwise. A screen that does not exist does no harm.
const SCREEN: &str = "console=tty0";
/// Suppresses the kernel's lines, because at 115200 baud each of them costs
/// milliseconds. Errors are still shown.
const QUIET: &str = "quiet";

/// Why arguments cannot be passed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KernelArgsError {
    #[error("kernel argument `{argument}`: {character} cannot be passed through GRUB and iPXE")]
    BadCharacter { argument: String, character: String },
    #[error("kernel argument `{argument}`: `{word}` is a command in an iPXE script")]
    BadWord { argument: String, word: String },
    #[error(
        "kernel arguments are {found} bytes, expected at most {MAX_BYTES}: the kernel cuts longer ones silently"
    )]
    TooLong { found: usize },
}

/// Arguments that are safe in scripts of GRUB and of iPXE, separated by single spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelArgs(String);

impl KernelArgs {
    /// Puts the defaults before the given texts. A text holds one or more
    /// arguments. The defaults are the screen unless a virtual terminal is given,
    /// the first serial port unless it is given with other settings, and `quiet` unless
    /// a log level is given.
    ///
    /// A given console is added to the defaults, because a machine may have several
    /// consoles, and the operator may look at any of them. The kernel ignores a console
    /// that does not exist.
    pub fn with_defaults(texts: &[String], arch: Arch) -> Result<Self, KernelArgsError> {
        let given = Self::exactly(texts)?;
        // The last console on the command line becomes /dev/console, so the serial port
        // comes after the screen.
        let serial = format!("console={},115200n8", arch.serial_port());
        let mut words: Vec<&str> = Vec::new();
        let consoles: Vec<&str> = given.values("console").map(device).collect();
        // Virtual terminals are tty0 to tty63; serial ports begin with ttyS,
        // ttyAMA, ttyUSB.
        let is_screen = |name: &&str| {
            let number = name.strip_prefix("tty");
            number.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        if !consoles.iter().any(is_screen) {
            words.push(SCREEN);
        }
        if !consoles.contains(&arch.serial_port()) {
            words.push(&serial);
        }
        if !["quiet", "debug", "loglevel"]
            .iter()
            .any(|key| given.has_key(key))
        {
            words.push(QUIET);
        }
        words.extend(given.0.split_whitespace());
        Self::exactly(&[words.join(" ")])
    }

    /// The given texts without defaults.
    pub fn exactly(texts: &[String]) -> Result<Self, KernelArgsError> {
        for text in texts {
            check(text)?;
        }
        let line = texts
            .iter()
            .flat_map(|text| text.split_whitespace())
            .collect::<Vec<_>>()
            .join(" ");
        limited(line).map(Self)
    }

    /// The warnings about arguments that the agent would warn about or ignore. The
    /// parsers are those with which the agent reads the kernel command line. `hosts` are
    /// the hosts in the ramdisk: if a host has root device hints, they replace an
    /// argument that names its disk.
    pub fn warnings(&self, hosts: &[EmbeddedHost]) -> Vec<String> {
        warnings(&self.0, hosts)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn has_key(&self, key: &str) -> bool {
        self.0
            .split_whitespace()
            .any(|word| word.split('=').next() == Some(key))
    }

    fn values(&self, key: &str) -> impl Iterator<Item = &str> {
        let words = self.0.split_whitespace();
        words.filter_map(move |word| word.strip_prefix(key)?.strip_prefix('='))
    }
}

impl fmt::Display for KernelArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Arguments in the area of an ISO. The builder has checked only those that it has added
/// itself, so others may not be safe in a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AreaArguments(String);

impl AreaArguments {
    pub(crate) fn joined(present: &[&str], added: &KernelArgs) -> Result<Self, KernelArgsError> {
        let words = present.iter().copied().chain(added.0.split_whitespace());
        let line = words.collect::<Vec<_>>().join(" ");
        limited(line).map(Self)
    }

    /// The same arguments for a menu or an iPXE script.
    ///
    /// # Errors
    /// If a script would not read them as plain text.
    pub fn for_scripts(&self) -> Result<KernelArgs, KernelArgsError> {
        KernelArgs::exactly(std::slice::from_ref(&self.0))
    }

    /// The warnings about these arguments, as [`KernelArgs::warnings`] returns them.
    pub fn warnings(&self, hosts: &[EmbeddedHost]) -> Vec<String> {
        warnings(&self.0, hosts)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AreaArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The device of a console: `ttyS0` of `ttyS0,115200n8`.
fn device(console: &str) -> &str {
    console
        .split_once(',')
        .map_or(console, |(device, _)| device)
}

fn limited(line: String) -> Result<String, KernelArgsError> {
    match line.len() {
        found if found > MAX_BYTES => Err(KernelArgsError::TooLong { found }),
        _ => Ok(line),
    }
}

fn warnings(arguments: &str, hosts: &[EmbeddedHost]) -> Vec<String> {
    let line = CommandLine::parse(arguments);
    let params = BootParams::from_command_line(&line);
    let mut warnings = params.not_supported_yet();
    warnings.extend(params.warnings);
    warnings.extend(NetworkPlan::for_boot(&NetArgs::from_command_line(&line)).warnings);
    let without_hints: Vec<&EmbeddedHost> = hosts
        .iter()
        .filter(|host| host.root_device_hints.is_none())
        .collect();
    let inst = match without_hints.len() < hosts.len() {
        true => CoreosInst::with_hinted_disk(&line),
        false => CoreosInst::from_command_line(&line),
    };
    // No argument names a disk, so only the hosts that have hints install a system.
    if inst.uses_hints && !without_hints.is_empty() {
        let hosts = listed(&without_hints);
        warnings.push(format!(
            "nothing is installed on hosts without coreos.inst.install_dev or root device hints: {hosts}"
        ));
    }
    warnings.extend(inst.faults);
    warnings.extend(inst.warnings);
    warnings.extend(inst.remarks);
    warnings
}

fn listed(hosts: &[&EmbeddedHost]) -> String {
    let names = hosts.iter().take(MOST_NAMED).map(ToString::to_string);
    let names = names.collect::<Vec<String>>().join(", ");
    match hosts.len().saturating_sub(MOST_NAMED) {
        0 => names,
        more => format!("{names}, and {more} more"),
    }
}

fn check(text: &str) -> Result<(), KernelArgsError> {
    let argument = || text.escape_default().to_string();
    // GRUB puts another backslash before quotes and backslashes. `$` begins a
    // variable in both scripts.
    let passes =
        |c: char| (c.is_ascii_graphic() || c == ' ') && !matches!(c, '"' | '\'' | '\\' | '$');
    if let Some(bad) = text.chars().find(|&c| !passes(c)) {
        return Err(KernelArgsError::BadCharacter {
            argument: argument(),
            character: format!("`{}`", bad.escape_default()),
        });
    }
    // iPXE's `command_terminator` (src/core/exec.c).
    let is_command = |word: &&str| matches!(*word, "&&" | "||" | ";") || word.starts_with('#');
    if let Some(word) = text.split_whitespace().find(is_command) {
        return Err(KernelArgsError::BadWord {
            argument: argument(),
            word: word.to_owned(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mistyped_arguments_are_found_before_the_medium_is_burnt() {
        let warnings = |text: &str| {
            KernelArgs::with_defaults(&strings(&[text]), Arch::X86_64)
                .unwrap()
                .warnings(&[])
        };
        assert_eq!(
            warnings("ipa-api-url=http://192.0.2.1:6385 ip=192.0.2.5::192.0.2.1:24::eth0:none"),
            [""; 0]
        );
        assert!(warnings("ipa-api-ulr=http://192.0.2.1")[0].contains("ipa-api-ulr"));
        assert!(warnings("ip=eth0:bogus")[0].contains("ip=eth0:bogus"));
    }

    #[test]
    fn the_serial_port_is_that_of_the_architecture() {
        for (given, expected) in [
            (&[][..], "console=tty0 console=ttyAMA0,115200n8 quiet"),
            (
                &["console=ttyAMA0,9600"],
                "console=tty0 quiet console=ttyAMA0,9600",
            ),
            (
                &["console=ttyS0"],
                "console=tty0 console=ttyAMA0,115200n8 quiet console=ttyS0",
            ),
        ] {
            let line = KernelArgs::with_defaults(&strings(given), Arch::Aarch64).unwrap();
            assert_eq!(line.as_str(), expected);
        }
    }

    #[test]
    fn root_device_hints_replace_the_argument_that_names_the_disk() {
        let image = "coreos.inst.image_url=http://192.0.2.1/a coreos.inst.ignition_url=skip";
        let line = KernelArgs::with_defaults(&strings(&[image]), Arch::X86_64).unwrap();
        let without = line.warnings(&[]);
        assert!(without[0].contains("nothing is installed without"));
        assert_eq!(line.warnings(&[host("a", true)]), [""; 0]);
        let none_has_any = line.warnings(&[host("a", false)]);
        assert!(none_has_any[0].contains("nothing is installed without"));
    }

    #[test]
    fn a_host_without_an_installation_is_named() {
        let image = "coreos.inst.image_url=http://192.0.2.1/a coreos.inst.ignition_url=skip";
        let line = KernelArgs::with_defaults(&strings(&[image]), Arch::X86_64).unwrap();
        let hosts = [host("a", true), host("b", false), host("c", false)];
        assert_eq!(
            line.warnings(&hosts),
            [
                "nothing is installed on hosts without coreos.inst.install_dev or root device hints: b, c"
            ]
        );
        let mut many: Vec<_> = (0..12).map(|n| host(&format!("h{n}"), false)).collect();
        many.push(host("a", true));
        let warnings = line.warnings(&many);
        assert!(warnings[0].ends_with(": h0, h1, h2, h3, h4, h5, h6, h7, h8, h9, and 2 more"));
        // An argument names the disk for all hosts, or there is nothing to install.
        for text in [
            "coreos.inst.install_dev=sda coreos.inst.ignition_url=skip",
            "quiet",
        ] {
            let line = KernelArgs::with_defaults(&strings(&[text]), Arch::X86_64).unwrap();
            assert_eq!(line.warnings(&hosts), [""; 0], "{text}");
        }
    }

    fn host(name: &str, has_hints: bool) -> EmbeddedHost {
        let hints = match has_hints {
            true => r#""root_device_hints": {"serialNumber": "S"},"#,
            false => "",
        };
        let text = format!(
            r#"{{"format": 1, "host_name": "{name}", "macs": [], "nics": {{}}, {hints} "kind": "none", "text": ""}}"#
        );
        EmbeddedHost::from_json(&text).unwrap()
    }

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn defaults_give_way() {
        for (given, expected) in [
            (&[][..], "console=tty0 console=ttyS0,115200n8 quiet"),
            (
                &["a=1  b", " c"],
                "console=tty0 console=ttyS0,115200n8 quiet a=1 b c",
            ),
            (
                &["console=ttyS1"],
                "console=tty0 console=ttyS0,115200n8 quiet console=ttyS1",
            ),
            (
                &["console=ttyS0,57600", "console=ttyS10"],
                "console=tty0 quiet console=ttyS0,57600 console=ttyS10",
            ),
            (
                &["console=tty0"],
                "console=ttyS0,115200n8 quiet console=tty0",
            ),
            (
                &["console=tty1 console=ttyS1"],
                "console=ttyS0,115200n8 quiet console=tty1 console=ttyS1",
            ),
            (
                &["loglevel=7"],
                "console=tty0 console=ttyS0,115200n8 loglevel=7",
            ),
            (
                &["console=hvc0 debug"],
                "console=tty0 console=ttyS0,115200n8 console=hvc0 debug",
            ),
        ] {
            assert_eq!(
                KernelArgs::with_defaults(&strings(given), Arch::X86_64)
                    .unwrap()
                    .as_str(),
                expected
            );
        }
    }

    #[test]
    fn arguments_that_a_script_would_interpret_are_rejected() {
        for (text, expected) in [
            (
                "a=\"b c\"",
                "kernel argument `a=\\\"b c\\\"`: `\\\"` cannot be passed through GRUB and iPXE",
            ),
            (
                "a=$root",
                "kernel argument `a=$root`: `$` cannot be passed through GRUB and iPXE",
            ),
            (
                "a\nreboot",
                "kernel argument `a\\nreboot`: `\\n` cannot be passed through GRUB and iPXE",
            ),
            (
                "it's",
                "kernel argument `it\\'s`: `\\'` cannot be passed through GRUB and iPXE",
            ),
            (
                "a\\b",
                "kernel argument `a\\\\b`: `\\\\` cannot be passed through GRUB and iPXE",
            ),
            (
                "a\0b",
                "kernel argument `a\\u{0}b`: `\\u{0}` cannot be passed through GRUB and iPXE",
            ),
            (
                "\u{e4}",
                "kernel argument `\\u{e4}`: `\\u{e4}` cannot be passed through GRUB and iPXE",
            ),
            (
                "a || shell",
                "kernel argument `a || shell`: `||` is a command in an iPXE script",
            ),
            (
                "a ; shell",
                "kernel argument `a ; shell`: `;` is a command in an iPXE script",
            ),
            (
                "a #b",
                "kernel argument `a #b`: `#b` is a command in an iPXE script",
            ),
        ] {
            assert_eq!(
                KernelArgs::exactly(&strings(&[text]))
                    .unwrap_err()
                    .to_string(),
                expected
            );
        }
    }

    #[test]
    fn too_long_arguments_are_rejected() {
        assert!(KernelArgs::exactly(&["x".repeat(MAX_BYTES)]).is_ok());
        let error = KernelArgs::exactly(&["x".repeat(MAX_BYTES), "y".into()]).unwrap_err();
        assert_eq!(
            error,
            KernelArgsError::TooLong {
                found: MAX_BYTES + 2
            }
        );
    }

    proptest! {
        #[test]
        fn accepted_arguments_have_no_special_characters(text in "\\PC{0,40}") {
            if let Ok(arguments) = KernelArgs::with_defaults(&[text], Arch::X86_64) {
                prop_assert!(!arguments.as_str().contains(['"', '\'', '\\', '$', '\n', '\0']));
                prop_assert!(!arguments.as_str().contains("  "));
            }
        }
    }
}
