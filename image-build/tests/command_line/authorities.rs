//! Tests which certificate authorities a ramdisk trusts.

use std::fs;
use std::path::Path;

use crate::fixture::Fixture;

#[test]
fn the_authorities_that_are_trusted_are_in_every_product() {
    let fixture = Fixture::new();
    let authority = fs::read("test_data/site_configuration/authority.pem").unwrap();
    fixture.put("public.pem", &[&authority[..], &authority].concat());
    fixture.put("own.pem", &authority);
    for (command, output, inspected) in [
        ("initramfs", "initrd.img", "initrd.img"),
        ("iso", "a.iso", "a.iso"),
        ("pxe", "tree", "tree/initrd.img"),
    ] {
        fixture.build(command, output, &["--ca-bundle", "public.pem"]);
        let authorities = &fixture.inspect(inspected)["ramdisk"]["authorities"];
        assert_eq!(authorities.as_array().unwrap().len(), 1, "{command}");
        assert_eq!(authorities[0]["path"], "etc/landfall/ca-bundle.pem");
        assert_eq!(authorities[0]["certificates"], 2);
    }
    let text = |options: &[&str]| {
        fixture.build("initramfs", "some.img", &[options, &["--force"]].concat());
        let output = fixture.run(&["inspect", "some.img"]).stdout;
        String::from_utf8(output).unwrap()
    };
    let none = text(&["--ca-bundle", "none"]);
    assert!(none.contains("trusts   no https server"), "{none}");
    let own = text(&["--ca-file", "own.pem"]);
    assert!(
        own.contains("trusts   1 authority in etc/landfall/ca.pem, sha256 "),
        "{own}"
    );
    let both = text(&["--ca-file", "own.pem", "--ca-bundle", "public.pem"]);
    assert!(both.contains("trusts   3 authorities"), "{both}");
    // By default the ramdisk trusts the authorities of the build machine, if Debian's
    // package ca-certificates is installed.
    if Path::new("/etc/ssl/certs/ca-certificates.crt").exists() {
        let usual = text(&[]);
        assert!(
            usual.contains("authorities in etc/landfall/ca-bundle.pem"),
            "{usual}"
        );
    }
    let error = fixture.fails(&[
        "initramfs",
        "--agent",
        "agent",
        "--kernel-dir",
        "kernel",
        "--ca-bundle",
        "nobody",
        "-o",
        "x",
    ]);
    assert!(error.contains("nobody"), "{error}");
}
