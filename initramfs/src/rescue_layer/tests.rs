use std::fs;

use super::*;
use crate::elf_section::tests::elf_with_all;

/// A program or library that needs these libraries.
fn elf(loader: Option<&str>, libraries: &[&str]) -> Vec<u8> {
    let mut names = vec![0];
    let mut dynamic = Vec::new();
    for library in libraries {
        dynamic.extend_from_slice(&NEEDED.to_le_bytes());
        dynamic.extend_from_slice(&(names.len() as u64).to_le_bytes());
        names.extend_from_slice(library.as_bytes());
        names.push(0);
    }
    // DT_NULL ends the table.
    dynamic.extend_from_slice(&[0; 16]);
    let loader = loader.map(|path| format!("{path}\0"));
    let mut sections = vec![(".dynamic", dynamic.as_slice()), (".dynstr", &names)];
    if let Some(loader) = &loader {
        sections.push((".interp", loader.as_bytes()));
    }
    elf_with_all(&sections)
}

fn machine(files: &[(&str, Vec<u8>)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, bytes) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    root
}

fn programs() -> Vec<(&'static str, Vec<u8>)> {
    let loader = Some("/lib64/ld.so.2");
    vec![
        ("bin/busybox", elf(None, &[])),
        ("usr/bin/dropbearkey", elf(loader, &["liba.so.1"])),
        (
            "usr/sbin/dropbear",
            elf(loader, &["liba.so.1", "libb.so.1"]),
        ),
        ("lib64/ld.so.2", elf(None, &[])),
    ]
}

#[test]
fn libraries_of_libraries_go_in_and_each_once() {
    let mut files = programs();
    // The two libraries need each other, which must not cause an endless loop.
    files.push(("usr/lib/liba.so.1", elf(None, &["libb.so.1"])));
    let libraries = "lib/x86_64-linux-gnu/libb.so.1";
    files.push((libraries, elf(None, &["liba.so.1"])));
    let root = machine(&files);
    let layer = RescueLayer::below(root.path()).unwrap();
    let paths: Vec<&str> = layer.files.keys().map(String::as_str).collect();
    assert_eq!(
        paths,
        [
            "bin/busybox",
            "lib/x86_64-linux-gnu/libb.so.1",
            "lib64/ld.so.2",
            "usr/bin/dropbearkey",
            "usr/lib/liba.so.1",
            "usr/sbin/dropbear",
        ]
    );
    for (path, file) in &layer.files {
        assert_eq!(*file, root.path().join(path));
    }
}

#[test]
fn faults_name_the_missing_file_and_the_package() {
    let all = programs();
    let without = |name: &str| {
        let mut files = all.clone();
        files.retain(|(path, _)| *path != name);
        let root = machine(&files);
        RescueLayer::below(root.path()).unwrap_err().to_string()
    };
    for (name, package) in PROGRAMS {
        let fault = without(name);
        assert!(fault.contains(name) && fault.ends_with(package), "{fault}");
    }
    let fault = without("none");
    assert!(
        fault.contains("needs the library liba.so.1") || fault.contains("libb.so.1"),
        "{fault}"
    );
}

#[test]
fn a_script_is_no_program_of_the_layer() {
    let files = PROGRAMS.map(|(path, _)| match path {
        "bin/busybox" => (path, b"#!/bin/sh\n".repeat(20)),
        _ => (path, elf(None, &[])),
    });
    let fault = RescueLayer::below(machine(&files).path()).unwrap_err();
    assert!(matches!(fault, RescueLayerError::NotElf { .. }), "{fault}");
}
