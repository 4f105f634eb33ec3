//! Handles Ctrl-Alt-Del, for which the console of a BMC has a button.
//!
//! By default the kernel resets the machine at once, even in the middle of a
//! commit. Init switches this off, and the kernel sends SIGINT to PID 1 instead
//! (reboot(2), `RB_DISABLE_CAD`).

use std::io;
use std::sync::Arc;

use nix::sys::reboot::set_cad_enabled;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use super::shutdown::Ending;
use super::supervise::Supervisor;

/// Starts a thread that orders a reboot from `supervisor` when Ctrl-Alt-Del is pressed.
pub(super) fn watch_in_background(supervisor: &Arc<Supervisor>) {
    let supervisor = Arc::clone(supervisor);
    let consequence = "Ctrl-Alt-Del resets this machine at once";
    super::spawn("ctrl-alt-del", consequence, move || {
        if let Err(error) = watch(&supervisor) {
            tracing::warn!("cannot watch for Ctrl-Alt-Del: {error}; {consequence}");
        }
    });
}

fn watch(supervisor: &Arc<Supervisor>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let mut pressed = signal(SignalKind::interrupt())?;
        // Do this only after the handler is installed: the kernel drops a signal to PID
        // 1 that has no handler.
        set_cad_enabled(false)?;
        while pressed.recv().await.is_some() {
            supervisor.order_end(Ending::Reboot, "Ctrl-Alt-Del was pressed");
        }
        Ok(())
    })
}
