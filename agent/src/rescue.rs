//! Hands the machine over to the user of a rescue. The machine stays up and on the
//! network. Its agent accepts no commands and sends no heartbeats, even after a restart.
//!
//! The user logs in by SSH and uses the programs of the ramdisk's rescue layer
//! (`landfall-image --rescue-layer`). By default a ramdisk has no rescue layer, because
//! the layer is the only way to get a shell on the machine.

mod accounts;
mod login_server;

use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use accounts::Password;
use landfall_report::failure::{Failure, Result};
use landfall_sys::backoff::Backoff;
use login_server::LoginServerError;

/// Marks that the machine is in rescue during this boot. Ironic's agent uses
/// the same file.
const RESCUED_MARKER: &str = "etc/.rescued";

/// The programs that the rescue layer must contain.
const PROGRAMS: [&str; 3] = [login_server::SERVER, login_server::KEY_MAKER, SHELL];
const SHELL: &str = "bin/busybox";

/// The pauses between attempts to start the server again.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Whether this machine is in rescue.
pub fn is_rescued() -> bool {
    Path::new("/").join(RESCUED_MARKER).exists()
}

/// Allows the user of the rescue to log in with the password of this crypt(3) hash.
/// Returns when the SSH server accepts connections.
///
/// # Errors
/// If the ramdisk has no rescue layer, the hash is invalid, a file cannot be written, or
/// the server does not start. The machine is then not in rescue.
pub fn hand_over(hash: &str) -> Result<()> {
    let root = Path::new("/");
    layer_is_there(root)?;
    accounts::write(root, &Password::from_hash(hash)?).map_err(|error| fault(error.to_string()))?;
    let marker = root.join(RESCUED_MARKER);
    marked(&marker, login_server::start)
}

/// Writes the marker first, because no step may fail after the server accepts logins. If
/// the start fails, removes the marker.
fn marked(
    marker: &Path,
    start: impl FnOnce() -> std::result::Result<(), LoginServerError>,
) -> Result<()> {
    fs::write(marker, b"")
        .map_err(|error| fault(format!("cannot write {}: {error}", marker.display())))?;
    start().map_err(|reason| {
        if let Err(error) = fs::remove_file(marker) {
            tracing::error!("cannot remove {}: {error}", marker.display());
        }
        fault(reason.to_string())
    })
}

/// Starts the SSH server again after a restart of the agent. Retries until the
/// server runs, because this machine has nothing else to do.
pub fn resume() {
    let mut backoff = Backoff::new(SHORTEST_PAUSE, LONGEST_PAUSE);
    while let Err(reason) = login_server::start() {
        let pause = backoff.pause();
        let seconds = pause.as_secs_f64().ceil();
        tracing::error!("nobody can log in: {reason}; trying again in {seconds:.0} s");
        thread::sleep(pause);
    }
}

/// Waits forever, so that the machine stays up for its user.
pub async fn leave_to_the_user() -> Infallible {
    tracing::info!("this machine is in rescue: its agent no longer serves commands");
    std::future::pending().await
}

/// # Errors
/// If the rescue layer lacks programs. The error lists them. Without this check Ironic
/// would report success for a machine that nobody can log in to.
fn layer_is_there(root: &Path) -> Result<()> {
    let missing: Vec<String> = PROGRAMS
        .iter()
        .filter(|program| !root.join(program).exists())
        .map(|program| format!("/{program}"))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let details = format!(
        "this ramdisk has no rescue layer, so nobody could log in: expected {}, found none",
        missing.join(", ")
    );
    Err(Failure::other(details).hint(
        "build the ramdisk with landfall-image --rescue-layer, or set rescue_kernel and rescue_ramdisk in driver_info to another ramdisk",
    ))
}

fn fault(details: String) -> Failure {
    Failure::other(format!("rescue: {details}"))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_failure_leaves_neither_server_nor_marker() {
        let root = tempfile::tempdir().unwrap();
        let marker = root.path().join("rescued");
        let fault = LoginServerError::NoThread(io::Error::other("no memory"));
        let failure = marked(&marker, || Err(fault)).unwrap_err();
        assert!(failure.to_string().contains("no memory"), "{failure}");
        assert!(!marker.exists());
        assert_eq!(marked(&marker, || Ok(())), Ok(()));
        assert!(marker.exists());
        let nowhere = root.path().join("none/rescued");
        let failure = marked(&nowhere, || panic!("started without a marker")).unwrap_err();
        assert!(failure.to_string().contains("none/rescued"), "{failure}");
    }

    #[test]
    fn a_missing_rescue_layer_is_detected() {
        let root = tempfile::tempdir().unwrap();
        let failure = layer_is_there(root.path()).unwrap_err().to_string();
        for part in ["/usr/sbin/dropbear", "--rescue-layer", "rescue_ramdisk"] {
            assert!(failure.contains(part), "{failure}");
        }
        for program in PROGRAMS {
            let path = root.path().join(program);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        assert_eq!(layer_is_there(root.path()), Ok(()));
        fs::remove_file(root.path().join(SHELL)).unwrap();
        let failure = layer_is_there(root.path()).unwrap_err().to_string();
        assert!(failure.contains("expected /bin/busybox, found none"));
    }
}
