//! Tests metal3's own downloader with a release on a web server. Also tests the web
//! server of Ironic's pod with the files that Landfall's downloader made.

use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::http_get::get;
use crate::podman::Podman;
use crate::web_server::{Apache, public_copy, public_directory};
use crate::{output, release, repository, run, upstream};

const IMAGE: &str = concat!("localhost/landfall-downloader:", env!("CARGO_PKG_VERSION"));
/// The path that the probes of ironic-standalone-operator request (`knownExistingPath`
/// in its pkg/ironic/containers.go), whatever the value of IPA_ARCH.
const PROBED: &str = "/images/ironic-python-agent.kernel";

/// Runs the command with which ironic-standalone-operator probes httpd in the pod.
/// Returns the status code, or 0 without a response.
fn probe(address: &str) -> u16 {
    let mut curl = Command::new("curl");
    curl.args([
        "--head",
        "--insecure",
        "--location",
        "--silent",
        "--show-error",
    ])
    .args(["--output", "/dev/null", "--fail"])
    // Not options of the operator: the server is on this machine, and the status shows
    // why a probe failed.
    .args(["--noproxy", "*", "--write-out", "%{http_code}"])
    .arg(format!("http://{address}{PROBED}"));
    let ended = output(&mut curl);
    let status: u16 = String::from_utf8_lossy(&ended.stdout).parse().unwrap();
    assert_eq!(ended.status.success(), status == 200, "{ended:?}");
    status
}

fn fetch(base: &str, shared: &Path, more: &[(&str, &str)]) {
    run(
        Command::new(repository().join("tests/release/fetch_as_metal3.sh"))
            .env("IPA_BASEURI", base)
            .env("SHARED_DIR", shared)
            .envs(more.iter().copied()),
    );
}

/// Counts the folders in the volume. Each folder must contain only files: a folder
/// inside it is a download that was moved into the folder of an earlier download.
fn folders(shared: &Path) -> usize {
    assert_eq!(fs::read_dir(shared.join("tmp")).unwrap().count(), 0);
    let mut folders = 0;
    for entry in fs::read_dir(shared.join("html/images")).unwrap() {
        let entry = entry.unwrap();
        // Entries that are not folders are links.
        if entry.file_type().unwrap().is_dir() {
            folders += 1;
            for inside in fs::read_dir(entry.path()).unwrap() {
                let inside = inside.unwrap();
                assert!(inside.file_type().unwrap().is_file(), "{inside:?}");
            }
        }
    }
    folders
}

#[test]
fn it_fetches_the_archive_and_makes_its_links() {
    let work = tempfile::tempdir().unwrap();
    let files = public_copy(&release().join("dib"));
    let served = Apache::serve(files.path(), work.path());
    let base = format!("http://{}/dib", served.address);
    let shared = |suffix: &str| work.path().join(format!("shared{suffix}"));
    let mut expected: Vec<u16> = Vec::new();
    // The variables that operators set, the suffix of the links, and what the server
    // answers to two runs: the second one finds the archive unchanged.
    for (variables, suffix, statuses) in [
        (&[][..], "", [200, 304]),
        (
            &[("IPA_BRANCH", "master"), ("IPA_ARCH", "x86_64")],
            "_x86_64",
            [200, 304],
        ),
        // A new archive: the headers in the volume belong to the archive of the first
        // run.
        (&[("IPA_FLAVOR", "debian")], "", [200, 304]),
        // The same archive as with IPA_FLAVOR, so the first run finds it unchanged.
        (
            &[("IPA_FILENAME", "ipa-debian-master.tar.gz")],
            "",
            [304, 304],
        ),
    ] {
        // Use a volume for each suffix: a pod has at most one IPA_ARCH.
        let shared = shared(suffix);
        let images = shared.join("html/images");
        for status in statuses {
            fetch(&base, &shared, variables);
            expected.push(status);
            assert_eq!(served.statuses(expected.len()), expected, "{variables:?}");
            for ending in ["kernel", "initramfs"] {
                let link = images.join(format!("ironic-python-agent{suffix}.{ending}"));
                assert!(fs::read(link).unwrap() == upstream(ending), "{variables:?}");
            }
        }
        let headers = images.join(format!("ironic-python-agent{suffix}.headers"));
        assert!(fs::read_to_string(headers).unwrap().contains("ETag: "));
    }
    // One folder for each archive, also after two runs.
    assert_eq!(folders(&shared("")), 2);
    assert_eq!(folders(&shared("_x86_64")), 1);
}

