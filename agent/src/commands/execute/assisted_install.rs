//! The step `start_assisted_install`: starts another installer, which is a systemd unit
//! of the live system.

use landfall_devices::permission::WritePermission;
use landfall_live_system::LiveSystem;
use landfall_report::failure::Result;
use serde_json::Value;

use crate::commands::steps::{self, Step};

/// The unit of OpenShift's agent-based installer.
const UNIT: &str = "agent.service";

/// Starts the unit and waits until it ends. The unit may write to any disk, so
/// the caller must hold the permission.
pub(super) async fn execute(live: Option<&LiveSystem>, _: WritePermission) -> Result<Value> {
    // The ramdisk has no such step and does not list it.
    let services = live.ok_or_else(|| steps::unknown(Step::StartAssistedInstall.name()))?;
    services.run_unit(UNIT).await?;
    tracing::info!("{UNIT} has ended successfully");
    Ok(Value::Null)
}
