//! `flow.start_flow`: commands one after the other, as long as they succeed.

use std::sync::Arc;

use serde_json::Value;

use crate::commands::command::FlowTask;
use crate::commands::machine::Machine;
use crate::failure::{Class, Failure, Result};

/// Executes the tasks.
///
/// # Errors
/// With the first that fails: its name, and why.
pub(super) async fn execute(machine: &Arc<Machine>, tasks: Vec<FlowTask>) -> Result<Value> {
    for FlowTask { name, command } in tasks {
        tracing::info!("{name} begins, as a part of a flow");
        let outcome = match command {
            // In a box, since a future cannot hold itself.
            Ok(command) => Box::pin(Arc::clone(machine).execute(command)).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = outcome {
            return Err(Failure::new(
                Class::CommandExecutionError,
                format!("{name} was failed: {failure}"),
            ));
        }
    }
    Ok(Value::Null)
}
