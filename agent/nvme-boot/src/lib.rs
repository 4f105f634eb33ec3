//! Disks in a storage network that the firmware has set up for the boot. The firmware
//! describes the disks in a table for the operating system, which connects to them
//! again.
//!
//! This crate does so for NVMe/TCP and the table NBFT, without nvme-cli: it writes the
//! options of each connection to /dev/nvme-fabrics. Before that, it asks each storage itself
//! whether it answers.

mod attempt;
mod connect;
mod connection;
mod host_id;
pub mod nbft;
mod nics;
pub mod nvme_tcp;
mod probe;
mod tables;

pub use attempt::{Fabrics, FabricsDevice};
pub use connect::{Outcome, Pace, connect_all};
pub use connection::{Connection, Way, connections};
pub use nics::firmware_nics;
pub use probe::ProbeFault;
pub use tables::{FirmwareTable, read_tables};
