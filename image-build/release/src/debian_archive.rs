//! Writes a Debian package (deb(5)): control data and files in one ar archive.
//!
//! Both members are packed with xz, because dpkg of Debian 11 does not read zstd. One
//! thread packs them: with several threads liblzma splits the data, and the bytes
//! depend on the number of threads.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;

use landfall_initramfs::path_error::PathError;
use liblzma::write::XzEncoder;
use md5::{Digest as _, Md5};

use crate::tar_tree::{Content, Naming, Node, TarTree, TreeError};

/// The size of a block in bytes, for `Installed-Size`.
const BLOCK: u64 = 1024;
const XZ_LEVEL: u32 = 6;

/// The fields of `DEBIAN/control` that differ between packages.
#[derive(Debug, Clone)]
pub struct Control<'a> {
    pub package: &'a str,
    pub version: &'a str,
    pub architecture: &'a str,
    pub section: &'a str,
    pub maintainer: &'a str,
    pub homepage: Option<&'a str>,
    pub depends: &'a str,
    pub recommends: &'a str,
    /// The first line of the description.
    pub synopsis: &'a str,
    /// The further lines of the description, without leading spaces.
    pub description: &'a str,
}

#[derive(Debug, thiserror::Error)]
pub enum DebianArchiveError {
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("cannot write the Debian package")]
    Write(#[source] io::Error),
}

/// Writes the package. `work` is a directory for temporary files. Every file gets the
/// modification time `epoch`, in seconds since 1970.
pub fn write(
    out: impl Write,
    control: &Control<'_>,
    data: &TarTree,
    work: &Path,
    epoch: u32,
) -> Result<(), DebianArchiveError> {
    let mut control_tree = TarTree::default();
    control_tree.text("control", control_file(control, installed_size(data)))?;
    control_tree.text("md5sums", md5sums(data)?)?;
    let mut archive = ar::Builder::new(out);
    let mut member = |name: &str, content: &Content| -> Result<(), DebianArchiveError> {
        let mut header = ar::Header::new(name.as_bytes().to_vec(), content.size());
        header.set_mode(0o100_644);
        header.set_mtime(epoch.into());
        archive
            .append(&header, content.open()?)
            .map_err(DebianArchiveError::Write)
    };
    member("debian-binary", &Content::Bytes(b"2.0\n".to_vec()))?;
    for (name, tree) in [("control.tar.xz", &control_tree), ("data.tar.xz", data)] {
        member(name, &packed(tree, &work.join(name), epoch)?)?;
    }
    Ok(())
}

fn packed(tree: &TarTree, file: &Path, epoch: u32) -> Result<Content, DebianArchiveError> {
    let writing = || PathError::new("cannot write", file);
    let out = BufWriter::new(File::create(file).map_err(writing())?);
    let mut packer = XzEncoder::new(out, XZ_LEVEL);
    tree.write(&mut packer, Naming::DotSlash, epoch)?;
    let mut out = packer.finish().map_err(writing())?;
    out.flush().map_err(writing())?;
    Ok(Content::on_disk(file)?)
}

/// The installed size in KiB, as dpkg-gencontrol counts: the size of every file is
/// rounded up, and every other entry counts as 1 KiB.
fn installed_size(data: &TarTree) -> u64 {
    let sizes = data.iter().map(|(_, node)| match node {
        Node::File { content, .. } => content.size().div_ceil(BLOCK),
        _ => 1,
    });
    sizes.sum()
}

fn md5sums(data: &TarTree) -> Result<String, DebianArchiveError> {
    let mut lines = String::new();
    for (path, content) in data.files() {
        let mut digest = Md5::new();
        let mut reader = BufReader::new(content.open()?);
        io::copy(&mut reader, &mut DigestSink(&mut digest))
            .map_err(PathError::new("cannot read", path))?;
        let digest = landfall_initramfs::digest_writer::hex(&digest.finalize());
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "{digest}  {path}");
    }
    Ok(lines)
}

struct DigestSink<'a>(&'a mut Md5);

