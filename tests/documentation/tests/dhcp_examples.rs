//! The programs themselves check the configurations of docs/upi-pxe.md.

use std::fs;
use std::process::Command;

use landfall_documentation::page::page;
use landfall_documentation::{Use, blocks};

#[test]
fn every_configuration_is_accepted_by_its_program() {
    let directory = tempfile::tempdir().unwrap();
    let mut count = 0;
    for block in blocks(&page("docs/upi-pxe.md").unwrap()) {
        let Use::File(Some(name)) = &block.used else {
            continue;
        };
        let file = directory.path().join(name);
        fs::write(&file, &block.text).unwrap();
        let (program, options): (&str, &[&str]) = match name.as_str() {
            "dnsmasq.conf" => ("dnsmasq", &["--test", "-C"]),
            "kea-dhcp4.conf" => ("kea-dhcp4", &["-t"]),
            "grub.cfg" => ("grub-script-check", &[]),
            _ => continue,
        };
        let output = Command::new(program)
            .args(options)
            .arg(&file)
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .output()
            .unwrap_or_else(|error| panic!("{program} (tests/setup.sh installs it): {error}"));
        let printed = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}: {printed}", block.place());
        count += 1;
    }
    assert_eq!(count, 3);
}
