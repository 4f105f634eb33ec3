//! Prepares the first boot of the installed system, once the image is on the disk.

pub mod boot_entries;
pub mod boot_files;
pub mod boot_loader_entry;
pub mod boot_partition;
pub mod console;
pub mod efi_device_path;
pub mod efi_entry;
pub mod efi_load_option;
pub mod efi_loader;
mod efi_system_partition;
pub mod efi_variables;
mod file_in_boot;
pub mod firstboot_keyfiles;
pub mod firstboot_network;
pub mod grub_choice;
pub mod grub_console;
pub mod grub_environment;
pub mod grub_words;
pub mod ignition_file;
pub mod injected_file;
pub mod install_coreos;
pub mod kernel_args;
pub mod kexec;
pub mod multipath;
pub mod platform_table;
pub mod pstore;
pub mod written_disk;
