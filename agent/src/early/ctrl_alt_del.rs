//! Ctrl-Alt-Del, for which the console of a BMC has a button.
//!
//! The kernel would reset the machine at once, in the middle of a commit too. Told
//! not to, it sends SIGINT to PID 1 instead (reboot(2), `RB_DISABLE_CAD`).

use std::io;
use std::sync::Arc;

use nix::sys::reboot::set_cad_enabled;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use super::shutdown::Ending;
use super::supervise::Supervisor;

/// Reboots through `supervisor` when the keys are pressed, on a thread of its own.
pub(super) fn watch_in_background(supervisor: &Arc<Supervisor>) {
    let supervisor = Arc::clone(supervisor);
    let consequence = "Ctrl-Alt-Del resets this machine at once";
    super::spawn("ctrl-alt-del", consequence, move || {
        if let Err(error) = watch(&supervisor) {
            tracing::warn!("watching for Ctrl-Alt-Del: {error}; {consequence}");
        }
    });
}

fn watch(supervisor: &Arc<Supervisor>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let mut pressed = signal(SignalKind::interrupt())?;
        // Not before: without a handler the kernel drops what it sends to PID 1.
        set_cad_enabled(false)?;
        while pressed.recv().await.is_some() {
            supervisor.order_end(Ending::Reboot, "Ctrl-Alt-Del was pressed");
        }
        Ok(())
    })
}
