//! Implements iSCSI without open-iscsi: reads the targets of the firmware's table
//! (iBFT), logs in, and hands the connections over to the kernel's `iscsi_tcp`.
//!
//! The kernel transfers the data. User space connects, logs in, and logs in again after a
//! connection has failed. The library does not depend on the stage of the boot or on a
//! network plan: the caller specifies the NIC over which it reaches a target.

pub mod agreed;
pub mod boot_table;
mod chap;
pub mod connect;
pub mod firmware_disk;
pub mod kernel;
pub mod login;
mod lun;
pub mod pdu;
pub mod session;
pub mod text_keys;
pub mod watch;

pub use boot_table::{BootNic, BootTable, BootTarget, Chap};
pub use lun::Lun;
pub use session::{Session, SessionError};
