use std::fs;
use std::process::Command;

use tempfile::TempDir;

use super::*;
use crate::kernel_image::tests::bz_image;

/// Makes a directory. For each word `PATH=RELEASE` of `files` it contains a kernel image
/// of the release at the path, or a directory if the path ends with a slash.
fn layout(files: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in files.split_whitespace() {
        let (path, release) = file.split_once('=').unwrap();
        let full = dir.path().join(path);
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        if path.ends_with('/') {
            fs::create_dir_all(full).unwrap();
        } else {
            fs::write(full, bz_image(release)).unwrap();
        }
    }
    dir
}

fn resolve(
    dir: &TempDir,
    release: Option<&str>,
) -> Result<(String, String, Option<String>), String> {
    let below = |path: &Path| path.strip_prefix(dir.path()).unwrap().display().to_string();
    let source = KernelSource::Directory {
        path: dir.path().to_owned(),
        release: release.map(str::to_owned),
    };
    match source.resolve() {
        Ok(kernel) => {
            assert!(kernel.modules.is_dir());
            Ok((
                kernel.release,
                below(&kernel.image),
                kernel.config.as_deref().map(below),
            ))
        }
        Err(error) => Err(error
            .to_string()
            .replace(&dir.path().display().to_string(), "DIR")),
    }
}

#[test]
fn every_layout_is_understood() {
    for (files, release, image, config) in [
        (
            "boot/vmlinuz-6.1=6.1 boot/config-6.1= lib/modules/6.1/kernel/=",
            None,
            "boot/vmlinuz-6.1",
            Some("boot/config-6.1"),
        ),
        (
            "boot/vmlinuz-6.1=6.1 usr/lib/modules/6.1/modules.builtin=",
            None,
            "boot/vmlinuz-6.1",
            None,
        ),
        (
            "vmlinuz=6.1 lib/modules/6.1/kernel/=",
            None,
            "vmlinuz",
            None,
        ),
        (
            "vmlinuz-6.1=6.1 vmlinuz=5.0 lib/modules/6.1/kernel/=",
            None,
            "vmlinuz-6.1",
            None,
        ),
        (
            "usr/lib/modules/6.1/vmlinuz=6.1 usr/lib/modules/6.1/config= \
             usr/lib/modules/6.1/kernel/=",
            None,
            "usr/lib/modules/6.1/vmlinuz",
            Some("usr/lib/modules/6.1/config"),
        ),
        (
            "boot/vmlinuz-6.1=6.1 lib/modules/6.1/kernel/= lib/modules/6.12/kernel/=",
            Some("6.1"),
            "boot/vmlinuz-6.1",
            None,
        ),
    ] {
        let dir = layout(files);
        let expected = ("6.1".into(), image.into(), config.map(str::to_owned));
        assert_eq!(resolve(&dir, release), Ok(expected), "{files}");
    }
}

#[test]
fn a_module_directory_with_its_image_inside() {
    let dir = layout("6.1/vmlinuz=6.1 6.1/kernel/=");
    let kernel = KernelSource::Directory {
        path: dir.path().join("6.1"),
        release: None,
    }
    .resolve()
    .unwrap();
    assert_eq!(kernel.release, "6.1");
}

#[test]
fn missing_kernel_parts_are_reported() {
    for (files, release, expected) in [
        (
            "",
            None,
            "DIR: expected a module tree (lib/modules/VERSION), found none",
        ),
        (
            "lib/modules/6.1/kernel/= lib/modules/6.12/kernel/=",
            None,
            "DIR: expected one kernel, or --kernel-release to choose one, found 6.1, 6.12",
        ),
        (
            "lib/modules/6.1/kernel/=",
            Some("6.2"),
            "DIR: expected modules of kernel 6.2 (lib/modules/6.2), found 6.1",
        ),
        (
            "lib/modules/6.1/kernel/=",
            None,
            "DIR: expected a kernel image (boot/vmlinuz-6.1, vmlinuz-6.1 or vmlinuz), found none",
        ),
        (
            "vmlinuz=5.0 lib/modules/6.1/kernel/=",
            None,
            "kernel image DIR/vmlinuz is release 5.0, expected 6.1 like the modules in DIR/lib/modules/6.1",
        ),
    ] {
        let dir = layout(files);
        assert_eq!(resolve(&dir, release).unwrap_err(), expected);
    }
}

/// A package with a kernel of this release.
fn deb(dir: &TempDir, release: &str) -> PathBuf {
    let tree = dir.path().join(release);
    let control = tree.join("DEBIAN/control");
    fs::create_dir_all(control.parent().unwrap()).unwrap();
    fs::write(control, "Package: k\nVersion: 1\nArchitecture: all\nMaintainer: n <n@example.org>\nDescription: k\n").unwrap();
    fs::create_dir_all(tree.join("boot")).unwrap();
    let image = tree.join(format!("boot/vmlinuz-{release}"));
    fs::write(image, bz_image(release)).unwrap();
    fs::create_dir_all(tree.join(format!("lib/modules/{release}/kernel"))).unwrap();
    let deb = dir.path().join(format!("{release}.deb"));
    let built = Command::new("dpkg-deb")
        .arg("-b")
        .arg(&tree)
        .arg(&deb)
        .output()
        .unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    deb
}

#[test]
fn a_deb_is_unpacked_and_removed_again() {
    let dir = tempfile::tempdir().unwrap();
    let debs = vec![deb(&dir, "6.1")];
    let kernel = KernelSource::Debs(debs).resolve().unwrap();
    assert_eq!(kernel.release, "6.1");
    let image = kernel.image.clone();
    assert!(image.is_file());
    drop(kernel);
    assert!(!image.exists());
}

/// A pattern such as `linux-image-*.deb` may match more files than the user expects.
#[test]
fn the_debs_of_two_kernels_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let debs = vec![deb(&dir, "6.1"), deb(&dir, "6.12")];
    let error = KernelSource::Debs(debs).resolve().unwrap_err().to_string();
    let at = dir.path().display();
    assert_eq!(
        error,
        format!(
            "{at}/6.1.deb, {at}/6.12.deb: expected the packages of one kernel, found 6.1, 6.12"
        )
    );
}

#[test]
fn bad_debs() {
    let dir = layout("bad.deb=none");
    let error = KernelSource::Debs(vec![dir.path().join("bad.deb")])
        .resolve()
        .unwrap_err();
    assert!(matches!(error, KernelSourceError::BadDeb { .. }), "{error}");
    let error = KernelSource::Debs(vec![dir.path().join("gone.deb")])
        .resolve()
        .unwrap_err();
    assert!(matches!(error, KernelSourceError::Path(_)), "{error}");
}
