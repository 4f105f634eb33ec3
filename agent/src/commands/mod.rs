//! What Ironic can ask, from JSON to a result.
//!
//! [`Command`] is the protocol as a type, [`parse`] the way into it, [`Ledger`]
//! the list that Ironic reads back, [`Dispatcher`] what ties them together.
//! Only `execute` knows how anything is done.

mod command;
mod dispatch;
pub mod execute;
mod ledger;
mod parse;
mod steps;

pub use command::{Command, Node};
pub use dispatch::{Dispatcher, Executor};
pub use ledger::Ledger;
pub use parse::Refusal;
