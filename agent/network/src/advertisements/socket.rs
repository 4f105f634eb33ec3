//! Receives the kernel's messages about advertised options that it does not read
//! itself.

use std::io;

use landfall_sys::route_group::RouteGroup;

use super::user_option::{self, UserOption};

/// `RTNLGRP_ND_USEROPT` in linux/include/uapi/linux/rtnetlink.h.
const GROUP: u32 = 20;
/// The size of the receive buffer in bytes. The kernel puts one option into a message,
/// and an option has at most 2040 bytes.
const MESSAGE_LIMIT: usize = 4096;

/// A subscription on its own socket: rtnetlink does not know this message type and
/// would log a warning for each message.
#[derive(Debug)]
pub struct UserOptions {
    group: RouteGroup,
}

impl UserOptions {
    /// Subscribes to the kernel's messages.
    ///
    /// # Errors
    /// If the kernel rejects the subscription.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn open() -> io::Result<UserOptions> {
        let group = RouteGroup::open(GROUP)?;
        Ok(UserOptions { group })
    }

    /// Returns the options of the next message. A lost message does no harm: the
    /// next advertisement repeats its options.
    ///
    /// # Errors
    /// If the kernel reports an error.
    pub async fn next(&self) -> io::Result<Vec<UserOption>> {
        let mut buffer = [0; MESSAGE_LIMIT];
        let length = self.group.receive(&mut buffer).await?;
        Ok(user_option::read(&buffer[..length]))
    }
}
