//! Builds the discovery ramdisk: newc archive, kernel modules, firmware, agent.

#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        reason = "a test that unwraps nothing has failed"
    )
)]

pub mod compress;
pub mod file_tree;
pub mod newc;
pub mod path_error;
