//! The agent a bare server boots: configures the network, obeys Ironic, writes
//! the disk, reboots into it.

mod disk;
mod early;
mod failure;
mod handover;
mod http_client;
mod inventory;
mod network;
mod permission;
mod report;
mod sys;

fn main() {}
