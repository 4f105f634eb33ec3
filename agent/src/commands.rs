//! The commands that Ironic can send, from JSON to a result.
//!
//! `Command` is the type for the commands of the protocol. [`parse`] turns JSON into a
//! `Command`. [`Ledger`] is the list of commands that Ironic reads back. [`Dispatcher`]
//! connects these three. Only `execute` carries out a command.

pub mod command;
mod departure;
mod dispatch;
mod execute;
pub mod files_to_inject;
pub mod image_info;
mod ledger;
mod machine;
mod node;
mod not_offered;
pub mod parse;
mod partition_image;
pub mod steps;
pub mod url_template;

pub use departure::Departure;
pub use dispatch::Dispatcher;
#[cfg(test)]
pub use dispatch::Executor;
pub use execute::{
    FirstBootNetwork, WAITING, choice_of_this_boot, into_installed_system, logs_for_inspection,
};
pub use ledger::{Interrupted, Ledger};
pub use machine::{Machine, blocking};
pub use node::Node;
pub use parse::Refusal;
pub use steps::HARDWARE_MANAGERS;