impl Write for DigestSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The fields in the order in which Debian's own packages have them.
fn control_file(control: &Control<'_>, installed_size: u64) -> String {
    let installed_size = installed_size.to_string();
    let fields = [
        ("Package", control.package),
        ("Version", control.version),
        ("Architecture", control.architecture),
        ("Maintainer", control.maintainer),
        ("Installed-Size", &installed_size),
        ("Depends", control.depends),
        ("Recommends", control.recommends),
        ("Section", control.section),
        ("Priority", "optional"),
        ("Homepage", control.homepage.unwrap_or_default()),
        ("Description", control.synopsis),
    ];
    let mut text: String = fields
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}: {value}\n"))
        .collect();
    for line in control.description.lines() {
        // An empty line would end the paragraph (deb-control(5)).
        let line = if line.is_empty() { "." } else { line };
        text += &format!(" {line}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn control() -> Control<'static> {
        Control {
            package: "landfall-x",
            version: "1.2",
            architecture: "amd64",
            section: "admin",
            maintainer: "A B <a@example.org>",
            homepage: None,
            depends: "xorriso, mtools",
            recommends: "",
            synopsis: "one line",
            description: "First.\n\nSecond.",
        }
    }

    fn tree() -> TarTree {
        let mut tree = TarTree::default();
        let content = Content::Bytes(vec![b'x'; 1025]);
        tree.file("usr/bin/landfall-x", content, 0o755).unwrap();
        tree.text("usr/share/doc/landfall-x/copyright", "y")
            .unwrap();
        tree
    }

    fn dpkg_deb(option: &str, file: &Path) -> String {
        let mut command = Command::new("dpkg-deb");
        let output = command.arg(option).arg(file).env("TZ", "UTC").output();
        let output = output.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && stderr.is_empty(), "{stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn dpkg_reads_the_package() {
        let work = tempfile::tempdir().unwrap();
        let file = work.path().join("x.deb");
        let out = File::create(&file).unwrap();
        write(out, &control(), &tree(), work.path(), 1_700_000_000).unwrap();
        let fields = dpkg_deb("-f", &file);
        assert_eq!(
            fields,
            "Package: landfall-x\nVersion: 1.2\nArchitecture: amd64\nMaintainer: A B <a@example.org>\n\
             Installed-Size: 8\nDepends: xorriso, mtools\nSection: admin\nPriority: optional\n\
             Description: one line\n First.\n .\n Second.\n"
        );
        let listing = dpkg_deb("-c", &file);
        let lines: Vec<Vec<&str>> = listing
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        let expected = [
            ("drwxr-xr-x", "./"),
            ("drwxr-xr-x", "./usr/"),
            ("drwxr-xr-x", "./usr/bin/"),
            ("-rwxr-xr-x", "./usr/bin/landfall-x"),
            ("drwxr-xr-x", "./usr/share/"),
            ("drwxr-xr-x", "./usr/share/doc/"),
            ("drwxr-xr-x", "./usr/share/doc/landfall-x/"),
            ("-rw-r--r--", "./usr/share/doc/landfall-x/copyright"),
        ];
        let found: Vec<(&str, &str)> = lines.iter().map(|line| (line[0], line[5])).collect();
        assert_eq!(found, expected);
        assert!(
            lines
                .iter()
                .all(|line| line[1..5].join(" ").contains("root/root"))
        );
        assert!(
            lines
                .iter()
                .all(|line| line[3] == "2023-11-14" && line[4] == "22:13")
        );
        let unpacked = work.path().join("unpacked");
        let mut command = Command::new("dpkg-deb");
        command.arg("-R").arg(&file).arg(&unpacked);
        assert!(command.status().unwrap().success());
        let mut command = Command::new("md5sum");
        command.args(["-c", "--quiet", "DEBIAN/md5sums"]);
        assert!(command.current_dir(&unpacked).status().unwrap().success());
    }

    #[test]
    fn the_same_input_gives_the_same_bytes() {
        let work = tempfile::tempdir().unwrap();
        let bytes = || {
            let mut bytes = Vec::new();
            write(&mut bytes, &control(), &tree(), work.path(), 0).unwrap();
            bytes
        };
        assert_eq!(bytes(), bytes());
    }
}
