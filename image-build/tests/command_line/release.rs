//! Tests the files of `landfall-image release`: names, layout, reproducibility. `make
//! test-release` runs the programs and containers in these files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::process::Command;

use landfall_initramfs::digest_writer::sha256;
use serde_json::Value;

use crate::fixture::Fixture;
use crate::products::same;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const PACKAGE: &str = concat!("landfall-image_", env!("CARGO_PKG_VERSION"), "_amd64.deb");
const NAMES: [&str; 4] = ["--name", "debian-master", "--name", "centos9-stable-2026.1"];

/// The inputs of a release besides those of a ramdisk.
pub fn fixture() -> Fixture {
    let fixture = Fixture::new();
    let agent = fs::read(fixture.path("agent")).unwrap();
    let live = [&agent[..], b"org.freedesktop.NetworkManager"].concat();
    fixture.put("live-agent", &live);
    // The smallest file that counts as a static program with the controller.
    fixture.put("builder", &[&agent[..64], b"WATCH_NAMESPACE"].concat());
    fixture.put("package/DEBIAN/control", b"Package: some-tool\nVersion: 1:2+b1\nArchitecture: amd64\nMaintainer: a <a@b>\nDescription: x\n");
    fixture.put("package/usr/bin/some-tool", b"tool");
    fs::create_dir(fixture.path("debs")).unwrap();
    let built = Command::new("dpkg-deb")
        .args(["--root-owner-group", "--build", "package", "debs/tool.deb"])
        .current_dir(fixture.path("."))
        .output()
        .unwrap();
    assert!(built.status.success());
    fixture
}

pub fn release(fixture: &Fixture, output: &str, more: &[&str]) -> Value {
    let all = [
        "--builder",
        "builder",
        "--live-agent",
        "live-agent",
        "--builder-packages",
        "debs",
    ];
    fixture.build("release", output, &[&all, &NAMES[..], more].concat())
}

/// Every file below a directory, by its path.
fn files(fixture: &Fixture, directory: &str) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![String::new()];
    while let Some(prefix) = waiting.pop() {
        for name in fixture.list(&format!("{directory}/{prefix}")) {
            let path = format!("{prefix}{name}");
            let full = fixture.path(directory).join(&path);
            if full.is_dir() {
                waiting.push(format!("{path}/"));
            } else {
                found.insert(path, fs::read(full).unwrap());
            }
        }
    }
    found
}

#[test]
fn names_and_checksums_are_those_of_upstream() {
    let fixture = fixture();
    let summary = release(&fixture, "out", &[]);
    let found = files(&fixture, "out");
    let mut expected: Vec<String> = [
        "SHA256SUMS",
        "esp.img",
        "kubernetes.tar.gz",
        "landfall-agent",
        "landfall-image",
        PACKAGE,
        "landfall.iso",
        "oci/landfall-agent.tar",
        "oci/landfall-downloader.tar",
        "oci/landfall-image-service.tar",
        "oci/landfall-image.tar",
        "oci/landfall-ramdisk.tar",
        "sbom.cdx.json",
    ]
    .map(str::to_owned)
    .into();
    for name in ["ipa-debian-master", "ipa-centos9-stable-2026.1"] {
        for file in [
            format!("dib/{name}.tar.gz"),
            format!("dib/files/{name}.kernel"),
            format!("dib/files/{name}.initramfs"),
        ] {
            expected.push(format!("{file}.sha256"));
            expected.push(file);
        }
    }
    expected.sort();
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(names, expected);
    let listed = summary["files"].as_array().unwrap();
    assert_eq!(listed.len(), expected.len());
    assert_eq!(summary["left_out"], serde_json::json!([]));

    for (directory, list) in [
        ("out", "SHA256SUMS"),
        ("out/dib", "ipa-debian-master.tar.gz.sha256"),
        ("out/dib/files", "ipa-debian-master.kernel.sha256"),
        (
            "out/dib/files",
            "ipa-centos9-stable-2026.1.initramfs.sha256",
        ),
    ] {
        let checked = Command::new("sha256sum")
            .args(["--check", "--strict", "--quiet", list])
            .current_dir(fixture.path(directory))
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "{list}: {stderr}");
    }
    // Find the digest as Bifrost's role does (tasks/download_ipa_image.yml).
    let awk = Command::new("awk")
        .arg("/ipa-debian-master.kernel|^[a-z0-9]+$/{print $1}")
        .arg("ipa-debian-master.kernel.sha256")
        .current_dir(fixture.path("out/dib/files"))
        .output()
        .unwrap();
    let kernel = sha256(&found["dib/files/ipa-debian-master.kernel"]);
    assert_eq!(String::from_utf8_lossy(&awk.stdout).trim(), kernel);
    let mode = |name: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        let data = fs::metadata(fixture.path("out").join(name)).unwrap();
        data.permissions().mode() & 0o777
    };
    assert_eq!(
        (mode("landfall-agent"), mode("landfall.iso")),
        (0o755, 0o644)
    );
}

