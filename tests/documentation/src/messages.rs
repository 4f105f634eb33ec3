//! The list of messages: the generator makes docs/messages.md from the errors and
//! warnings in the source.

mod collect;
mod constants;
mod function;
mod table;

pub use collect::{Kind, Message, classes_of, messages_of};
pub use constants::{Constants, constants_of};
pub use table::{PAGE, listed, with_generated, without_meaning};