/// The volume of the pod, with an empty directory for the web server.
fn volume() -> TempDir {
    let shared = public_directory();
    chown(shared.path(), Some(997), Some(994)).unwrap();
    fs::create_dir(shared.path().join("html")).unwrap();
    chown(shared.path().join("html"), Some(997), Some(994)).unwrap();
    run(Command::new("chmod")
        .args(["-R", "a+rX"])
        .arg(shared.path()));
    shared
}

/// Runs Landfall's downloader as the pod does.
fn download(podman: &Podman, shared: &Path, architecture: Option<&str>) {
    let mut run_it = podman.run(shared, "/shared");
    run_it.args(["--cap-drop=all", "--user=997:994"]);
    run_it.arg("--env=IPA_BRANCH=master");
    if let Some(architecture) = architecture {
        run_it.arg(format!("--env=IPA_ARCH={architecture}"));
    }
    run(run_it.arg(IMAGE));
}

/// The content of the kernel or ramdisk that a site had before Landfall.
fn old(ending: &str) -> Vec<u8> {
    format!("the old {ending}").into_bytes()
}

/// The archive of [`old`], for [`Apache`].
fn old_archive() -> TempDir {
    let served = public_directory();
    let names = ["kernel", "initramfs"].map(|ending| {
        let name = format!("ipa-centos9-master.{ending}");
        fs::write(served.path().join(&name), old(ending)).unwrap();
        name
    });
    let archive = "ipa-centos9-master.tar.gz";
    let in_directory = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(served.path());
        command
    };
    run(in_directory("tar").args(["-czf", archive]).args(names));
    // Make the files old, as in `public_copy`, so that Apache gives them strong ETags.
    run(in_directory("touch").args(["-d", "2026-01-01", archive]));
    run(in_directory("chmod").args(["-R", "a+rX", "."]));
    served
}

/// Like [`fetch`], as the user of the pod.
fn fetch_in_pod(base: &str, shared: &Path) {
    // Pass the script on standard input, because the repository may be in a home that
    // others cannot enter.
    let script = File::open(repository().join("tests/release/fetch_as_metal3.sh")).unwrap();
    run(Command::new("setpriv")
        .args(["--reuid=997", "--regid=994", "--clear-groups"])
        .args(["bash", "-s"])
        .current_dir("/")
        .stdin(script)
        .env("IPA_BASEURI", base)
        .env("SHARED_DIR", shared));
}

/// Checks that the links lead to a folder whose name begins with `folder`, and that
/// kernel and ramdisk have the content that `content` returns for their endings.
fn check_links(shared: &Path, folder: &str, content: fn(&str) -> Vec<u8>) {
    for ending in ["headers", "kernel", "initramfs"] {
        let link = format!("html/images/ironic-python-agent.{ending}");
        let link = shared.join(link);
        let target = fs::read_link(&link).unwrap();
        let found = target.to_str().unwrap();
        assert!(found.starts_with(folder), "{ending}: {found}");
        let is_right = ending == "headers" || fs::read(&link).unwrap() == content(ending);
        assert!(is_right, "{ending}: {found}");
    }
}

/// Switches from Landfall's downloader to metal3's and back again. metal3's downloader
/// finds the file of headers that Landfall's downloader has written without a server, and
/// sends the ETag in it to its own server.
#[test]
fn both_downloaders_take_turns_in_one_volume() {
    const OURS: &str = "landfall-";
    const THEIRS: &str = "ipa-centos9-master.tar.gz-";
    let podman = Podman::with_image("landfall-downloader.tar", IMAGE);
    let (archive, work) = (old_archive(), tempfile::tempdir().unwrap());
    let served = Apache::serve(archive.path(), work.path());
    let shared = volume();
    download(&podman, shared.path(), None);
    check_links(shared.path(), OURS, upstream);
    fetch_in_pod(&format!("http://{}", served.address), shared.path());
    assert_eq!(served.statuses(1), [200]);
    check_links(shared.path(), THEIRS, old);
    download(&podman, shared.path(), None);
    check_links(shared.path(), OURS, upstream);
    // The folders of both downloaders remain in the volume for the next switch.
    assert_eq!(folders(shared.path()), 2);
}

