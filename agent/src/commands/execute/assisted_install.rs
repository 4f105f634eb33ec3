//! `start_assisted_install`: another installer, which waits in the live system
//! as a systemd unit, does the work.

use serde_json::Value;

use crate::commands::steps;
use crate::failure::Result;
use crate::live_system::LiveSystem;
use crate::permission::WritePermission;

/// The unit of OpenShift's agent-based installer.
const UNIT: &str = "agent.service";

/// Starts the unit and waits for its end. It writes to the disks as it likes,
/// hence the permission.
pub(super) async fn execute(live: Option<&LiveSystem>, _: WritePermission) -> Result<Value> {
    // In the ramdisk the step is not there: it is not listed either.
    let services = live.ok_or_else(|| steps::unknown("start_assisted_install"))?;
    services.run_unit(UNIT).await?;
    tracing::info!("{UNIT} has ended well");
    Ok(Value::Null)
}