#[test]
fn the_archive_is_flat_and_holds_the_same_files() {
    let fixture = fixture();
    release(&fixture, "out", &[]);
    fs::create_dir(fixture.path("unpacked")).unwrap();
    // As metal3's downloader unpacks it.
    let unpacked = Command::new("tar")
        .args(["-xaf", "../out/dib/ipa-debian-master.tar.gz"])
        .current_dir(fixture.path("unpacked"))
        .status()
        .unwrap();
    assert!(unpacked.success());
    assert_eq!(
        fixture.list("unpacked"),
        ["ipa-debian-master.initramfs", "ipa-debian-master.kernel"]
    );
    for name in fixture.list("unpacked") {
        let file = fixture.path("out/dib/files").join(&name);
        assert!(same(&fixture.path("unpacked").join(&name), &file), "{name}");
    }
    let kernel = fixture.path("out/dib/files/ipa-debian-master.kernel");
    assert!(same(&kernel, &fixture.path("kernel/boot/vmlinuz-6.1-test")));
    let ramdisk = "out/dib/files/ipa-debian-master.initramfs";
    assert_eq!(
        fixture.inspect(ramdisk)["ramdisk"]["faults"],
        serde_json::json!([])
    );
    // A conductor unpacks a ramdisk that begins as zstd, and then serves the large
    // unpacked file. So the ramdisk begins with an uncompressed archive.
    let ramdisk = fs::read(fixture.path(ramdisk)).unwrap();
    assert!(ramdisk.starts_with(b"070701"));
}

#[test]
fn two_runs_give_the_same_bytes_and_the_iso_is_that_of_iso() {
    let fixture = fixture();
    release(&fixture, "a", &["--karg", "a=b"]);
    // Wait longer than the resolution of the timestamps: two seconds in FAT.
    std::thread::sleep(std::time::Duration::from_millis(2100));
    release(&fixture, "b", &["--karg", "a=b"]);
    let (a, b) = (files(&fixture, "a"), files(&fixture, "b"));
    for (name, bytes) in &a {
        assert!(b[name] == *bytes, "{name} differs");
    }
    fixture.build("iso", "plain.iso", &["--karg", "a=b"]);
    assert!(same(
        &fixture.path("plain.iso"),
        &fixture.path("a/landfall.iso")
    ));
    assert_eq!(
        fixture.inspect("a/landfall.iso")["faults"],
        serde_json::json!([])
    );
}

#[test]
fn source_date_epoch_is_the_time_of_everything() {
    let fixture = fixture();
    let made = fixture
        .command(&[
            "release",
            "--agent",
            "agent",
            "--kernel-dir",
            "kernel",
            "--builder",
            "builder",
            "-o",
            "out",
        ])
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{stderr}");
    assert!(
        stderr.contains("oci/landfall-agent.tar is left out"),
        "{stderr}"
    );
    assert!(
        stderr.contains("oci/landfall-image.tar is left out"),
        "{stderr}"
    );
    let bill: Value =
        serde_json::from_slice(&fs::read(fixture.path("out/sbom.cdx.json")).unwrap()).unwrap();
    assert_eq!(bill["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
    let file = File::open(fixture.path("out/oci/landfall-ramdisk.tar")).unwrap();
    for entry in tar::Archive::new(file).entries().unwrap() {
        assert_eq!(entry.unwrap().header().mtime().unwrap(), 1_700_000_000);
    }
    let archive = format!("out/dib/ipa-landfall-{VERSION}.tar.gz");
    assert!(fixture.path(&archive).exists());
}

/// The JSON files of an OCI archive, by path.
fn oci(fixture: &Fixture, name: &str) -> BTreeMap<String, Value> {
    let file = File::open(fixture.path("out/oci").join(name)).unwrap();
    let mut archive = tar::Archive::new(file);
    let mut found = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().display().to_string();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        if let Ok(value) = serde_json::from_slice(&bytes) {
            found.insert(path, value);
        }
    }
    found
}

fn blob<'a>(files: &'a BTreeMap<String, Value>, descriptor: &Value) -> &'a Value {
    let digest = descriptor["digest"].as_str().unwrap();
    &files[&format!("blobs/{}", digest.replace(':', "/"))]
}

