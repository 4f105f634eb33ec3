//! Runs the commands of README and docs as they are written: those in code blocks
//! marked `sh`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fixture::Fixture;

/// The paths of README.md and of all pages of docs.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let directories = [root.join("docs"), root.join("docs/platforms")];
    let docs = directories.iter().flat_map(|directory| {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().path())
    });
    let docs = docs.filter(|path| path.is_file());
    let mut pages: Vec<PathBuf> = [root.join("README.md")].into_iter().chain(docs).collect();
    pages.sort();
    pages
}

/// The commands of a page that begin with `program`. Continued lines are joined.
fn commands(page: &str, program: &str) -> Vec<String> {
    let blocks = page.split("```sh\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("```").next().unwrap_or_default());
    let lines = blocks.flat_map(|block| {
        let joined = block.replace("\\\n", " ");
        joined.lines().map(str::to_owned).collect::<Vec<_>>()
    });
    lines.filter(|line| line.starts_with(program)).collect()
}

/// A directory like the repository after `make build`, with the files that the
/// builder reads.
fn repository() -> Fixture {
    let fixture = Fixture::new();
    let agent = fs::read(fixture.path("agent")).unwrap();
    let release = "target/x86_64-unknown-linux-gnu/release";
    fixture.put(&format!("{release}/landfall-agent"), &agent);
    let live = [&agent[..], b"org.freedesktop.NetworkManager"].concat();
    fixture.put("out/live-system/landfall-agent", &live);
    symlink(
        env!("CARGO_BIN_EXE_landfall-image"),
        fixture.path(release).join("landfall-image"),
    )
    .unwrap();
    fixture.put(
        "kernel/DEBIAN/control",
        b"Package: linux-image-6.1-test\nVersion: 1\nArchitecture: amd64\n\
          Maintainer: a <a@b>\nDescription: a kernel\n",
    );
    fs::create_dir_all(fixture.path("out/packages")).unwrap();
    let built = Command::new("dpkg-deb")
        .args([
            "--build",
            "kernel",
            "out/packages/linux-image-6.1-test_1_amd64.deb",
        ])
        .current_dir(fixture.path("."))
        .output()
        .unwrap();
    assert!(built.status.success());
    fixture
}

#[test]
fn the_builders_commands_run_as_they_are_written() {
    let fixture = repository();
    let path = format!(
        "{}:{}",
        fixture
            .path("target/x86_64-unknown-linux-gnu/release")
            .display(),
        std::env::var("PATH").unwrap()
    );
    let mut count = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for command in commands(&text, "landfall-image ") {
            let output = Command::new("sh")
                .args(["-c", &command])
                .env("PATH", &path)
                .current_dir(fixture.path("."))
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success(),
                "{}: {command}\n{told}",
                page.display()
            );
            count += 1;
        }
    }
    assert!(count >= 4, "found {count} commands");
}
