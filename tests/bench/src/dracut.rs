//! Builds ramdisks with dracut, from Debian's packages (tests/bench/dracut.sh), for
//! comparison with landfall-image.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use landfall_tests::artifacts;

use super::measured::{self, Usage};

/// The compression of the ramdisk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compressor {
    /// landfall-image's default. dracut's own level is 15.
    Zstd19,
    /// dracut's choice for gzip is `pigz -9`.
    Gzip,
}

impl Compressor {
    pub(super) const ALL: [Self; 2] = [Self::Zstd19, Self::Gzip];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Zstd19 => "zstd -19",
            Self::Gzip => "gzip (pigz -9)",
        }
    }

    /// The program that unpacks the ramdisk.
    fn program(self) -> &'static str {
        match self {
            Self::Zstd19 => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// The value of `--compress`.
    fn option(self) -> &'static str {
        match self {
            Self::Zstd19 => "zstd -19 -q -T0",
            Self::Gzip => "gzip",
        }
    }
}

/// A kernel's package, unpacked with the files that its installation makes.
pub(super) struct UnpackedKernel {
    pub(super) root: PathBuf,
    release: String,
}

impl UnpackedKernel {
    /// Unpacks the package into the folder `root`, which it makes.
    pub(super) fn new(package: &Path, root: PathBuf) -> Result<Self> {
        fs::create_dir(&root).with_context(|| format!("making {}", root.display()))?;
        run(Command::new("dpkg-deb").arg("-x").arg(package).arg(&root))?;
        // Debian 13's packages have the modules in /usr/lib only: on an installed system,
        // /lib is a link to it.
        if !root.join("lib").exists() {
            symlink("usr/lib", root.join("lib"))?;
        }
        let modules = root.join("lib/modules");
        let listing = fs::read_dir(&modules)
            .with_context(|| format!("reading the modules of {}", package.display()))?;
        let names: Vec<String> = listing
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        let [release] = names.as_slice() else {
            anyhow::bail!(
                "{}: expected the modules of one kernel, found {names:?}",
                package.display()
            );
        };
        // The postinst script of the package runs depmod, too.
        run(Command::new("depmod").arg("-b").arg(&root).arg(release))?;
        Ok(Self {
            release: release.clone(),
            root,
        })
    }
}

/// dracut with its own folders.
pub(super) struct Dracut {
    /// The folder into which the packages were unpacked.
    packages: PathBuf,
    /// The folder for temporary files and the result.
    work: PathBuf,
    /// An empty folder.
    empty: PathBuf,
}

impl Dracut {
    /// Works in a folder below `work`.
    pub(super) fn new(work: &Path) -> Result<Self> {
        let work = work.join("dracut");
        let empty = work.join("empty");
        fs::create_dir_all(&empty)?;
        Ok(Self {
            packages: artifacts::dracut()?,
            work,
            empty,
        })
    }

    /// For example `059-4`.
    pub(super) fn version(&self) -> Result<String> {
        // `dracut --version` prints the version, too, but exits with 1.
        let file = self.packages.join("version");
        let version = fs::read_to_string(&file);
        let version = version.with_context(|| format!("reading {}", file.display()))?;
        Ok(version.trim().to_owned())
    }

    /// The file that [`Dracut::build`] makes.
    pub(super) fn output(&self) -> PathBuf {
        self.work.join("initrd.img")
    }

    /// Builds a ramdisk for any host.
    pub(super) fn build(&self, kernel: &UnpackedKernel, compressor: Compressor) -> Result<Usage> {
        let modules = kernel.root.join("lib/modules").join(&kernel.release);
        let mut command = self.command();
        command.args(["--no-hostonly", "--force", "--kver", &kernel.release]);
        command.arg("--kmoddir").arg(modules);
        command.args(["--compress", compressor.option()]);
        // Use neither the settings nor the firmware of this machine, because
        // landfall-image is measured without firmware, too.
        command.args(["--conf", "/dev/null", "--no-early-microcode"]);
        command.arg("--confdir").arg(&self.empty);
        command.arg("--fwdir").arg(&self.empty);
        command.arg("--tmpdir").arg(&self.work);
        command.arg(self.output());
        Ok(measured::run_captured(&mut command, &self.work)?.0)
    }

    /// The number of modules in the last ramdisk.
    pub(super) fn modules(&self, compressor: Compressor) -> Result<usize> {
        let script = "$1 -dc < \"$2\" | cpio --quiet -t | grep -c '\\.ko'";
        let mut command = Command::new("bash");
        command.args(["-c", script, "bash", compressor.program()]);
        command.arg(self.output());
        let (_, printed) = measured::run_captured(&mut command, &self.work)?;
        let count = printed.trim().parse::<usize>();
        count.with_context(|| format!("counting modules: expected a number, found '{printed}'"))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.packages.join("usr/bin/dracut"));
        // Without this variable, dracut looks for its modules in /usr/lib/dracut.
        command.env("dracutbasedir", self.packages.join("usr/lib/dracut"));
        command.env("DRACUT_COMPRESS_PIGZ", self.packages.join("usr/bin/pigz"));
        command
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output();
    let output = output.with_context(|| format!("running {command:?}"))?;
    let reported = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {reported}");
    Ok(())
}