#[test]
fn containers_start_as_their_platforms_start_them() {
    let fixture = fixture();
    let summary = release(&fixture, "out", &[]);
    for (file, entrypoint) in [
        (
            "landfall-downloader.tar",
            &["/usr/local/bin/get-resource.sh"][..],
        ),
        (
            "landfall-agent.tar",
            &["/usr/local/bin/landfall-agent", "run"],
        ),
        ("landfall-image.tar", &["/usr/bin/landfall-image"]),
        ("landfall-image-service.tar", &["/usr/bin/landfall-image"]),
    ] {
        let files = oci(&fixture, file);
        let descriptor = &files["index.json"]["manifests"][0];
        let image = blob(&files, descriptor);
        let configuration = &blob(&files, &image["config"])["config"];
        assert_eq!(configuration["Entrypoint"], serde_json::json!(entrypoint));
        // The image names no user: metal3's scripts run the downloader as root, and its
        // manifests name a uid.
        assert!(configuration.get("User").is_none(), "{file}");
        let named = &descriptor["annotations"]["org.opencontainers.image.ref.name"];
        let name = file.strip_suffix(".tar").unwrap();
        let name = format!("localhost/{name}:{VERSION}");
        assert_eq!(*named, name);
        let made = summary["files"].as_array().unwrap().iter();
        let mut made = made.filter(|made| made["name"] == format!("oci/{file}"));
        let listed = &made.next().unwrap()["images"][0];
        assert_eq!(listed["name"], name);
        assert_eq!(listed["digest"], descriptor["digest"]);
    }
    let artefacts = oci(&fixture, "landfall-ramdisk.tar");
    for (at, name) in ["kernel", "ramdisk"].into_iter().enumerate() {
        let manifest = blob(&artefacts, &artefacts["index.json"]["manifests"][at]);
        assert_eq!(manifest["layers"].as_array().unwrap().len(), 1, "{name}");
        let kind = format!("application/vnd.landfall.{name}");
        assert_eq!(manifest["artifactType"], kind);
    }
}

#[test]
fn the_package_has_manual_pages_and_completions() {
    let fixture = fixture();
    release(&fixture, "out", &[]);
    let unpacked = Command::new("dpkg-deb")
        .args(["-R", &format!("out/{PACKAGE}"), "deb"])
        .current_dir(fixture.path("."))
        .output()
        .unwrap();
    assert!(unpacked.status.success());
    for path in [
        "usr/bin/landfall-image",
        "usr/lib/landfall/landfall-agent",
        "usr/lib/landfall/landfall-agent-live",
        "usr/lib/systemd/system/landfall-image.service",
        "usr/share/man/man1/landfall-image.1.gz",
        "usr/share/man/man1/landfall-image-iso.1.gz",
        "usr/share/man/man1/landfall-image-release.1.gz",
        "usr/share/bash-completion/completions/landfall-image",
        "usr/share/zsh/vendor-completions/_landfall-image",
        "usr/share/fish/vendor_completions.d/landfall-image.fish",
        "usr/share/doc/landfall-image/copyright",
        "usr/share/doc/landfall-image/changelog.gz",
    ] {
        assert!(fixture.path("deb").join(path).is_file(), "{path}");
    }
    // The package has no maintainer scripts, so its installation starts no service.
    assert_eq!(fixture.list("deb/DEBIAN"), ["control", "md5sums"]);
    let completion = fixture.path("deb/usr/share/bash-completion/completions/landfall-image");
    let checked = Command::new("bash").arg("-n").arg(completion).output();
    assert!(checked.unwrap().status.success());
    let copyright = fixture.path("deb/usr/share/doc/landfall-image/copyright");
    let copyright = fs::read_to_string(copyright).unwrap();
    assert!(copyright.contains("\n serde_json "), "{copyright}");
}

