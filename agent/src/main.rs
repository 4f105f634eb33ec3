//! The agent a bare server boots: configures the network, obeys Ironic, writes the disk, reboots into it.

fn main() {}
