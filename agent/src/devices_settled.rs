//! When the devices of the boot have their drivers, as init tells the agent.

use std::io::Read as _;

use tokio::sync::watch;

/// Becomes true with the end of the agent's standard input, by which init says
/// so (see `early::supervise`).
pub fn devices_settled() -> watch::Receiver<bool> {
    let (settled, receiver) = watch::channel(false);
    std::thread::spawn(move || {
        // End of file and a broken pipe both mean that init is done with it.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        settled.send_replace(true);
    });
    receiver
}

/// Returns when they have.
pub async fn wait(mut settled: watch::Receiver<bool>) {
    // Fails only without a sender: then nothing more will settle.
    let _ = settled.wait_for(|settled| *settled).await;
}
