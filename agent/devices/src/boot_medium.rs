//! Recognises the medium that this host booted from, or that holds its settings: a USB
//! stick, an SD card, or virtual media of a BMC. The kernel treats this medium as an
//! ordinary disk, and often it is the smallest disk. No command may write to it.
//!
//! The kernel command line of Landfall's own ISO identifies this ISO
//! (`landfall.medium=`), as the command line of CoreOS's live systems does
//! (`coreos.liveiso=`). Media that Ironic builds can be recognised only by their
//! labels. These labels count only on removable media, because a SATA disk to which
//! somebody once wrote such an ISO is still a usable disk.

use std::fmt;
use std::fs::File;

use landfall_boot_params::CommandLine;
use landfall_media_formats::Medium;
use landfall_sys::sysfs;
use landfall_sys::system_path::SystemPath;

use crate::block_graph;
use crate::devices_below::devices_below;

/// Labels of file systems on boot media: Landfall's own ISO, and the media that
/// Ironic builds.
const BOOT_LABELS: [&str; 3] = ["landfall", "config-2", "vmedia_boot_iso"];
/// Names of partitions on boot media. `config-2` is not among them, because a
/// deployed disk may have a config drive in a partition. Every USB stick made
/// by Ventoy has `vtoyefi`; Ventoy boots the ISO files on the stick.
const PARTITION_LABELS: [&str; 3] = ["landfall", "vmedia_boot_iso", "vtoyefi"];
/// The label of the floppy with Ironic's parameters, which may be on any bus.
const PARAMETERS_LABEL: &str = "ir-vfd-dev";
/// In bytes: the same limit as for the media that the agent reads (`media/volumes.rs`).
/// On a larger disk the label has no effect: otherwise a label would be enough to
/// prevent the cleaning of any disk.
const PARAMETERS_LIMIT: u64 = 4 << 30;
/// SCSI's peripheral device type of CD and DVD drives (SPC-4, table 138).
const CD_TYPE: &str = "5";

/// The hint of the error if the agent refuses to write to a boot medium.
pub const HINT: &str = "choose another disk; to reuse an old boot medium as a disk, wipe it on \
    another machine (wipefs --all), or boot this host over the network or from a newer medium";

/// Why a disk counts as a boot medium. The text continues a sentence that begins "it is".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BootMedium {
    /// An argument of the kernel command line names the volume.
    Named {
        /// `landfall.medium` or `coreos.liveiso`.
        argument: &'static str,
        label: String,
    },
    /// The disk is removable, and it or one of its partitions has the label of a boot
    /// medium. Holds the label.
    Labelled(String),
    /// The disk has the label of Ironic's parameters.
    Parameters,
    /// The disk is removable, and not all of its partitions can be listed.
    Unlisted,
}

impl fmt::Display for BootMedium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named { argument, label } => write!(
                f,
                "the medium that this host booted from (label {label}, named by {argument}=)"
            ),
            Self::Labelled(label) => write!(f, "a boot medium (removable, label {label})"),
            Self::Parameters => write!(
                f,
                "the medium with Ironic's parameters ({PARAMETERS_LABEL})"
            ),
            Self::Unlisted => f.write_str(
                "a removable disk whose partitions cannot be listed, so it may be a boot medium",
            ),
        }
    }
}

/// The boot media of a machine.
#[derive(Debug)]
pub struct BootMedia {
    line: BootLine,
    /// True if the medium that the command line names is in a CD drive or a removable
    /// drive. In that case no built-in disk is the medium, so the agent need not
    /// search the built-in disks.
    is_in_drive: bool,
}

/// The boot medium as the kernel command line names it. A string is empty if its
/// argument is missing.
#[derive(Debug, Default, PartialEq, Eq)]
struct BootLine {
    /// The volume's modification date, by which GRUB searches for the volume.
    own: String,
    /// The label of a live ISO of CoreOS.
    live: String,
}

impl BootLine {
    fn parse(bytes: &[u8]) -> Self {
        let line = CommandLine::parse_bytes(bytes);
        let value = |key: &str| {
            let token = line.last(key);
            token.map_or("", |token| token.value_or_empty()).to_owned()
        };
        Self {
            own: value("landfall.medium"),
            live: value("coreos.liveiso"),
        }
    }

    fn names_medium(&self) -> bool {
        !self.own.is_empty() || !self.live.is_empty()
    }

