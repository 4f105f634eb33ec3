//! Tests the single file that UEFI firmware starts (UKI). These tests use a GRUB in place
//! of a UKI stub: it is an EFI program too, and every machine that runs these tests has
//! it.

use std::fs;
use std::process::Command;

use crate::fixture::Fixture;

const STUB: &str = "/usr/lib/grub/x86_64-efi/monolithic/grubx64.efi";
const KERNEL: &str = "kernel/boot/vmlinuz-6.1-test";

/// A kernel that UEFI firmware can start as a program.
fn with_efi_stub(fixture: &Fixture) -> Vec<u8> {
    let mut kernel = fs::read(fixture.path(KERNEL)).unwrap();
    kernel[0x3c] = 0x40;
    kernel[0x40..0x44].copy_from_slice(b"PE\0\0");
    kernel[0x58..0x5a].copy_from_slice(&[0x0b, 0x02]);
    fixture.put(KERNEL, &kernel);
    kernel
}

/// The content of a section, as objcopy of binutils extracts it.
fn section(fixture: &Fixture, image: &str, name: &str) -> Vec<u8> {
    let output = Command::new("objcopy")
        .args(["-O", "binary", "--only-section", name, image, "section"])
        .current_dir(fixture.path("."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    fs::read(fixture.path("section")).unwrap()
}

#[test]
fn a_single_file_holds_all_that_a_host_needs() {
    let fixture = Fixture::new();
    let kernel = with_efi_stub(&fixture);
    let options = ["--stub", STUB, "--karg", "a=b"];
    let summary = fixture.build("uki", "landfall.efi", &options);
    let arguments = "console=tty0 console=ttyS0,115200n8 quiet a=b";
    assert_eq!(summary["kernel_args"], arguments);
    let text = |name| String::from_utf8(section(&fixture, "landfall.efi", name)).unwrap();
    assert_eq!(text(".cmdline"), arguments);
    assert_eq!(text(".uname"), "6.1-test");
    assert!(text(".osrel").starts_with("ID=landfall\n"));
    assert_eq!(section(&fixture, "landfall.efi", ".linux"), kernel);
    let ramdisk = section(&fixture, "landfall.efi", ".initrd");
    fixture.put("initrd.img", &ramdisk);
    let inspection = fixture.inspect("initrd.img");
    assert_eq!(inspection["sha256"], summary["ramdisk"]["sha256"]);
    assert_eq!(inspection["ramdisk"]["faults"], serde_json::json!([]));

    let whole = fixture.inspect("landfall.efi");
    assert_eq!(whole["kind"], "uki");
    assert_eq!(whole["sha256"], summary["sha256"]);
    assert_eq!(whole["uki"]["kernel_args"], arguments);
    assert_eq!(whole["uki"]["is_signed"], false);
    assert_eq!(whole["ramdisk"]["kernel_release"], "6.1-test");

    let again = fixture.build("uki", "again.efi", &options);
    assert_eq!(again["sha256"], summary["sha256"]);
}

#[test]
fn an_image_that_no_firmware_can_start_is_rejected() {
    let fixture = Fixture::new();
    let build = [
        "uki",
        "--agent",
        "agent",
        "--kernel-dir",
        "kernel",
        "-o",
        "x",
    ];
    let fails = |stub: &str| fixture.fails(&[&build[..], &["--stub", stub]].concat());
    assert_eq!(
        fails(STUB),
        "landfall-image: FAILED kernel 6.1-test: expected one with an EFI stub, found none: UEFI hosts cannot start it -- use a kernel with CONFIG_EFI_STUB, as distributions have it"
    );
    with_efi_stub(&fixture);
    assert_eq!(
        fails("agent"),
        "landfall-image: FAILED stub agent: expected an EFI program for x86-64 or aarch64, found `\\x7fE`"
    );
    fixture.build("uki", "whole.efi", &["--stub", STUB]);
    assert_eq!(
        fails("whole.efi"),
        "landfall-image: FAILED stub whole.efi: expected a stub without a section .osrel, found one"
    );
}
