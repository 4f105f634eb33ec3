//! Measures how long landfall-image takes to build a ramdisk, next to dracut with the same
//! kernel, and how large ramdisks and ISOs are.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use landfall_tests::artifacts;

use super::builder::{Iso, Ramdisk, Target};
use super::dracut::{Compressor, Dracut, UnpackedKernel};
use super::measured::Usage;
use super::{Table, ramdisk_tables};

/// The runs for one target.
pub(super) struct Builds {
    pub(super) target: Target,
    /// The folder for the results.
    folder: PathBuf,
    pub(super) ramdisk: Ramdisk,
    /// Without a cache.
    pub(super) cold: Vec<Usage>,
    /// With a cache that has all compressed archives.
    pub(super) warm: Vec<Usage>,
}

impl Builds {
    /// Builds the ramdisk once to fill the cache.
    fn new(target: Target, cache: &Path, folder: PathBuf) -> Result<Self> {
        fs::create_dir(&folder)?;
        let (_, ramdisk) = target.ramdisk(Some(cache), &folder.join("first.img"))?;
        Ok(Self {
            target,
            folder,
            ramdisk,
            cold: Vec::new(),
            warm: Vec::new(),
        })
    }

    fn name(&self) -> String {
        format!("{}, {}", self.target.set, self.ramdisk.kernel_release)
    }

    /// The ramdisk of the last cold build.
    fn cold_file(&self) -> PathBuf {
        self.folder.join("cold.img")
    }

    /// Builds once without and once with the cache, and compares the results.
    fn run(&mut self, cache: &Path) -> Result<()> {
        let warm = self.folder.join("warm.img");
        self.cold
            .push(self.target.ramdisk(None, &self.cold_file())?.0);
        self.warm.push(self.target.ramdisk(Some(cache), &warm)?.0);
        ensure_same(&self.cold_file(), &warm)
    }

    /// The ISO without and with firmware.
    fn isos(&self, cache: &Path) -> Result<[Iso; 2]> {
        let output = self.folder.join("landfall.iso");
        Ok([
            self.target.iso(cache, false, &output)?,
            self.target.iso(cache, true, &output)?,
        ])
    }
}

fn ensure_same(one: &Path, other: &Path) -> Result<()> {
    let (first, second) = (fs::read(one)?, fs::read(other)?);
    ensure!(
        first == second,
        "two builds of the same ramdisk: expected the same bytes, found {} and {} bytes that differ in {} and {}",
        first.len(),
        second.len(),
        one.display(),
        other.display()
    );
    Ok(())
}

/// The runs of dracut with one compressor.
pub(super) struct Peer {
    pub(super) compressor: Compressor,
    /// The size of the ramdisk.
    pub(super) bytes: u64,
    /// The number of modules in the ramdisk.
    pub(super) modules: usize,
    pub(super) runs: Vec<Usage>,
}

/// Builds everything `runs` times, in turns.
///
/// # Errors
/// If a program is missing, a build fails, or the cache changes a ramdisk.
pub fn tables(runs: usize) -> Result<Vec<Table>> {
    let work = tempfile::tempdir().context("a work folder")?;
    let cache = work.path().join("cache");
    // landfall-image only uses a cache that nobody else can write into.
    DirBuilder::new().mode(0o700).create(&cache)?;
    let dracut = Dracut::new(work.path())?;
    let package = artifacts::generic_kernel_deb()?;
    let kernel = UnpackedKernel::new(&package, work.path().join("kernel"))?;

    let mut builds = Vec::new();
    for (number, target) in Target::all()?.into_iter().enumerate() {
        let folder = work.path().join(format!("target-{number}"));
        builds.push(Builds::new(target, &cache, folder)?);
    }
    let unpacked = Target::server()?.unpacked_in(&kernel.root);
    let mut unpacked = Builds::new(unpacked, &cache, work.path().join("unpacked"))?;
    let mut peers = Compressor::ALL.map(|compressor| Peer {
        compressor,
        bytes: 0,
        modules: 0,
        runs: Vec::new(),
    });
    for round in 1..=runs {
        for one in builds.iter_mut().chain([&mut unpacked]) {
            one.run(&cache)?;
            let last = |runs: &[Usage]| runs.last().map_or(0.0, |run| run.wall.as_secs_f64());
            eprintln!(
                "bench: {round} of {runs}: {}: {:.2} s, with the cache {:.2} s",
                one.name(),
                last(&one.cold),
                last(&one.warm)
            );
        }
        for peer in &mut peers {
            let usage = dracut.build(&kernel, peer.compressor)?;
            eprintln!(
                "bench: {round} of {runs}: dracut with {}: {:.2} s",
                peer.compressor.name(),
                usage.wall.as_secs_f64()
            );
            peer.runs.push(usage);
            peer.bytes = dracut.output().metadata()?.len();
            peer.modules = dracut.modules(peer.compressor)?;
        }
    }
    let server = Target::server()?;
    let packaged = builds.iter().find(|one| one.target == server);
    let packaged = packaged.context("expected a build of the set server, found none")?;
    ensure_same(&packaged.cold_file(), &unpacked.cold_file())?;
    let isos = builds.iter().map(|one| one.isos(&cache));
    let isos: Vec<[Iso; 2]> = isos.collect::<Result<_>>()?;
    Ok(vec![
        ramdisk_tables::sizes(&builds, &isos, runs)?,
        ramdisk_tables::comparison(packaged, &unpacked, &peers, &dracut.version()?)?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_ramdisks_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        fs::write(&one, "same").unwrap();
        fs::write(&other, "same").unwrap();
        assert!(ensure_same(&one, &other).is_ok());
        fs::write(&other, "another").unwrap();
        let error = ensure_same(&one, &other).unwrap_err().to_string();
        assert!(error.contains("found 4 and 7 bytes"), "{error}");
    }
}
