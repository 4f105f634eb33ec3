//! Makes a GRUB of Debian's modules, for the loaders that are not signed.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::boot_parts::{GRUB_MKIMAGE, Loaders};
use crate::external_program::run;

/// What a GRUB is made of.
#[derive(Debug)]
pub(crate) struct GrubCore<'a> {
    /// `i386-pc`, `x86_64-efi` or `arm64-efi`.
    pub(crate) format: &'a str,
    pub(crate) loaders: &'a Loaders,
    /// Where GRUB looks for its files. Without a device, GRUB takes the one that it was
    /// loaded from.
    pub(crate) prefix: &'a str,
    /// The first script. GRUB's small parser reads it, which knows neither conditions
    /// nor loops.
    pub(crate) script: &'a str,
    /// An archive that GRUB shows as the device `memdisk`.
    pub(crate) memory_disk: Option<&'a [u8]>,
    pub(crate) modules: &'a [&'a str],
}

impl GrubCore<'_> {
    /// Makes the image. The directory `work` is for temporary files.
    pub(crate) fn make(&self, work: &Path) -> Result<Vec<u8>> {
        let format = self.format;
        let script = work.join(format!("{format}.cfg"));
        let core = work.join(format!("{format}.core"));
        fs::write(&script, self.script).context("cannot write GRUB's first script")?;
        let mut command = Command::new(GRUB_MKIMAGE.what);
        command
            .args(["-O", format, "-p", self.prefix])
            .arg("-d")
            .arg(self.loaders.grub_modules(format))
            .arg("-c")
            .arg(&script);
        if let Some(archive) = self.memory_disk {
            let disk = work.join(format!("{format}.memdisk"));
            fs::write(&disk, archive).context("cannot write GRUB's memory disk")?;
            command.arg("-m").arg(disk);
        }
        run(command.arg("-o").arg(&core).args(self.modules))?;
        fs::read(&core).context("cannot read GRUB's core image")
    }
}
