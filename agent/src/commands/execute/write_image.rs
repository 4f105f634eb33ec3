//! The step `write_image`: writes an image unchanged and adds a config drive.

use std::path::PathBuf;
use std::sync::Arc;

use landfall_boot_params::Checksum;
use landfall_devices::identity::ChosenDisk;
use landfall_devices::permission::WritePermission;
use landfall_disk::config_drive::ConfigDrive;
use landfall_disk::device::target::{Target, refuse_medium_of_image};
use landfall_disk::image::format_policy::FormatPolicy;
use landfall_disk::image::write_image::{ImageSource, WriteOptions, write_image_with};
use landfall_disk::software_raid::system_partitions;
use landfall_disk::tables::mbr;
use landfall_download::fetch::Request;
use landfall_handover::efi_entry;
use landfall_report::failure::Result;
use serde_json::{Value, json};

use super::{checksum, config_drive, image_server, root_disk};
use crate::commands::image_info::ImageInfo;
use crate::commands::machine::{Machine, blocking};
use crate::commands::node::Node;

/// Returns the result in the form that Ironic stores.
pub(super) async fn execute(
    machine: &Arc<Machine>,
    node: &Node,
    arguments: &Value,
    permission: Result<WritePermission>,
) -> Result<Value> {
    // Read the arguments first, so that errors in them are reported even on a
    // machine without write permission.
    let info = ImageInfo::read(&arguments["image_info"])?;
    info.refuse_md5(*machine.settings.params.md5_enabled)?;
    let permission = permission?;
    // Ironic sends the config drive in the argument `configdrive` and in `image_info`.
    // Older conductors send it only in `image_info`.
    let drive = match &arguments["configdrive"] {
        Value::Null => &arguments["image_info"]["configdrive"],
        drive => drive,
    };
    let result = write(machine, node, info, drive, permission).await?;
    // Ironic's agent executes its command `prepare_image` for this step, so the result
    // names that command.
    Ok(json!({"result": format!("prepare_image: {result}")}))
}

/// Writes the image and the config drive. Returns the text that Ironic receives.
pub(super) async fn write(
    machine: &Arc<Machine>,
    node: &Node,
    info: ImageInfo,
    drive: &Value,
    permission: WritePermission,
) -> Result<String> {
    info.must_be_whole_disk()?;
    let drive = config_drive::read(drive, node)?;
    let disk = root_disk::find(machine, node).await?;

    let params = &machine.settings.params;
    let client = image_server::client(machine, &info)?;
    let request = Request {
        authorization: image_server::authorization(params, &info)?,
        retry_policy: image_server::retry_policy(params),
        ..Request::new(&info.urls)
    };
    let options = WriteOptions {
        verify: *params.verify,
        // Ironic requests a boot entry afterwards, unless the node boots by BIOS.
        needs_efi: efi_entry::booted_by_uefi()
            && !node.boots_by_bios()
            && !*params.ignore_bootloader_failure,
        ..WriteOptions::default()
    };
    let image = Image {
        request,
        formats: image_server::formats(params, &info),
        checksum: checksum::parse(&info.checksum)?,
        md5_enabled: *params.md5_enabled,
        verified: !machine.http.insecure,
        options,
        drive,
        rebuild: *params.config_drive_rebuild,
    };
    let id = info.id;
    let written = blocking(move || image.write_to(&disk, &client, &permission)).await?;
    machine.set_written_disk(&written);
    let root_uuid = mbr::signature(&written).unwrap_or_default();
    Ok(format!(
        "image ({id}) written to device {} root_uuid={root_uuid}",
        written.display()
    ))
}

/// The image to write, and how to verify it.
struct Image {
    request: Request,
    formats: FormatPolicy,
    checksum: Option<Checksum>,
    md5_enabled: bool,
    /// Whether servers must have a valid certificate.
    verified: bool,
    options: WriteOptions,
    drive: Option<ConfigDrive>,
    /// Whether an ISO 9660 config drive becomes a VFAT file system
    /// (`config_drive_rebuild`).
    rebuild: bool,
}

