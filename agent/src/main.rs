//! The agent a bare server boots: configures the network, obeys Ironic, writes
//! the disk, reboots into it.

mod api;
mod backoff;
mod commands;
mod discovery;
mod disk;
mod early;
mod failure;
mod handover;
mod http_client;
mod inventory;
mod ironic;
mod network;
mod permission;
mod report;
mod state_file;
mod sys;

fn main() {}
