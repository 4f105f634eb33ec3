//! Builds one ramdisk file from the agent, a kernel and a module set.
//!
//! The same input gives the same bytes: paths are sorted, owners and inode numbers are
//! fixed, the compressor's output depends neither on the number of cores nor on the
//! cache, and every file time is [`Recipe::epoch`]. The epoch is 0 unless
//! SOURCE_DATE_EPOCH is set. The builder does not use the time of the newest input,
//! because that time changes when a file is copied or checked out again.

mod checks;

use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

use landfall_module_index::{COMPLETE_MARKER, INDEX_NAME, LEFT_OUT_NAME, LeftOut};

use checks::{check_kernel, firmware_warnings, kernel_warning, read_kernel, require_firmware};

use crate::agent_binary::{self, AgentError};
use crate::arch::Arch;
use crate::compress::Compression;
use crate::digest_writer::{self, DigestWriter};
use crate::file_tree::{Content, FileTree, Place, TreeError};
use crate::firmware::{self, Firmware, FirmwareFiles, MissingFirmware, PackedFirmware};
use crate::free_space::{self, NoSpace};
use crate::kernel_config::KernelConfig;
use crate::kernel_image::KernelImageError;
use crate::kernel_modules::{ModuleTree, ModulesError, Selection};
use crate::kernel_source::Kernel;
use crate::memory_floor::{MemoryFloor, Sizes};
use crate::module_set::{ModuleSet, SetError};
use crate::newc;
use crate::output_file::OutputFile;
use crate::path_error::PathError;
use crate::rescue_layer::RescueLayer;
use crate::segment_cache::SegmentCache;
use crate::segments::{self, SegmentError};

/// Records what the ramdisk was built from, for operators and for `inspect`.
pub const BUILD_FACTS: &str = "etc/landfall/build.json";

/// Marks a ramdisk as that of a live system. `coreos-installer pxe customize` rejects a
/// ramdisk without this file (its src/live/mod.rs).
pub const LIVE_STAMP: &str = "etc/coreos-live-initramfs";

/// Lists in a ramdisk which of coreos-installer's options take effect.
pub const COREOS_FEATURES: &str = "etc/coreos/features.json";

/// The content of [`COREOS_FEATURES`], and of the same file on an ISO. It states that the
/// agent reads network settings, but not the configuration of an installer
/// (coreos-installer's src/live/customize.rs).
pub const COREOS_FEATURES_JSON: &str = "{\"installer-config\": false, \"installer-config-directives\": {}, \"live-initrd-network\": true}\n";

/// The directory in the ramdisk where the agent looks for its configuration.
pub const CONFIGURATION_DIRECTORY: &str = "etc/landfall";

const BUILDER: &str = concat!("landfall-image ", env!("CARGO_PKG_VERSION"));

/// A configuration file of the site that the ramdisk is built for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigurationFile {
    /// The path in the ramdisk, in [`CONFIGURATION_DIRECTORY`].
    pub path: String,
    pub bytes: Vec<u8>,
}

