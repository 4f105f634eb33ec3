//! An HTTP server of a folder, for boot loaders.
//!
//! GRUB 2.06 recognises `Content-Length` only in this spelling, and its verifiers load no
//! file without that header. The lab's own server sends header names in lower case.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use tokio::process::Child;

use crate::program;

/// The port next to that of [`crate::image_server`].
pub const PORT: u16 = 8081;

/// Serves the folder until the result is dropped.
pub fn start(folder: &Path, port: u16) -> Result<Child> {
    program::bound_to_this_thread("python3")
        .args(["-m", "http.server", &port.to_string(), "--directory"])
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("starting python3 -m http.server")
}
