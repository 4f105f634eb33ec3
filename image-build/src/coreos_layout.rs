//! The files that describe a CoreOS live ISO to coreos-installer and OpenShift's image
//! services. With these files, the programs can change Landfall's media too.
//!
//! coreos-installer reads the names of plain ISO 9660 and looks for `KARGS.JSO`, as
//! xorriso shortens `kargs.json` by default. The builder makes ISOs of level 3, because a
//! file may have 4 GiB or more. Level 3 also permits longer names, so every description
//! has a second name. The other programs read Rock Ridge's names, `kargs.json`.

use landfall_initramfs::build::COREOS_FEATURES_JSON;
use landfall_initramfs::newc;
use landfall_media_formats::areas::KargsArea;
use serde::Serialize;

use crate::areas::IGNITION_PATH;

/// `coreos-installer iso extract pxe` copies everything in images/pxeboot.
pub(crate) const KERNEL: &str = "images/pxeboot/vmlinuz";
pub(crate) const RAMDISK: &str = "images/pxeboot/initrd.img";
/// The path of CoreOS' root file system; Landfall's is in the ramdisk. If the file is
/// missing, machine-os-images extracts all files again at each start (its copy-pxe).
pub(crate) const ROOTFS: &str = "images/pxeboot/rootfs.img";

/// The size in bytes of a ramdisk that adds nothing. It is a sector, because some
/// firmware and servers treat an empty file as an error.
const EMPTY_RAMDISK: usize = 512;

/// A file of JSON, and the name that coreos-installer looks for.
pub(crate) struct Description {
    pub(crate) path: &'static str,
    pub(crate) short_path: &'static str,
    pub(crate) json: String,
}

/// kargs.json (coreos-installer's src/live/embed.rs).
#[derive(Serialize)]
struct Kargs<'a> {
    default: &'a str,
    files: [KargsFile<'a>; 1],
    /// The size of the area in bytes. The arguments must be shorter.
    size: usize,
}

#[derive(Serialize)]
struct KargsFile<'a> {
    path: &'a str,
    /// In bytes from the start of the file.
    offset: usize,
    pad: char,
    end: &'a str,
}

/// igninfo.json: the whole file is the area.
#[derive(Serialize)]
struct IgnitionArea {
    file: &'static str,
}

/// The descriptions of a medium with this area for kernel arguments.
pub(crate) fn descriptions(area: &KargsArea) -> serde_json::Result<[Description; 3]> {
    let offset = area.before.len();
    let kargs = Kargs {
        default: &area.default,
        files: [KargsFile {
            path: &area.path,
            offset,
            pad: area.pad,
            end: &area.after,
        }],
        size: area.size - offset - area.last.len(),
    };
    let ignition = IgnitionArea {
        file: IGNITION_PATH,
    };
    Ok([
        Description {
            path: "coreos/kargs.json",
            short_path: "coreos/kargs.jso",
            json: serde_json::to_string_pretty(&kargs)? + "\n",
        },
        Description {
            path: "coreos/igninfo.json",
            short_path: "coreos/igninfo.jso",
            json: serde_json::to_string_pretty(&ignition)? + "\n",
        },
        Description {
            path: "coreos/features.json",
            short_path: "coreos/features.jso",
            json: COREOS_FEATURES_JSON.to_owned(),
        },
    ])
}

/// A ramdisk that adds nothing to the one before it.
pub(crate) fn empty_ramdisk() -> Vec<u8> {
    let mut archive = newc::empty_archive();
    archive.resize(EMPTY_RAMDISK, 0);
    archive
}
