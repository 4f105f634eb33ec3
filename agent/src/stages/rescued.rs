//! A boot after the command `rescue`: the machine belongs to its user.

use std::convert::Infallible;

use landfall_report::failure::Result;

use crate::commands::blocking;
use crate::rescue;

/// Restores what the rescue set up before the agent was restarted, and then leaves
/// the machine to the user.
pub(super) async fn stay_rescued() -> Result<Infallible> {
    blocking(|| {
        rescue::resume();
        Ok(())
    })
    .await?;
    match rescue::leave_to_the_user().await {}
}
