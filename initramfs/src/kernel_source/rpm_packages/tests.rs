use tempfile::TempDir;

use super::*;
use crate::kernel_image::tests::bz_image;
use crate::rpm::tests::{EMPTY, Rpm};

const CORE: Rpm<'_> = Rpm {
    requires: &["kernel-modules-core-uname-r", "(linux-firmware if x)"],
    provides: &["kernel-core", "kernel-uname-r"],
    ..EMPTY
};

const MODULES: Rpm<'_> = Rpm {
    name: "kernel-modules-core",
    requires: &["kernel-uname-r"],
    provides: &["kernel-modules-core", "kernel-modules-core-uname-r"],
    files: &[
        ("./usr/lib/modules/6.1/kernel/a.ko.xz", b"a"),
        ("./usr/lib/modules/6.1/../../b.ko", b"b"),
        ("./usr/lib/modules/6.1/kernel/\u{1b}[2J.ko", b"b"),
        ("./usr/share/licenses/c", b"c"),
    ],
};

/// Writes the packages into a temporary directory and resolves them. Returns the kernel
/// and the directory. In an error, the paths do not contain the directory.
fn resolve_all(packages: &[Vec<u8>]) -> Result<(Kernel, TempDir), String> {
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..packages.len())
        .map(|number| directory.path().join(format!("{number}.rpm")))
        .collect();
    for (path, bytes) in paths.iter().zip(packages) {
        fs::write(path, bytes).unwrap();
    }
    match resolve(&paths, None) {
        Ok(kernel) => Ok((kernel, directory)),
        Err(error) => {
            let at = format!("{}/", directory.path().display());
            Err(error.to_string().replace(&at, ""))
        }
    }
}

fn core() -> Vec<u8> {
    let image = bz_image("6.1");
    let files = [
        ("./lib/modules/6.1/vmlinuz", image.as_slice()),
        ("./lib/modules/6.1/config", b"CONFIG_MODULES=y\n"),
        ("./lib/modules/6.1/modules.builtin", b""),
    ];
    Rpm {
        files: &files,
        ..CORE
    }
    .bytes()
}

#[test]
fn a_kernel_in_several_packages() {
    let (kernel, _packages) = resolve_all(&[core(), MODULES.bytes()]).unwrap();
    assert_eq!(kernel.release, "6.1");
    assert!(kernel.image.ends_with("lib/modules/6.1/vmlinuz"));
    assert!(
        kernel
            .config
            .is_some_and(|path| path.ends_with("6.1/config"))
    );
    let module = kernel.modules.join("kernel/a.ko.xz");
    assert_eq!(fs::read(&module).unwrap(), b"a");
    let drivers = fs::read_dir(kernel.modules.join("kernel")).unwrap();
    assert_eq!(drivers.count(), 1);
    let top = kernel.modules.ancestors().nth(3).unwrap();
    assert!(!top.join("usr").exists() && !top.join("b.ko").exists());
}

#[test]
fn missing_or_invalid_packages_are_reported() {
    for (packages, expected) in [
        (
            vec![core()],
            "0.rpm: kernel-core needs `kernel-modules-core-uname-r`, which none of the packages provides -- give that package with --kernel-rpm, too",
        ),
        (
            vec![core(), MODULES.bytes(), MODULES.bytes()],
            "2.rpm: expected files that no other package has, found lib/modules/6.1/kernel/a.ko.xz again",
        ),
        (
            vec![EMPTY.bytes()],
            "0.rpm: expected a module tree (lib/modules/VERSION), found none",
        ),
        (vec![b"text".to_vec()], "cannot read RPM package 0.rpm"),
    ] {
        assert_eq!(resolve_all(&packages).unwrap_err(), expected);
    }
}

/// An archive in which all names are hard links to one file. Each name is stored with the
/// content next to it in `names`.
fn names_of_one_file(names: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = crate::newc::Writer::new(Vec::new());
    let header = crate::newc::Header {
        mode: 0o100_644,
        ..Default::default()
    };
    let mut starts = Vec::new();
    let mut start = 0;
    for (name, bytes) in names {
        archive
            .member(name, header, bytes.len() as u64, *bytes)
            .unwrap();
        starts.push(start);
        start += crate::newc::member_len(name.len(), bytes.len());
    }
    let (mut archive, _) = archive.finish().unwrap();
    let links = format!("{:08x}", names.len());
    for start in starts {
        archive[start + 6..start + 14].copy_from_slice(b"00000007");
        archive[start + 38..start + 46].copy_from_slice(links.as_bytes());
    }
    archive
}

const A: &str = "./lib/modules/6.1/kernel/a.ko";
const B: &str = "./lib/modules/6.1/kernel/b.ko";
/// The builder does not need this file.
const LICENCE: &str = "./usr/share/licenses/a";

/// In cpio, the content of a file with several names is at the last name.
#[test]
fn a_file_with_several_names() {
    for (names, expected) in [
        (&[(A, &b""[..]), (B, b"module")][..], &b"module"[..]),
        (&[(A, b""), (B, b""), (LICENCE, b"module")], b"module"),
        (&[(A, b""), (LICENCE, b""), (B, b"module")], b"module"),
        // Some programs write the content at the first name.
        (&[(A, b"module"), (B, b"")], b"module"),
        (&[(A, b""), (B, b"")], b""),
    ] {
        let modules = MODULES.around(&names_of_one_file(names));
        let (kernel, _packages) = resolve_all(&[core(), modules]).unwrap();
        for name in ["a.ko", "b.ko"] {
            let module = kernel.modules.join("kernel").join(name);
            assert_eq!(fs::read(module).unwrap(), expected, "{names:?}");
        }
    }
}

#[test]
fn a_file_whose_content_was_passed_over_is_an_error() {
    let archive = names_of_one_file(&[(LICENCE, b"module"), (A, b"")]);
    assert_eq!(
        resolve_all(&[core(), MODULES.around(&archive)]).unwrap_err(),
        "1.rpm: expected the content of lib/modules/6.1/kernel/a.ko at the last name of the file, found it at an earlier one"
    );
}

/// A read from the pipe would wait forever, because no process may write to it.
#[test]
fn a_pipe_is_no_package() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("kernel-core.rpm");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let path = pipe.clone();
    std::thread::spawn(move || sender.send(resolve(&[path], None).unwrap_err().to_string()));
    let error = receiver.recv_timeout(std::time::Duration::from_secs(10));
    assert_eq!(
        error.as_deref(),
        Ok(format!(
            "{}: expected a kernel package (.rpm), found no regular file",
            pipe.display()
        )
        .as_str())
    );
}
