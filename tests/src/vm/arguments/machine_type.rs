//! The arguments for the type of machine that QEMU emulates: a PC, or the machine
//! `virt` with aarch64.

use landfall_initramfs::arch::Arch;

use super::Arguments;
use crate::artifacts;
use crate::vm::{Extra, Machine};

/// The name of QEMU's program for these hosts.
pub(in crate::vm) fn emulator() -> &'static str {
    match artifacts::arch() {
        Arch::X86_64 => "qemu-system-x86_64",
        Arch::Aarch64 => "qemu-system-aarch64",
    }
}

pub(super) fn pc(machine: &Machine, kvm: bool, list: &mut Arguments) {
    let has_usb_keyboard =
        { machine.extras.iter() }.any(|extra| matches!(extra, Extra::UsbKeyboard));
    let keyboard = if has_usb_keyboard { ",i8042=off" } else { "" };
    list.option("-machine", format!("q35,graphics=off{keyboard}"));
    if machine.has_secure_boot() {
        // Only the firmware may change its variables, in system management mode.
        list.option("-machine", "smm=on");
        list.option("-global", "driver=cfi.pflash01,property=secure,value=on");
    }
    if kvm {
        list.option("-accel", "kvm");
        list.option("-cpu", "host");
    } else {
        list.option("-accel", "tcg,thread=multi");
        list.option("-cpu", "max");
    }
    list.option("-vga", "std");
}

/// QEMU's machine for aarch64, always emulated: the tests run on x86-64.
pub(super) fn virt(list: &mut Arguments) {
    list.option("-machine", "virt");
    list.option("-accel", "tcg,thread=multi");
    // With the architected algorithm of pointer authentication, emulation spends half
    // of its time there. `pauth-impdef` selects a fast algorithm.
    list.option("-cpu", "max,pauth-impdef=on");
    list.option("-device", "ramfb");
}
