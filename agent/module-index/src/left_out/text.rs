//! Reads and writes the text of the list.

use std::fmt::Write as _;

use super::{DevicePattern, LeftOut, LeftOutFirmware, LeftOutModule, MAX_LEFT_OUT_BYTES, number};
use crate::text_format::{MAX_MODULES, ParseError, WriteError, WrittenFile, is_alias, is_word};

const HEAD: &str = "landfall-left-out 1";

impl LeftOut {
    /// Parses the text. The error names the line of the first fault.
    ///
    /// # Errors
    /// If the text is too large, names too many modules, is cut off or continues after
    /// `end`, if a device comes before the first module, or if a line has another form
    /// than the lines of [`LeftOut::to_text`].
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        if text.len() > MAX_LEFT_OUT_BYTES {
            return Err(ParseError::LeftOutTooLarge { found: text.len() });
        }
        let mut content = Self::default();
        let mut lines = (1..).zip(text.split_terminator('\n'));
        let fault = |line, expected| ParseError::LeftOut { line, expected };
        if lines.next().is_none_or(|(_, first)| first != HEAD) {
            return Err(fault(1, "`landfall-left-out 1`"));
        }
        let mut last = 1;
        while let Some((number, line)) = lines.next() {
            last = number;
            if line == "end" {
                return match lines.next() {
                    None => Ok(content),
                    Some((number, _)) => Err(fault(number, "nothing after `end`")),
                };
            }
            content.line(line).map_err(|text| fault(number, text))?;
        }
        Err(fault(last + 1, "`end`: the text is cut off"))
    }

    /// Parses one line. The error contains what was expected.
    fn line(&mut self, line: &str) -> Result<(), &'static str> {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        let device = match key {
            "module" if self.modules.len() == MAX_MODULES => return Err("fewer modules"),
            "module" if is_word(value) => {
                let name = value.to_owned();
                let devices = Vec::new();
                self.modules.push(LeftOutModule { name, devices });
                return Ok(());
            }
            "firmware" => {
                let firmware = firmware(value).ok_or("`firmware DRIVER FILE [PACKAGE]`")?;
                self.firmware.push(firmware);
                return Ok(());
            }
            "pci" => numbers(value).map(|(vendor, device)| DevicePattern::Pci { vendor, device }),
            "usb" => numbers(value).map(|(vendor, product)| DevicePattern::Usb { vendor, product }),
            "alias" if is_alias(value) => Some(DevicePattern::Alias(value.to_owned())),
            _ => None,
        };
        let device = device.ok_or("`module`, `pci`, `usb`, `alias`, `firmware` or `end`")?;
        let module = self.modules.last_mut();
        let module = module.ok_or("a `module` line before its devices")?;
        module.devices.push(device);
        Ok(())
    }

    /// Writes a text that [`LeftOut::parse`] reads back as the same content.
    ///
    /// # Errors
    /// If the format cannot represent the content.
    pub fn to_text(&self) -> Result<String, WriteError> {
        let checked = |what, text: &str, is_good: fn(&str) -> bool| match is_good(text) {
            true => Ok(()),
            false => Err(WriteError::BadWord {
                file: WrittenFile::LeftOut,
                what,
                text: text.to_owned(),
            }),
        };
        let mut out = format!("{HEAD}\n");
        for module in &self.modules {
            checked("module name", &module.name, is_word)?;
            let _ = writeln!(out, "module {}", module.name);
            for device in &module.devices {
                let _ = match device {
                    DevicePattern::Pci { vendor, device } => {
                        writeln!(out, "pci {vendor:04X}{device:04X}")
                    }
                    DevicePattern::Usb { vendor, product } => {
                        writeln!(out, "usb {vendor:04X}{product:04X}")
                    }
                    DevicePattern::Alias(alias) => {
                        checked("alias", alias, is_alias)?;
                        writeln!(out, "alias {alias}")
                    }
                };
            }
        }
        for file in &self.firmware {
            checked("module name", &file.driver, is_word)?;
            checked("firmware file", &file.path, is_word)?;
            let _ = write!(out, "firmware {} {}", file.driver, file.path);
            if !file.package.is_empty() {
                checked("package", &file.package, is_alias)?;
                let _ = write!(out, " {}", file.package);
            }
            out.push('\n');
        }
        out.push_str("end\n");
        Self::parse(&out)?;
        Ok(out)
    }
}

/// Parses eight hexadecimal digits: the vendor and the device (or product) number.
fn numbers(text: &str) -> Option<(u16, u16)> {
    let (vendor, rest) = number(text)?;
    let (device, rest) = number(rest)?;
    rest.is_empty().then_some((vendor, device))
}

fn firmware(value: &str) -> Option<LeftOutFirmware> {
    let (driver, rest) = value.split_once(' ')?;
    let (path, package) = match rest.split_once(' ') {
        Some((path, package)) if is_alias(package) => (path, package),
        Some(_) => return None,
        None => (rest, ""),
    };
    (is_word(driver) && is_word(path)).then(|| LeftOutFirmware {
        driver: driver.to_owned(),
        path: path.to_owned(),
        package: package.to_owned(),
    })
}
