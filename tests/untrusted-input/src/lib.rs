//! There is one function for each kind of input from outside. The function passes the
//! bytes to the parser of that input and checks the guarantees of the parser. A fuzz
//! target of `tests/fuzz/targets` calls it, and the tests of this crate call it with
//! every seed.
//!
//! If a format has a checksum, most functions correct it or disable it first: a fuzzer
//! cannot guess a checksum, so it would never reach the code behind the check.

mod boot_image;
mod console;
mod disk;
mod handover;
mod hardware;
mod host_manifests;
mod image_service;
mod installation;
mod iscsi;
mod kernel_command_line;
mod media;
mod modules;
mod network;
mod network_plan;
mod parser_answer;
mod service;
mod settings;

pub use boot_image::ext4;
pub use console::{keys, serial_port_table};
pub use disk::{
    checksum, config_drive, download_answer, file_system, gpt, image, image_signature, qcow2,
    unpack,
};
pub use handover::{bls_entry, efi, grub_choice, grub_console, grub_environment, platform_table};
pub use hardware::{
    ata_identify, lldp, nvme_boot_table, nvme_tcp_answer, root_device_hint, smbios, uevent, vpd,
};
pub use host_manifests::{bare_metal_hosts, openshift_install_config};
pub use image_service::{base_image, http_range};
pub use installation::{install_config, stream_metadata};
pub use iscsi::{ibft, iscsi_login};
pub use kernel_command_line::kernel_command_line;
pub use media::{iso_areas, medium};
pub use modules::{
    kernel_image, left_out, modinfo, module_index, newc, rpm_package, unified_image,
};
pub use network::{dhcp, dhcpv6, nd_user_option};
pub use network_plan::{embedded_host, keyfile, network_data, nmstate};
pub use parser_answer::parser_answer;
pub use service::{http_command, http_date, lookup_answer, mdns_advert, pem_file};
pub use settings::{config_file, config_ign};