/// Everything a ramdisk is made of.
#[derive(Debug)]
pub struct Recipe<'a> {
    /// The architecture of the hosts.
    pub arch: Arch,
    /// The agent's program, which becomes `/init`.
    pub agent: &'a Path,
    pub kernel: &'a Kernel,
    pub module_set: &'a ModuleSet,
    /// Where the builder looks for firmware.
    pub firmware: &'a FirmwareFiles,
    /// Whether to build although drivers lack firmware that they cannot work without.
    pub allow_missing_firmware: bool,
    /// Settings for the agent in addition to its kernel arguments.
    pub configuration: &'a [ConfigurationFile],
    /// Programs for users who log in to a machine in rescue.
    pub rescue_layer: Option<&'a RescueLayer>,
    pub compression: Compression,
    /// The directory in which the builder stores compressed parts for the next build.
    pub cache: Option<&'a Path>,
    /// The time of every file, in seconds since 1970.
    pub epoch: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub path: PathBuf,
    pub bytes: u64,
    pub sha256: String,
    /// The size of the archive before compression. The unpacked files take about this
    /// much memory.
    pub unpacked_bytes: u64,
    /// The least memory that a host needs to boot the ramdisk with its kernel.
    pub memory_floor: MemoryFloor,
    pub compression: String,
    pub arch: Arch,
    pub kernel_release: String,
    pub module_set: String,
    /// Number of module files.
    pub modules: usize,
    pub module_bytes: u64,
    /// Number of firmware files.
    pub firmware_files: usize,
    pub firmware_bytes: u64,
    /// Firmware that a module declares and the builder did not find.
    pub firmware_missing: Vec<MissingFirmware>,
    /// Paths of the site's configuration files in the ramdisk.
    pub configuration: Vec<String>,
    /// The paths of the rescue layer's files in the ramdisk. Empty without a rescue
    /// layer.
    pub rescue_layer: Vec<String>,
    pub rescue_layer_bytes: u64,
    pub agent_bytes: u64,
    pub warnings: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Set(#[from] SetError),
    #[error(transparent)]
    Modules(#[from] ModulesError),
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error(transparent)]
    Archive(#[from] newc::WriteError),
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error(transparent)]
    Space(#[from] NoSpace),
    #[error(transparent)]
    Image(#[from] KernelImageError),
    #[error(transparent)]
    Index(#[from] landfall_module_index::WriteError),
    /// The kernel is for another architecture than the ramdisk. Give the option `--arch`,
    /// or another kernel.
    #[error(
        "kernel {release} is for {found}, expected {expected} -- give --arch {found}, or another kernel"
    )]
    Arch {
        release: String,
        expected: Arch,
        found: Arch,
    },
    /// The kernel's configuration lacks options that the ramdisk needs.
    #[error("kernel {release} cannot run the ramdisk: {}", faults.join("; "))]
    Kernel {
        release: String,
        /// One text for each missing option.
        faults: Vec<String>,
    },
    /// The module set contains drivers that do not work at all without firmware, and the
    /// builder did not find this firmware. Install the packages and give `--firmware
    /// debian`, or give `--firmware` a directory with the files or the packages. If no
    /// host has such a card, give `--allow-missing-firmware`, or leave the drivers out of
    /// the module set.
    #[error(
        "firmware is missing that these drivers cannot work without: {} -- install these packages and give --firmware debian, or give --firmware DIR, or --allow-missing-firmware if no host has these cards",
        drivers.join(", ")
    )]
    Firmware {
        /// The drivers, each with the package of its firmware if one is known.
        drivers: Vec<String>,
    },
}

/// Whether the builder can store compressed parts in this directory: the directory
/// belongs to the user, and no other user can write into it. Makes the directory if it is
/// missing.
#[must_use]
pub fn can_cache_in(directory: &Path) -> bool {
    SegmentCache::open(directory).is_some_and(|cache| cache.is_writable())
}

/// Builds the ramdisk in `output`; the caller must finish `output`. Calls `stage` with a
/// line of progress before each long step.
pub fn build(
    recipe: &Recipe<'_>,
    output: &mut OutputFile,
    stage: &dyn Fn(&str),
) -> Result<Summary, BuildError> {
    let agent = agent_binary::read(recipe.agent, recipe.arch)?;
    let kernel = read_kernel(recipe)?;
    stage(&format!(
        "reading modules of kernel {}",
        recipe.kernel.release
    ));
    let modules = ModuleTree::open(&recipe.kernel.modules)?;
    let selection = modules.closure(recipe.module_set.select(&modules)?)?;
    modules.check_vermagic(&selection, &recipe.kernel.release)?;
    let (config, mut warnings) = check_kernel(recipe, &modules, &selection)?;
    warnings.extend(kernel_warning(recipe, &modules));
    let firmware = collect_firmware(recipe, &selection, config.as_ref())?;
    let firmware_missing = firmware.missing_by_driver();
    if !recipe.allow_missing_firmware {
        require_firmware(&firmware_missing)?;
    }
    let left_out = LeftOut {
        modules: modules.left_out(&selection)?,
        firmware: firmware.left_out(),
    };
    warnings.extend(firmware_warnings(&firmware_missing));

    let mut summary = Summary {
        path: output.path().to_owned(),
        bytes: 0,
        sha256: String::new(),
        unpacked_bytes: 0,
        memory_floor: MemoryFloor::default(),
        compression: recipe.compression.to_string(),
        arch: recipe.arch,
        kernel_release: recipe.kernel.release.clone(),
        module_set: recipe.module_set.name().to_owned(),
        modules: selection.len(),
        module_bytes: 0,
        firmware_files: firmware.found.len(),
        firmware_bytes: 0,
        firmware_missing,
        configuration: (recipe.configuration.iter())
            .map(|file| file.path.clone())
            .collect(),
        rescue_layer: recipe
            .rescue_layer
            .map(|layer| layer.files.keys().cloned().collect())
            .unwrap_or_default(),
        rescue_layer_bytes: 0,
        agent_bytes: agent.len() as u64,
        warnings,
    };
    let agent_sha256 = digest_writer::sha256(&agent);
    let tree = assemble(
        recipe,
        agent,
        &agent_sha256,
        &modules,
        &selection,
        (&firmware, &left_out),
        &mut summary,
    )?;
    require_space(recipe.compression, output.temporary_path(), &summary)?;
    stage(&format!(
        "packing {} files ({})",
        tree.len(),
        summary.compression
    ));
    write(&tree, recipe, output, &mut summary)?;
    summary.memory_floor = MemoryFloor::of(Sizes {
        kernel: kernel.memory_bytes,
        archive: summary.bytes,
        unpacked: summary.unpacked_bytes,
        files: tree.len() as u64,
    });
    Ok(summary)
}

