//! Assembles the discovery ramdisk and a kernel into ISOs, PXE trees and GRUB arguments.

fn main() {}
