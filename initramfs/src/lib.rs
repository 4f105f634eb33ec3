//! Builds the discovery ramdisk: newc archive, kernel modules, firmware, agent.

#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        reason = "a test that unwraps nothing has failed"
    )
)]

pub mod agent_binary;
pub mod compress;
mod edit_distance;
mod elf_section;
pub mod file_tree;
pub mod firmware;
pub mod kernel_config;
pub mod kernel_image;
pub mod kernel_modules;
pub mod kernel_source;
pub mod modinfo;
pub mod module_set;
pub mod newc;
mod parallel;
pub mod path_error;

pub use elf_section::ElfError;