/// Checks the free space before the compression, which takes minutes. The compressed size
/// is not known yet, but it is more than a tenth of the unpacked size.
fn require_space(packing: Compression, file: &Path, summary: &Summary) -> Result<(), NoSpace> {
    let unpacked = summary.module_bytes
        + summary.firmware_bytes
        + summary.rescue_layer_bytes
        + summary.agent_bytes;
    let needed = match packing {
        Compression::None => unpacked,
        Compression::Zstd { .. } => unpacked / 10,
    };
    let directory = file.parent().unwrap_or(file);
    free_space::require(directory, needed, "the ramdisk")
}

fn collect_firmware(
    recipe: &Recipe<'_>,
    selection: &Selection,
    config: Option<&KernelConfig>,
) -> Result<Firmware, BuildError> {
    // If the kernel's configuration is unknown, use only uncompressed firmware files,
    // because every kernel can load them.
    let has = |option| config.is_some_and(|config| config.is_built_in(option));
    let packed = PackedFirmware {
        xz: has("FW_LOADER_COMPRESS_XZ"),
        zst: has("FW_LOADER_COMPRESS_ZSTD"),
    };
    Ok(firmware::collect(selection, recipe.firmware, packed)?)
}

fn assemble(
    recipe: &Recipe<'_>,
    agent: Vec<u8>,
    agent_sha256: &str,
    modules: &ModuleTree,
    selection: &Selection,
    (firmware, left_out): (&Firmware, &LeftOut),
    summary: &mut Summary,
) -> Result<FileTree, BuildError> {
    let release = &recipe.kernel.release;
    let mut tree = mount_points_and_devices()?;
    tree.file("init", Content::Bytes(agent), 0o755, Place::First)?;

    let module_directory = format!("lib/modules/{release}");
    for path in selection.keys().filter_map(|name| modules.path_of(name)) {
        // Copy the module byte for byte: stripping it would remove its signature.
        let (content, size) = on_disk(&modules.directory().join(path))?;
        summary.module_bytes += size;
        tree.file(
            &format!("{module_directory}/{path}"),
            content,
            0o644,
            Place::Sorted,
        )?;
    }
    for (name, text) in [
        (INDEX_NAME, modules.index(selection, release).to_text()?),
        (LEFT_OUT_NAME, left_out.to_text()?),
    ] {
        let path = format!("{module_directory}/{name}");
        let content = Content::Bytes(text.into_bytes());
        tree.file(&path, content, 0o644, Place::Sorted)?;
    }
    for (path, source) in &firmware.found {
        let (content, size) = on_disk(source)?;
        summary.firmware_bytes += size;
        tree.file(
            &format!("lib/firmware/{path}"),
            content,
            0o644,
            Place::Sorted,
        )?;
    }
    for file in recipe.configuration {
        let content = Content::Bytes(file.bytes.clone());
        // The file may hold a password or a token.
        tree.file(&file.path, content, 0o600, Place::Sorted)?;
    }
    for (path, source) in recipe
        .rescue_layer
        .into_iter()
        .flat_map(|layer| &layer.files)
    {
        let (content, size) = on_disk(source)?;
        summary.rescue_layer_bytes += size;
        tree.file(path, content, 0o755, Place::Sorted)?;
    }
    let facts = build_facts(summary, agent_sha256);
    let stamp = format!("{BUILDER}\n");
    for (path, text) in [
        (BUILD_FACTS, facts),
        (LIVE_STAMP, stamp),
        (COREOS_FEATURES, COREOS_FEATURES_JSON.to_owned()),
    ] {
        let content = Content::Bytes(text.into_bytes());
        tree.file(path, content, 0o644, Place::Sorted)?;
    }
    let marker = format!("{} entries before this one\n", tree.len());
    tree.file(
        COMPLETE_MARKER,
        Content::Bytes(marker.into_bytes()),
        0o644,
        Place::Last,
    )?;
    Ok(tree)
}

