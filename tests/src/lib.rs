//! End-to-end tests: real kernel, firmware, GRUB and Ignition in QEMU, a scripted conductor in place of Ironic.
