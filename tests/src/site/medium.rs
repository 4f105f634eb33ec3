//! Makes the boot medium of a host of a [`Plan`].

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::{Network, Plan, STICK_MIB, Way};
use crate::dhcp_server::{NetworkBoot, TftpFile};
use crate::image_server::{self, ServedFile};
use crate::lab::{Family, Lab};
use crate::ramdisk_parts::{Kernel, ModuleSet};
use crate::vm::{Boot, Firmware};
use crate::{artifacts, embedded_hosts, folder_server, media};

/// The boot medium, and the files and DHCP answers that it needs.
pub(super) struct Medium {
    pub(super) boot: Boot,
    pub(super) files: Vec<ServedFile>,
    pub(super) network_boot: Option<NetworkBoot>,
    /// See [`super::Site::boot_files`].
    pub(super) boot_files: Option<PathBuf>,
}

impl Plan {
    pub(super) async fn medium(&self, lab: &Lab) -> Result<Medium> {
        let arguments = self.kernel_arguments();
        let mut options = match self.network {
            Network::HostsFolder => embedded_hosts::folder(lab)?,
            Network::AgentConfig => embedded_hosts::agent_config(lab)?,
            _ => Vec::new(),
        };
        options.extend(self.module_set.options());
        if self.module_set == ModuleSet::Server {
            // With the default compression it takes minutes to pack the drivers of
            // servers.
            options.extend(["--compress", "zstd:1"].map(str::to_owned));
        }
        if self.image_on_medium {
            options.extend([
                "--coreos-image".to_owned(),
                artifacts::coreos_image(self.packing)?.display().to_string(),
                "--coreos-image-digest".to_owned(),
                format!("sha256:{}", artifacts::coreos_image_sha256(self.packing)?),
            ]);
        }
        let boot = match self.way {
            Way::Direct => self.direct(lab, arguments, &options).await?,
            Way::Iso => Boot::Iso(media::iso_of(lab, self.kernel, &arguments, &options).await?),
            Way::UsbStick => {
                let stick = media::iso_of(lab, self.kernel, &arguments, &options).await?;
                // Real sticks are larger than the ISO written to them.
                let file = std::fs::OpenOptions::new().write(true).open(&stick)?;
                file.set_len(STICK_MIB << 20)?;
                Boot::UsbStick(stick)
            }
            Way::Http => return self.http_medium(lab, &arguments, &options).await,
            Way::Uki => {
                let folder = media::uki_folder(lab, self.kernel, &arguments, &options).await?;
                return Ok(by_http(folder, media::UKI));
            }
            Way::HttpIso => {
                let iso = media::iso_of(lab, self.kernel, &arguments, &options).await?;
                let (Some(folder), Some(file)) = (iso.parent(), iso.file_name()) else {
                    bail!("{} is in no folder", iso.display());
                };
                let file = file.to_string_lossy();
                return Ok(by_http(folder.to_owned(), &file));
            }
            Way::Pxe | Way::IpxeChained => {
                return self.network_medium(lab, &arguments, &options).await;
            }
        };
        Ok(Medium {
            boot,
            files: Vec::new(),
            network_boot: None,
            boot_files: None,
        })
    }

    /// A direct boot with kernel and ramdisk from `make build` if it builds this
    /// combination, otherwise with those of a network tree that is built here.
    async fn direct(&self, lab: &Lab, arguments: String, options: &[String]) -> Result<Boot> {
        let (kernel, ramdisk) = match (self.kernel, self.module_set) {
            (Kernel::Cloud, ModuleSet::Vm) => (artifacts::kernel()?, artifacts::ramdisk()?),
            (Kernel::Generic, ModuleSet::Vm) => {
                (artifacts::generic_kernel()?, artifacts::generic_ramdisk()?)
            }
            _ => {
                let tree = media::network_tree(lab, self.kernel, &arguments, options).await?;
                (tree.join("vmlinuz"), tree.join("initrd.img"))
            }
        };
        Ok(Boot::Direct {
            kernel,
            ramdisk,
            arguments,
        })
    }

    async fn http_medium(&self, lab: &Lab, arguments: &str, options: &[String]) -> Result<Medium> {
        let base = Family::V4.url(folder_server::PORT);
        let options = [options, &["--base-url".to_owned(), base]].concat();
        let root = media::network_tree(lab, self.kernel, arguments, &options).await?;
        Ok(by_http(root, &media::http_loader()))
    }

    async fn network_medium(
        &self,
        lab: &Lab,
        arguments: &str,
        options: &[String],
    ) -> Result<Medium> {
        // The URL is always IPv4, because QEMU's iPXE ROMs are built without IPv6.
        let base = Family::V4.url(image_server::PORT);
        let mut options = options.to_vec();
        if self.grub_over_http {
            options.extend(["--base-url".to_owned(), base.clone()]);
        }
        let root = media::network_tree(lab, self.kernel, arguments, &options).await?;
        let files = media::served(&root)?;
        let script = Some(format!("{base}/boot.ipxe"));
        let (boot, network_boot) = match (self.way, self.firmware) {
            (Way::IpxeChained, _) => {
                let network_boot = NetworkBoot {
                    efi_file: Some(media::ipxe_over_tftp(lab)?),
                    ipxe_script: script,
                    ..NetworkBoot::default()
                };
                (Boot::FirmwarePxe, network_boot)
            }
            (_, Firmware::Uefi) => {
                let efi_file = Some(TftpFile {
                    root,
                    file: format!("shim{}.efi", artifacts::arch().efi_suffix()),
                });
                let network_boot = NetworkBoot {
                    efi_file,
                    ..NetworkBoot::default()
                };
                (Boot::FirmwarePxe, network_boot)
            }
            (_, Firmware::Bios) => {
                let network_boot = NetworkBoot {
                    ipxe_script: script,
                    ..NetworkBoot::default()
                };
                (Boot::IpxeRom, network_boot)
            }
        };
        Ok(Medium {
            boot,
            files,
            network_boot: Some(network_boot),
            boot_files: None,
        })
    }
}

/// The medium for firmware that boots `file` below `folder` by HTTP.
fn by_http(folder: PathBuf, file: &str) -> Medium {
    let base = Family::V4.url(folder_server::PORT);
    let network_boot = NetworkBoot {
        http_file: Some(format!("{base}/{file}")),
        ..NetworkBoot::default()
    };
    Medium {
        boot: Boot::FirmwareHttp,
        files: Vec::new(),
        network_boot: Some(network_boot),
        boot_files: Some(folder),
    }
}