/// The directories and device nodes that init needs before it mounts a file system.
fn mount_points_and_devices() -> Result<FileTree, BuildError> {
    let mut tree = FileTree::default();
    for directory in ["proc", "sys", "dev", "run", "tmp", "etc", "mnt"] {
        tree.directory(directory)?;
    }
    // The kernel opens /dev/console for init before init can mount devtmpfs. So the
    // ramdisk itself needs this node.
    tree.char_device("dev/console", 5, 1, 0o600)?;
    tree.char_device("dev/null", 1, 3, 0o666)?;
    tree.char_device("dev/kmsg", 1, 11, 0o600)?;
    Ok(tree)
}

/// Describes the build. The text contains nothing that could differ between builds of the
/// same input: no time, no host name, no path of the build machine.
fn build_facts(summary: &Summary, agent_sha256: &str) -> String {
    #[derive(Serialize)]
    struct Facts<'a> {
        format: u32,
        builder: &'a str,
        kernel_release: &'a str,
        module_set: &'a str,
        modules: usize,
        firmware_files: usize,
        agent_bytes: u64,
        agent_sha256: &'a str,
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        rescue_layer: &'a [String],
    }
    let facts = Facts {
        format: 1,
        builder: BUILDER,
        kernel_release: &summary.kernel_release,
        // The name of a user's set is its path on the build machine. Keep only the file
        // name.
        module_set: summary.module_set.rsplit('/').next().unwrap_or_default(),
        modules: summary.modules,
        firmware_files: summary.firmware_files,
        agent_bytes: summary.agent_bytes,
        agent_sha256,
        rescue_layer: &summary.rescue_layer,
    };
    // Strings and numbers cannot fail to serialise.
    serde_json::to_string_pretty(&facts).unwrap_or_default() + "\n"
}

fn on_disk(path: &Path) -> Result<(Content, u64), PathError> {
    let size = fs::metadata(path)
        .map_err(PathError::new("cannot look at", path))?
        .len();
    Ok((
        Content::OnDisk {
            path: path.to_owned(),
            size,
        },
        size,
    ))
}

fn write(
    tree: &FileTree,
    recipe: &Recipe<'_>,
    output: &mut OutputFile,
    summary: &mut Summary,
) -> Result<(), BuildError> {
    let path = output.path().to_owned();
    let writing = || PathError::new("cannot write", &path);
    let mut digested = DigestWriter::new(BufWriter::new(output.file()));
    match recipe.compression {
        Compression::None => {
            let mut archive = newc::Writer::new(&mut digested);
            archive.tree(tree, recipe.epoch)?;
            (_, summary.unpacked_bytes) = archive.finish()?;
        }
        Compression::Zstd { level } => {
            for segment in segments::pack_tree(tree, recipe.epoch, level, recipe.cache)? {
                digested.write_all(&segment.bytes).map_err(writing())?;
                summary.unpacked_bytes += segment.unpacked;
            }
        }
    }
    digested.flush().map_err(writing())?;
    (summary.bytes, summary.sha256) = digested.finish();
    Ok(())
}

#[cfg(test)]
mod tests;
