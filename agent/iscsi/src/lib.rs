//! iSCSI without open-iscsi: the targets of the firmware's table (iBFT), the login, and
//! the connections that the kernel's `iscsi_tcp` carries on with.
//!
//! The kernel moves the data. User space connects, logs in, and logs in again after a
//! connection has failed. The library knows nothing of stages and plans: the caller says
//! which NIC a target is reached over.

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
