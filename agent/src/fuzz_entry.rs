//! The ways in for `tests/fuzz`, and for nothing else: one function for each
//! input that comes from outside, from its bytes to the call of its parser.
//!
//! Compiled under `cfg(fuzzing)` only, which cargo-fuzz sets: the agent's
//! modules are private, and the fuzz targets are another crate. Where a format
//! has a checksum it is put right first: no fuzzer guesses one, and all that
//! lies behind it would never be reached.

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