/// The package, the archive of the release and the sources have the same manifests.
#[test]
fn the_manifests_are_those_of_the_sources() {
    let fixture = fixture();
    release(&fixture, "out", &[]);
    let unpacked = Command::new("sh")
        .args([
            "-ec",
            "dpkg-deb -x out/landfall-image_*.deb deb; tar -xf out/kubernetes.tar.gz",
        ])
        .current_dir(fixture.path("."))
        .status()
        .unwrap();
    assert!(unpacked.success());
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/controller/manifests");
    let site = fs::read_to_string(format!("{sources}/site/kustomization.yaml")).unwrap();
    assert!(site.contains(concat!("newTag: ", env!("CARGO_PKG_VERSION"), "\n")));
    for made in ["kubernetes", "deb/usr/share/landfall/kubernetes"] {
        let compared = Command::new("diff")
            .args(["-r", sources])
            .arg(fixture.path(made))
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&compared.stdout);
        assert!(compared.status.success(), "{stdout}");
    }
}

#[test]
fn faults_are_found_before_the_work_and_leave_nothing() {
    let fixture = fixture();
    fixture.put("taken/file", b"theirs");
    let common = ["release", "--agent", "agent", "--kernel-dir", "kernel"];
    for (output, more, expected) in [
        (
            "taken",
            &["--builder", "builder"][..],
            "taken: expected no directory or an empty one, found files -- name another directory, or replace the files with --force",
        ),
        (
            "out",
            &["--builder", "/bin/sh"],
            "/bin/sh: expected landfall-image, a static x86-64 program, found a dynamically linked one",
        ),
        (
            "out",
            &["--builder", "builder", "--live-agent", "agent"],
            "agent: expected an agent with the feature live-system, found a file without it",
        ),
        (
            "out",
            &["--builder", "builder", "--name", "a-b", "--name", "a-b"],
            "--name a-b: expected each name once, found it twice",
        ),
        (
            "out",
            &["--builder", "builder", "--builder-packages", "kernel"],
            "kernel: expected at least one Debian package (.deb), found none",
        ),
    ] {
        let error = fixture.fails(&[&common[..], more, &["-o", output]].concat());
        let expected = format!("landfall-image: FAILED {expected}");
        assert!(error.starts_with(&expected), "{error}");
    }
    assert!(!fixture.path("out").exists());
    assert_eq!(fixture.list("taken"), ["file"]);
    let forced = [
        &common[..],
        &["--builder", "builder", "--force", "-o", "taken"],
    ]
    .concat();
    assert!(fixture.run(&forced).status.success());
    assert_eq!(fs::read(fixture.path("taken/file")).unwrap(), b"theirs");
}

/// The builder works as the downloader if it is started under the name that it has in the
/// downloader image.
#[test]
fn the_program_of_the_downloader_image() {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = Fixture::new();
    fixture.put("share/landfall/ironic-python-agent.kernel", b"k");
    fixture.put("share/landfall/ironic-python-agent.initramfs", b"r");
    fs::create_dir(fixture.path("bin")).unwrap();
    let program = fixture.path("bin/get-resource.sh");
    if fs::hard_link(env!("CARGO_BIN_EXE_landfall-image"), &program).is_err() {
        fs::copy(env!("CARGO_BIN_EXE_landfall-image"), &program).unwrap();
    }
    let run = |variables: &[(&str, &str)]| {
        let mut command = Command::new(&program);
        // metal3's scripts repeat the path as an argument.
        command.arg("/usr/local/bin/get-resource.sh").env_clear();
        command.env("SHARED_DIR", fixture.path("shared"));
        command.envs(variables.iter().copied()).output().unwrap()
    };
    let first = run(&[("IPA_BASEURI", "http://192.0.2.1"), ("IPA_BRANCH", "x")]);
    let stderr = String::from_utf8_lossy(&first.stderr).into_owned();
    assert!(first.status.success(), "{stderr}");
    assert!(
        stderr.starts_with("IPA_BASEURI, IPA_BRANCH: ignored, "),
        "{stderr}"
    );
    let images = fixture.path("shared/html/images");
    assert_eq!(
        fs::read(images.join("ironic-python-agent.kernel")).unwrap(),
        b"k"
    );
    let wrong = run(&[("IPA_ARCH", "aarch64")]);
    assert_eq!(wrong.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(
        stderr.starts_with("landfall-image: FAILED IPA_ARCH: expected x86_64 or amd64, "),
        "{stderr}"
    );
    assert!(run(&[]).status.success());
    // A volume without write permission is no error if nothing must be written.
    fs::set_permissions(&images, fs::Permissions::from_mode(0o555)).unwrap();
    assert!(run(&[]).status.success());
    fs::set_permissions(&images, fs::Permissions::from_mode(0o755)).unwrap();
}
