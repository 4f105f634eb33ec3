//! Which kernel module a modalias asks for: written by the ramdisk builder, read by init.