impl Image {
    /// Checks everything that can be checked in advance, including the config drive,
    /// and then writes. The checks may retry requests to a server, so they can take as
    /// long as these retries. Returns the path by which the disk was accessed at the
    /// end.
    fn write_to(
        self,
        disk: &ChosenDisk,
        client: &reqwest::Client,
        permission: &WritePermission,
    ) -> Result<PathBuf> {
        let checksum = self.checksum.as_ref();
        let (request, md5_enabled) = (self.request, self.md5_enabled);
        let proof = checksum::proof(checksum, &request, client, md5_enabled, self.verified)?;
        let source = ImageSource {
            formats: self.formats,
            ..ImageSource::new(request, proof)
        };
        refuse_medium_of_image(&disk.path, &source.request.urls)?;
        let mut target = Target::open_chosen(disk, permission)?;
        system_partitions::copy_with(&mut target, efi_entry::booted_by_uefi(), permission)?;
        let sector = target.sector_size();
        let drive = self.drive.map(|it| it.load(client, sector, self.rebuild));
        let drive = drive.transpose()?;
        let mut proven = write_image_with(&source, &self.options, target, client)?;
        if let Some(drive) = drive {
            proven.write_config_drive(&drive)?;
        }
        proven.commit().map(|written| written.disk)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use landfall_boot_params::digest::Algorithm;
    use landfall_disk::fixtures::{exchange, gpt_image, loop_device};
    use landfall_download::digest::Hasher;
    use landfall_http_client::fixtures::{Reply, Server, http_client};
    use landfall_report::failure::Class;
    use tempfile::NamedTempFile;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn disk() -> NamedTempFile {
        let file = NamedTempFile::new().unwrap();
        fs::write(file.path(), vec![0xa5; 8 * MIB as usize]).unwrap();
        file
    }

    /// The server of the checksum answers only after another disk has got the name of the
    /// root disk.
    #[test]
    fn a_disk_that_got_the_name_of_the_root_disk_is_not_written() {
        let (chosen, other) = (disk(), disk());
        let Some(device) = loop_device(chosen.path(), 512) else {
            return;
        };
        let write = |to: &ChosenDisk, sums: &Server, image: &Server| {
            let image = Image {
                request: Request::new([&image.url]),
                formats: FormatPolicy::default(),
                checksum: Some(Checksum::parse(&sums.url).unwrap()),
                md5_enabled: false,
                verified: true,
                options: WriteOptions::default(),
                drive: None,
                rebuild: false,
            };
            image.write_to(to, &http_client(), &WritePermission::by_operator())
        };
        let image = gpt_image(4 * MIB, 512);
        let sum = Hasher::digest(Algorithm::Sha256, &image).hex();
        let server = Server::of(&image);

        let root_disk = ChosenDisk::by_path(device.path()).unwrap();
        let (path, file) = (device.path().to_owned(), other.path().to_owned());
        let (sent, exchanged) = std::sync::mpsc::channel();
        let line = sum.clone();
        let sums = Server::start(move |_| {
            sent.send(exchange(&path, &file)).unwrap();
            Reply::whole(line.as_bytes(), "\"1\"")
        });
        let failure = write(&root_disk, &sums, &server).unwrap_err();
        if !exchanged.recv().unwrap() {
            return;
        }
        assert_eq!(failure.class, Class::DeviceNotFound);
        assert!(failure.details.contains("found another one"), "{failure}");
        for file in [&chosen, &other] {
            let content = fs::read(file.path()).unwrap();
            assert!(content.iter().all(|byte| *byte == 0xa5));
        }

        // If the disk is chosen again by its path, the write succeeds.
        let root_disk = ChosenDisk::by_path(device.path()).unwrap();
        write(&root_disk, &Server::of(sum.as_bytes()), &server).unwrap();
        assert!(fs::read(other.path()).unwrap().starts_with(&image[..440]));
    }
}
