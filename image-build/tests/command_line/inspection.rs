//! Tests what `inspect` finds in damaged files.

use std::fs;
use std::process::Command;

use crate::fixture::Fixture;
use crate::products::offset_by_xorriso;

/// The exit code and the lines about faults.
fn faults(fixture: &Fixture, arguments: &[&str]) -> (i32, Vec<String>) {
    let output = fixture.run(&[&["inspect"], arguments].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let faults = text.lines().filter_map(|line| line.strip_prefix("FAULT "));
    let faults = faults.map(str::to_owned).collect();
    (output.status.code().unwrap(), faults)
}

#[test]
fn damage_anywhere_on_an_iso_is_found() {
    let fixture = Fixture::new();
    // A kernel and an image with enough bytes to damage.
    let mut kernel = fs::read(fixture.path("kernel/boot/vmlinuz-6.1-test")).unwrap();
    kernel.resize(300_000, 7);
    fixture.put("kernel/boot/vmlinuz-6.1-test", &kernel);
    let mut disk = vec![9; 400_000];
    disk[446..510].fill(0);
    disk[450] = 0x83;
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    fixture.put("disk.raw", &disk);
    fixture.build("iso", "a.iso", &["--coreos-image", "disk.raw"]);
    let good = fs::read(fixture.path("a.iso")).unwrap();
    assert_eq!(faults(&fixture, &["--verify", "a.iso"]), (0, Vec::new()));

    let kernel_at = offset_by_xorriso(&fixture, "boot/vmlinuz");
    let image_at = offset_by_xorriso(&fixture, "landfall/coreos-image");
    let loader_at = offset_by_xorriso(&fixture, "boot/grub/efi.img");
    let list_at = offset_by_xorriso(&fixture, "SHA256SUMS");
    for (offset, len, part) in [
        (
            kernel_at + 100_000,
            4096,
            "boot/vmlinuz: damaged or changed",
        ),
        (image_at, 1, "landfall/coreos-image: damaged or changed"),
        (loader_at + 5000, 1, "boot/grub/efi.img: damaged or changed"),
        (100, 1, "damaged or changed outside of its files"),
        (good.len() - 1, 1, "damaged or changed outside of its files"),
        (
            list_at + 120,
            1,
            "the line about the whole medium is damaged",
        ),
        (list_at + 4095 - 100, 50, "SHA256SUMS"),
    ] {
        let mut bad = good.clone();
        bad[offset..offset + len]
            .iter_mut()
            .for_each(|byte| *byte ^= 0x20);
        fixture.put("bad.iso", &bad);
        let (code, found) = faults(&fixture, &["bad.iso"]);
        assert_eq!(code, 1, "{part}");
        assert!(
            found.iter().any(|fault| fault.contains(part)),
            "{part}: {found:?}"
        );
    }
    for len in [good.len() - 1, image_at, kernel_at + 1000, 100_000] {
        fixture.put("short.iso", &good[..len]);
        let (code, found) = faults(&fixture, &["short.iso"]);
        assert_eq!(code, 1, "{len}");
        let expected = format!("cut off: expected {} bytes, found {len}", good.len());
        assert!(
            found[0] == expected || found[0].starts_with("cannot read the ISO"),
            "{len}: {found:?}"
        );
    }
}

#[test]
fn changes_for_a_host_are_no_damage() {
    let fixture = Fixture::new();
    fixture.build("iso", "a.iso", &[]);
    let mut bytes = fs::read(fixture.path("a.iso")).unwrap();
    let kargs = offset_by_xorriso(&fixture, "boot/grub/kargs.env") + 31;
    bytes[kargs..kargs + 1793].fill(b'#');
    bytes[kargs..kargs + 2].copy_from_slice(b"x\n");
    // image-customization-controller writes gzip to the start of the area.
    let ignition = offset_by_xorriso(&fixture, "images/ignition.img");
    let config = packed_archive(&fixture, "config.ign", "gzip -9");
    bytes[ignition..ignition + config.len()].copy_from_slice(&config);
    // A USB stick is larger than the ISO that was copied to it.
    bytes.resize(bytes.len() + 1_000_000, 0xff);
    fixture.put("b.iso", &bytes);
    assert_eq!(faults(&fixture, &["--verify", "b.iso"]), (0, Vec::new()));
    let iso = fixture.inspect("b.iso");
    assert_eq!(iso["iso"]["kernel_args"], "x");
    assert_eq!(
        iso["iso"]["ignition_files"],
        serde_json::json!(["config.ign"])
    );
    assert_eq!(iso["iso"]["ignition_size"], 256 * 1024);
    let text = fixture.run(&["inspect", "b.iso"]).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("  kargs    x (changed since the build)\n"),
        "{text}"
    );
    assert!(text.contains("  ignition 256 KiB, config.ign\n"), "{text}");
    let unchanged = fixture.inspect("a.iso");
    assert_eq!(iso["bytes"], unchanged["bytes"]);
    assert!(unchanged["verified_files"].as_u64().unwrap() > 5);
}

/// An archive with one file, packed by this program.
pub fn packed_archive(fixture: &Fixture, name: &str, program: &str) -> Vec<u8> {
    fixture.put(&format!("packed/{name}"), b"{}");
    let script = format!("echo {name} | cpio -o -H newc --quiet | {program}");
    let packed = Command::new("sh")
        .args(["-c", &script])
        .current_dir(fixture.path("packed"))
        .output()
        .unwrap();
    assert!(packed.status.success());
    packed.stdout
}

