//! `write-image`: writes an image to a disk, as the deploy step does.

use std::path::PathBuf;

use clap::Args;
use landfall_boot_params::digest::Digest;
use landfall_devices::permission::WritePermission;
use landfall_disk::device::target::{Target, refuse_medium_of_image};
use landfall_disk::image::write_image::{ImageSource, WriteOptions, write_image_with};
use landfall_disk::software_raid::system_partitions;
use landfall_download::fetch::Request;
use landfall_handover::efi_entry;
use landfall_report::failure::Result;

use crate::tools::{machine_http, orderly_end};

/// In bytes: the sector size of a disk that is a file, as in virtual machines.
const FILE_SECTOR: u32 = 512;

/// `write-image`
#[derive(Debug, Args)]
pub struct Arguments {
    /// URL of the image: raw or qcow2, plain or in gzip, xz, zstd, lz4, bzip2
    url: String,
    /// Disk, e.g. /dev/sda, or a file as large as the disk; all data is lost
    disk: PathBuf,
    /// Expected digest of the file as downloaded, e.g. sha256:0123...
    #[arg(long, value_name = "ALGORITHM:HEX")]
    image_digest: Option<Digest>,
    /// Read every block of the image back and compare, before the disk boots
    ///
    /// This reads the whole unpacked size of the image once more.
    #[arg(long)]
    verify: bool,
    /// Trust the CA certificates in this PEM file [default: the system's]
    #[arg(long, value_name = "FILE")]
    cafile: Option<PathBuf>,
    /// Accept any certificate
    #[arg(long)]
    insecure: bool,
    /// Allow it on a machine that does not run the landfall ramdisk
    #[arg(long)]
    allow_this_machine: bool,
}

/// Writes the image and makes the disk bootable.
///
/// # Errors
/// If the disk or the image does not match the arguments, or if writing fails. After a
/// failed write the disk does not boot.
pub fn run(arguments: &Arguments) -> Result<()> {
    let permission = WritePermission::by_boot_or_operator(arguments.allow_this_machine)?;
    let mut http = machine_http::of_this_machine(arguments.cafile.clone())?;
    http.insecure |= arguments.insecure;
    let client = landfall_http_client::image_client(&http)?;
    let request = Request::new([&arguments.url]);
    let source = ImageSource::new(request, arguments.image_digest.clone().into());
    refuse_medium_of_image(&arguments.disk, &source.request.urls)?;
    let mut target = if arguments.disk.is_file() {
        Target::open_file(&arguments.disk, FILE_SECTOR, &permission)?
    } else {
        Target::open(&arguments.disk, &permission)?
    };
    system_partitions::copy_with(&mut target, efi_entry::booted_by_uefi(), &permission)?;
    let options = WriteOptions {
        verify: arguments.verify,
        ..WriteOptions::default()
    };
    orderly_end::after_the_commit();
    write_image_with(&source, &options, target, &client)?
        .commit()
        .map(drop)
}