/// The URL path of a file on the web server.
fn path(architecture: Option<&str>, ending: &str) -> String {
    let suffix = architecture.map_or_else(String::new, |name| format!("_{name}"));
    format!("/images/ironic-python-agent{suffix}.{ending}")
}

#[test]
fn the_pod_becomes_ready_without_an_architecture() {
    let podman = Podman::with_image("landfall-downloader.tar", IMAGE);
    for (architecture, status) in [(None, 200), (Some("x86_64"), 404)] {
        let shared = volume();
        let work = tempfile::tempdir().unwrap();
        let pod = Apache::serve(&shared.path().join("html"), work.path());
        // The web server runs, and the downloader has not ended.
        assert_eq!(probe(&pod.address), 404);
        download(&podman, shared.path(), architecture);
        assert_eq!(probe(&pod.address), status, "{architecture:?}");
        // Fetch the files that Ironic's conductor and iPXE fetch.
        for ending in ["kernel", "initramfs"] {
            let path = path(architecture, ending);
            let (status, body) = get(&pod.address, &path);
            assert_eq!(status, 200, "{path}");
            assert!(body == upstream(ending), "{path}");
        }
    }
}

/// The web server of ironic-image decides by the names of the links what it serves, and
/// not by the names of the files that the links lead to.
#[test]
fn a_server_that_knows_only_upstreams_names_serves_the_links() {
    let podman = Podman::with_image("landfall-downloader.tar", IMAGE);
    for (architecture, with_tls) in [(None, 200), (Some("x86_64"), 403)] {
        let shared = volume();
        download(&podman, shared.path(), architecture);
        let html = shared.path().join("html");
        for (names, expected) in [
            // With HTTPD_SERVE_NODE_IMAGES=false (ironic-config/httpd.conf.j2 in
            // ironic-image).
            ("^ironic.*", 200),
            // For iPXE over TLS (ironic-config/apache2-ipxe.conf.j2 in ironic-image):
            // this pattern does not match names with an architecture. The test does not
            // use TLS, because TLS does not change which names match.
            ("^ironic-python-agent\\.", with_tls),
        ] {
            let work = tempfile::tempdir().unwrap();
            let pod = Apache::serve_images_named(names, &html, work.path());
            for ending in ["kernel", "initramfs"] {
                let path = path(architecture, ending);
                let (status, body) = get(&pod.address, &path);
                assert_eq!(status, expected, "{names}: {path}");
                assert!(status != 200 || body == upstream(ending), "{path}");
            }
            // The pattern does not match the name of the directory either.
            assert_eq!(get(&pod.address, "/images/").0, 403, "{names}");
        }
    }
}

/// `spec.overrides.agentImages` with `file://`, which becomes DEPLOY_KERNEL_URL: the
/// conductor reads the file from the volume.
#[test]
fn ironic_takes_both_from_the_volume() {
    let podman = Podman::with_image("landfall-downloader.tar", IMAGE);
    let shared = tempfile::tempdir().unwrap();
    chown(shared.path(), Some(997), Some(994)).unwrap();
    let mut downloader = podman.run(shared.path(), "/shared");
    downloader.args(["--cap-drop=all", "--user=997:994", IMAGE]);
    run(&mut downloader);
    for ending in ["kernel", "initramfs"] {
        let link = format!("html/images/ironic-python-agent.{ending}");
        let link = shared.path().join(link);
        let fetched = shared.path().join("fetched");
        let mut ironic = Command::new(repository().join("out/ironic/venv/bin/python"));
        ironic
            .arg(repository().join("tests/release/fetch_file_with_ironic.py"))
            .arg(shared.path())
            .arg(format!("file://{}", link.display()))
            .arg(&fetched);
        run(&mut ironic);
        assert!(fs::read(&fetched).unwrap() == upstream(ending), "{ending}");
        fs::remove_file(fetched).unwrap();
    }
}
