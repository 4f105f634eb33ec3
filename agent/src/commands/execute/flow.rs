//! `flow.start_flow`: runs commands one after the other until one fails.

use std::sync::Arc;

use landfall_report::failure::{Failure, Result};
use serde_json::Value;

use crate::commands::command::FlowTask;
use crate::commands::machine::Machine;

/// # Errors
/// If a command fails. The flow then ends, and the failure names the command and the
/// reason.
pub(super) async fn execute(machine: &Arc<Machine>, tasks: Vec<FlowTask>) -> Result<Value> {
    for FlowTask { name, command } in tasks {
        tracing::info!("{name} begins, as a part of a flow");
        let outcome = match command {
            // A future cannot contain itself, so this call is boxed.
            Ok(command) => Box::pin(Arc::clone(machine).execute(command)).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = outcome {
            return Err(Failure::other(format!("{name} was failed: {failure}")));
        }
    }
    Ok(Value::Null)
}