#[test]
fn an_unreadable_area_is_a_fault() {
    let fixture = Fixture::new();
    fixture.build("iso", "a.iso", &[]);
    let good = fs::read(fixture.path("a.iso")).unwrap();
    let kargs = offset_by_xorriso(&fixture, "boot/grub/kargs.env") + 31;
    let head = kargs - 31;
    let ignition = offset_by_xorriso(&fixture, "images/ignition.img");
    let config = packed_archive(&fixture, "config.ign", "gzip -9");
    let behind = [&config[..], b"old bytes"].concat();
    let description = offset_by_xorriso(&fixture, "boot/landfall-areas.json");
    for (offset, bytes, expected) in [
        (
            kargs,
            &b"dyndbg=\"file a +p\"\n#"[..],
            "boot/grub/kargs.env: kernel arguments contain `\"`: GRUB does not pass quotes and backslashes on unchanged",
        ),
        (
            head,
            b"#!GRUB",
            "boot/grub/kargs.env: expected kernel arguments as boot/landfall-areas.json describes them, found other content: the kernel may start without them",
        ),
        (ignition, &behind, "images/ignition.img: ramdisk at byte"),
        (
            ignition,
            b"{\"ignition\": {}}",
            "images/ignition.img: ramdisk at byte 0: expected a newc cpio archive, gzip, xz, zstd, lz4, bzip2 or lzma, found `{\\\"igniti`",
        ),
        (
            ignition,
            &config[..config.len() - 20],
            "images/ignition.img: ramdisk at byte 0: cannot unpack gzip: ",
        ),
        (
            description,
            b"[",
            "boot/landfall-areas.json: damaged or changed",
        ),
    ] {
        let mut bad = good.clone();
        bad[offset..offset + bytes.len()].copy_from_slice(bytes);
        fixture.put("bad.iso", &bad);
        let (code, found) = faults(&fixture, &["--verify", "bad.iso"]);
        assert_eq!(code, 1, "{expected}");
        assert!(
            found.iter().any(|fault| fault.starts_with(expected)),
            "{expected}: {found:?}"
        );
    }
}

/// `coreos-installer pxe ignition wrap` makes a ramdisk that holds only an Ignition
/// config.
#[test]
fn ramdisks_of_an_ignition_config_alone() {
    let fixture = Fixture::new();
    fixture.build("initramfs", "initrd.img", &[]);
    let mut both = fs::read(fixture.path("initrd.img")).unwrap();
    let config = packed_archive(&fixture, "config.ign", "xz --check=crc32");
    fixture.put("ignition.img", &config);
    both.extend_from_slice(&config);
    fixture.put("both.img", &both);
    for (file, kind) in [("ignition.img", "ignition"), ("both.img", "ramdisk")] {
        assert_eq!(faults(&fixture, &[file]), (0, Vec::new()), "{file}");
        let inspection = fixture.inspect(file);
        assert_eq!(inspection["kind"], kind);
        assert_eq!(inspection["ramdisk"]["ignition"][0]["path"], "config.ign");
    }
    fixture.put("zeros.img", &[0; 512]);
    let expected = (1, vec!["there are only zeros".to_owned()]);
    assert_eq!(faults(&fixture, &["zeros.img"]), expected);
}

#[test]
fn sha256sum_reads_the_list() {
    let fixture = Fixture::new();
    fixture.build("iso", "a.iso", &[]);
    let extracted = Command::new("xorriso")
        .args(["-osirrox", "on", "-indev", "a.iso", "-extract", "/", "tree"])
        .current_dir(fixture.path("."))
        .output()
        .unwrap();
    assert!(extracted.status.success());
    let check = Command::new("sha256sum")
        .args(["--check", "--strict", "SHA256SUMS"])
        .current_dir(fixture.path("tree"))
        .output()
        .unwrap();
    let text = String::from_utf8(check.stdout).unwrap();
    assert!(check.status.success(), "{text}");
    assert!(text.contains("boot/vmlinuz: OK\n"), "{text}");
}

#[test]
fn ramdisks_that_are_cut_off_or_of_hosts_alone() {
    let fixture = Fixture::new();
    let text =
        r#"{"links": [{"id": "a", "type": "phy", "ethernet_mac_address": "52:54:00:00:00:01"}]}"#;
    fixture.put("hosts/a.json", text.as_bytes());
    let made = fixture.run(&["hosts", "--hosts", "hosts", "-o", "hosts.img"]);
    assert!(made.status.success());
    assert_eq!(faults(&fixture, &["hosts.img"]), (0, Vec::new()));
    assert_eq!(fixture.inspect("hosts.img")["kind"], "hosts");

    fixture.build("initramfs", "initrd.img", &["--compress", "none"]);
    let whole = fs::read(fixture.path("initrd.img")).unwrap();
    assert_eq!(faults(&fixture, &["initrd.img"]), (0, Vec::new()));
    for len in [whole.len() / 2, whole.len() - 200] {
        fixture.put("short.img", &whole[..len]);
        assert_eq!(
            fixture.run(&["inspect", "short.img"]).status.code(),
            Some(1)
        );
    }
    // `inspect` rejects an ISO that the builder did not make.
    let made = Command::new("xorriso")
        .args(["-as", "mkisofs", "-quiet", "-o", "other.iso", "hosts"])
        .current_dir(fixture.path("."))
        .output()
        .unwrap();
    assert!(made.status.success());
    assert!(
        fixture
            .fails(&["inspect", "other.iso"])
            .contains("not an ISO of landfall-image")
    );
}
