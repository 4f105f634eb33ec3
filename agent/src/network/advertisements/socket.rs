//! The kernel's messages about options that it leaves to others.

use std::io;

use super::user_option::{self, UserOption};
use crate::sys::route_group::RouteGroup;

/// `RTNLGRP_ND_USEROPT` in linux/include/uapi/linux/rtnetlink.h.
const GROUP: u32 = 20;
/// The kernel puts one option into a message; an option has at most 2040 bytes.
const MESSAGE_LIMIT: usize = 4096;

/// A subscription. A socket of its own: rtnetlink does not know the message and
/// would complain of each.
#[derive(Debug)]
pub struct UserOptions {
    group: RouteGroup,
}

impl UserOptions {
    /// Subscribes.
    ///
    /// # Errors
    /// If the kernel does not talk to us.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn open() -> io::Result<UserOptions> {
        let group = RouteGroup::open(GROUP)?;
        Ok(UserOptions { group })
    }

    /// The options of the next message. Messages that were lost come again with
    /// the next advertisement.
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn next(&self) -> io::Result<Vec<UserOption>> {
        let mut buffer = [0; MESSAGE_LIMIT];
        let length = self.group.receive(&mut buffer).await?;
        Ok(user_option::read(&buffer[..length]))
    }
}
