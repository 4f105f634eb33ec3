//! Reads initramfs/hardware/devices.txt, the list of hardware in data centres and its
//! drivers.

use anyhow::{Context as _, Result};

const DEVICES: &str = include_str!("../../initramfs/hardware/devices.txt");

/// A line of the file.
#[derive(Debug, Clone)]
pub enum Entry {
    /// The title of the devices below it.
    Group(&'static str),
    Device(Device),
}

/// What one kernel module drives.
#[derive(Debug, Clone)]
pub struct Device {
    pub module: &'static str,
    /// The hardware, in words.
    pub family: &'static str,
    /// The smallest module set that contains the module: `vm` or `server`.
    pub set: &'static str,
    /// `-`, or the package with the firmware. ` by MODULE` follows if MODULE, on which
    /// this module depends, loads the firmware.
    pub firmware: &'static str,
    /// The names of QEMU's devices with which a test boots. Empty if no test does.
    pub tried: Vec<&'static str>,
    pub ids: Vec<&'static str>,
}

/// The lines of a table after its explanation, which ends at the first empty line.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().skip_while(|line| !line.is_empty());
    lines.filter(|line| !line.is_empty())
}

/// All lines of the file.
pub fn entries() -> Result<Vec<Entry>> {
    lines(DEVICES).map(entry).collect()
}

/// The file without its titles.
pub fn devices() -> Result<Vec<Device>> {
    let devices = entries()?.into_iter().filter_map(|entry| match entry {
        Entry::Group(_) => None,
        Entry::Device(device) => Some(device),
    });
    Ok(devices.collect())
}

/// The module that drives this device of QEMU.
pub fn driver_of(emulated: &str) -> Result<&'static str> {
    let mut devices = devices()?.into_iter();
    let found = devices.find(|device| device.tried.contains(&emulated));
    let device = found.with_context(|| {
        format!(
            "initramfs/hardware/devices.txt: expected a driver that was tried as {emulated}, \
             found none"
        )
    })?;
    Ok(device.module)
}

fn entry(line: &'static str) -> Result<Entry> {
    if let Some(title) = line.strip_prefix("# ") {
        return Ok(Entry::Group(title));
    }
    let cells: Vec<&str> = line.split(" | ").collect();
    let [module, family, set, firmware, tried, ids] = cells[..] else {
        anyhow::bail!(
            "devices.txt: {line}: expected six cells, found {}",
            cells.len()
        );
    };
    Ok(Entry::Device(Device {
        module,
        family,
        set,
        firmware,
        tried: tried.split(' ').filter(|name| *name != "no").collect(),
        ids: ids.split(' ').collect(),
    }))
}
