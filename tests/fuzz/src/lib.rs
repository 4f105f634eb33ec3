//! One function for each kind of input from outside. It passes the bytes to the
//! parser of that input; a target of `targets/` calls it.
//!
//! If a format has a checksum, the function corrects it first: a fuzzer cannot
//! guess one, so it would never reach the code behind the check.

mod disk;
mod handover;
mod hardware;
mod installation;
mod network;
mod service;

pub use disk::{
    checksum, config_drive, download_answer, file_system, gpt, image, image_signature, qcow2,
    unpack,
};
pub use handover::{bls_entry, efi, grub_choice, grub_console, grub_environment, platform_table};
pub use hardware::{ata_identify, root_device_hint, smbios, uevent, vpd};
pub use installation::{install_config, stream_metadata};
pub use network::{dhcp, dhcpv6, nd_user_option};
pub use service::{http_command, http_date, lookup_answer, mdns_advert, pem_file};
