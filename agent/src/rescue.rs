//! A machine that was handed over to the user who rescues it: it stays up and on
//! the network, and its agent neither serves nor sends heartbeats, not even after
//! a restart.

use std::convert::Infallible;
use std::path::Path;

use crate::commands::RESCUED_MARKER;

/// A program that lets a user log in, and the shell that it starts: what the
/// optional rescue layer of the ramdisk brings.
const LOGIN: [&str; 2] = ["/usr/sbin/dropbear", "/bin/sh"];

/// Whether the machine was handed over.
pub fn is_rescued() -> bool {
    Path::new(RESCUED_MARKER).exists()
}

/// Leaves the machine to its user.
pub async fn leave_to_the_rescuer() -> Infallible {
    tracing::info!("this machine is in rescue: its agent serves no commands any more");
    for program in LOGIN.iter().filter(|program| !Path::new(program).exists()) {
        tracing::error!(
            "rescue: nobody can log in, this ramdisk has no {program} -- build one with a rescue layer, or use the original's for rescue_ramdisk"
        );
    }
    std::future::pending().await
}