    /// The name of the argument that names this medium.
    fn named<R>(&self, medium: &Medium<R>) -> Option<&'static str> {
        let Medium::Iso(iso) = medium else {
            return None;
        };
        if !self.own.is_empty() && self.own == iso.uuid {
            return Some("landfall.medium");
        }
        (!self.live.is_empty() && self.live == iso.label).then_some("coreos.liveiso")
    }
}

impl BootMedia {
    /// Reads the command line of the machine that `path` belongs to. If it names a
    /// medium, also reads the media in CD drives and removable drives.
    pub fn look(path: &SystemPath) -> Self {
        let cmdline = sysfs::bytes(&path.join("/proc/cmdline")).unwrap_or_default();
        let line = BootLine::parse(&cmdline);
        let blocks = path.join("/sys/block");
        let is_in_drive = line.names_medium()
            && sysfs::names(&blocks).iter().any(|name| {
                let block = blocks.join(name);
                (is_cd_drive(&block) || is_removable(&block))
                    && medium(&block).is_some_and(|medium| line.named(&medium).is_some())
            });
        Self { line, is_in_drive }
    }

    /// The reason why the agent must not write to this whole disk; `None` if it may
    /// write. `block` is the disk's directory in sysfs. A disk whose content cannot be
    /// read does not count as a boot medium, because this host has just read its boot
    /// medium.
    pub fn why(&self, block: &SystemPath) -> Option<BootMedium> {
        let removable = is_removable(block);
        let sectors: u64 = sysfs::number(&block.join("size")).unwrap_or(0);
        let is_small = sectors.saturating_mul(512) < PARAMETERS_LIMIT;
        let may_be_named = self.line.names_medium() && !self.is_in_drive;
        if !(removable || is_small || may_be_named) {
            return None;
        }
        if let Some(medium) = medium(block) {
            let label = medium.label().to_owned();
            if let Some(argument) = self.line.named(&medium) {
                // If the boot medium is in a drive, a built-in disk with the same
                // volume is only a copy, and the agent may write to it.
                if removable || !self.is_in_drive {
                    return Some(BootMedium::Named { argument, label });
                }
            }
            if removable && is_among(&BOOT_LABELS, &label) {
                return Some(BootMedium::Labelled(label));
            }
            if is_small && label.eq_ignore_ascii_case(PARAMETERS_LABEL) {
                return Some(BootMedium::Parameters);
            }
        }
        if !removable {
            return None;
        }
        let partitions = block_graph::partitions(block);
        let labelled = { partitions.readable.iter() }
            .filter_map(|(_, part)| Some(medium(part)?.label().to_owned()))
            .find(|label| is_among(&PARTITION_LABELS, label))
            .map(BootMedium::Labelled);
        labelled.or(partitions.unread.map(|_| BootMedium::Unlisted))
    }

    /// The boot medium that a write to this device would change, with the name of its
    /// disk. The disk is the device itself, the disk of a partition, or a disk that the
    /// device is made of (a multipath set, an array, a logical volume).
    pub fn below(&self, device: &SystemPath) -> Option<(String, BootMedium)> {
        let mut below = devices_below(device).into_iter();
        below.find_map(|disk| Some((disk.name()?.to_owned(), self.why(&disk)?)))
    }
}

fn is_among(labels: &[&str], label: &str) -> bool {
    labels.iter().any(|known| known.eq_ignore_ascii_case(label))
}

fn is_cd_drive(block: &SystemPath) -> bool {
    sysfs::text(&block.join("device/type")).as_deref() == Some(CD_TYPE)
}

/// Whether the disk is on USB, is an SD card (soldered eMMC reports `MMC`), or is in a
/// drive that reports removable media. A CD does not count, because the agent cannot
/// write to it.
fn is_removable(block: &SystemPath) -> bool {
    if is_cd_drive(block) {
        return false;
    }
    let Some(place) = block.resolved() else {
        return false;
    };
    sysfs::is_on_usb(place.as_path())
        || sysfs::text(&place.join("device/type")).as_deref() == Some("SD")
        || sysfs::flag(&place.join("removable"))
}

/// The file system on a disk or partition. `None` if it cannot be read, or if it is
/// neither ISO 9660 nor FAT, the file systems of boot media.
fn medium(directory: &SystemPath) -> Option<Medium<File>> {
    let node = directory.join("/dev").join(directory.name()?).on_disk()?;
    let file = File::open(node).ok()?;
    Medium::open(file).ok()?
}

#[cfg(test)]
mod tests;
