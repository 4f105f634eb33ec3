//! A boot after the command `finalize_rescue`: the machine belongs to its user.

use std::convert::Infallible;

use landfall_report::failure::Result;

use crate::commands::blocking;
use crate::rescue;

/// Starts the SSH server of the rescue again after a restart of the agent, and then
/// leaves the machine to the user.
pub(super) async fn stay_rescued() -> Result<Infallible> {
    blocking(|| {
        rescue::resume();
        Ok(())
    })
    .await?;
    match rescue::leave_to_the_user().await {}
}
