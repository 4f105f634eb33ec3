use std::fs::File;
use std::process::Command;

use super::*;
use crate::debian_archive::{self, Control};
use crate::tar_tree::Naming;

/// Writes a package with these files and returns it.
fn package(work: &Path, name: &str, tree: &TarTree) -> DebianPackage {
    let control = Control {
        package: name,
        version: "1",
        architecture: "amd64",
        section: "admin",
        maintainer: "a <a@b>",
        homepage: None,
        depends: "",
        recommends: "",
        synopsis: "x",
        description: "y",
    };
    let file = work.join(format!("{name}.deb"));
    debian_archive::write(File::create(&file).unwrap(), &control, tree, work, 0).unwrap();
    DebianPackage::read(&file).unwrap()
}

fn tree(files: &[(&str, &str)]) -> TarTree {
    let mut tree = TarTree::default();
    for (path, text) in files {
        tree.text(path, *text).unwrap();
    }
    tree
}

#[test]
fn packages_become_a_merged_root_that_dpkg_knows() {
    let work = tempfile::tempdir().unwrap();
    let mut old = tree(&[
        ("lib/x86_64-linux-gnu/libc.so.6", "c"),
        ("usr/share/doc/libc6/copyright", "free"),
        ("usr/share/doc/libc6/changelog.gz", "long"),
        ("usr/share/man/man1/x.1.gz", "man"),
    ]);
    old.link("lib64/ld.so", "/lib/x86_64-linux-gnu/ld.so")
        .unwrap();
    old.file("bin/su", Content::Bytes(b"su".to_vec()), 0o4755)
        .unwrap();
    let mut base = tree(&[("etc/os-release", "Debian")]);
    base.link("bin", "usr/bin").unwrap();
    let packages = [
        package(work.path(), "libc6", &old),
        package(work.path(), "base-files", &base),
    ];
    let root = build(&packages, &work.path().join("unpacked")).unwrap();
    let link = |target: &str| Node::Link {
        target: target.to_owned(),
    };
    assert_eq!(root.get("bin"), Some(&link("usr/bin")));
    assert_eq!(root.get("lib64"), Some(&link("usr/lib64")));
    let loader = link("/lib/x86_64-linux-gnu/ld.so");
    assert_eq!(root.get("usr/lib64/ld.so"), Some(&loader));
    assert!(root.get("usr/lib/x86_64-linux-gnu/libc.so.6").is_some());
    assert!(root.get("usr/share/doc/libc6/copyright").is_some());
    for absent in [
        "usr/share/doc/libc6/changelog.gz",
        "usr/share/man",
        "usr/share/man/man1/x.1.gz",
        BUNDLE,
    ] {
        assert!(root.get(absent).is_none(), "{absent}");
    }
    let Some(Node::File { mode, .. }) = root.get("usr/bin/su") else {
        panic!("no su")
    };
    assert_eq!(*mode, 0o755);
    assert_eq!(root.get("tmp"), Some(&Node::Directory { mode: 0o1777 }));

    // The real dpkg finds the package of a file in it.
    let archive = work.path().join("root.tar");
    root.write(File::create(&archive).unwrap(), Naming::Plain, 0)
        .unwrap();
    let place = work.path().join("root");
    fs::create_dir(&place).unwrap();
    let tar = Command::new("tar")
        .arg("-xf")
        .arg(&archive)
        .arg("-C")
        .arg(&place)
        .status();
    assert!(tar.unwrap().success());
    let owner = Command::new("dpkg-query")
        .arg(format!(
            "--admindir={}",
            place.join("var/lib/dpkg").display()
        ))
        .args(["-S", "/lib/x86_64-linux-gnu/libc.so.6"])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&owner.stdout),
        "libc6: /lib/x86_64-linux-gnu/libc.so.6\n"
    );
}

#[test]
fn authorities_become_a_bundle() {
    let work = tempfile::tempdir().unwrap();
    let files = tree(&[
        ("usr/share/ca-certificates/mozilla/B.crt", "b"),
        ("usr/share/ca-certificates/mozilla/A.crt", "a\n"),
        ("usr/share/ca-certificates/mozilla/README", "no"),
    ]);
    let packages = [package(work.path(), "ca-certificates", &files)];
    let root = build(&packages, &work.path().join("unpacked")).unwrap();
    let expected = Node::File {
        content: Content::Bytes(b"a\nb\n".to_vec()),
        mode: 0o644,
    };
    assert_eq!(root.get(BUNDLE), Some(&expected));
}

#[test]
fn two_packages_with_one_file_are_an_error() {
    let work = tempfile::tempdir().unwrap();
    let packages = [
        package(work.path(), "a", &tree(&[("bin/x", "1")])),
        package(work.path(), "b", &tree(&[("usr/bin/x", "2")])),
    ];
    let error = build(&packages, &work.path().join("unpacked")).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(
        (error.to_string(), source),
        (
            "package b".to_owned(),
            "path `usr/bin/x` is there twice, with different content".to_owned()
        )
    );
}
