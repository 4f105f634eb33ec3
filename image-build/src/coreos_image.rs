//! The CoreOS image for nodes that name no image. Either an ISO carries the image, or
//! kernel arguments give the hosts its URL.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use landfall_boot_params::digest::{Algorithm, Digest};
use landfall_boot_params::{BootParams, CommandLine};
use landfall_initramfs::arch::Arch;
use landfall_initramfs::digest_writer::{self, DigestWriter};
use landfall_media_formats::coreos_image::CoreosImage;
use sha2::{Digest as _, Sha512};

use crate::cli::CoreosImageArguments;
use crate::disk_image;
use crate::kernel_args::KernelArgs;
use crate::report::megabytes;

/// Checks the kernel arguments. Adds the default arguments for hosts of this
/// architecture, and the arguments that name the image. `file` is an image on the ISO,
/// which needs no arguments.
pub(crate) fn kernel_args(
    texts: &[String],
    arch: Arch,
    file: Option<&Path>,
    image: &CoreosImageArguments,
) -> Result<KernelArgs> {
    ensure!(
        image.coreos_image_digest.is_none() || file.is_some() || !image.coreos_image_url.is_empty(),
        "--coreos-image-digest: expected an option that names the image, found none"
    );
    for url in &image.coreos_image_url {
        ensure!(
            url.contains("://"),
            "--coreos-image-url {url}: expected a URL, found a file -- give the URL of the image, or put the file on a medium with `landfall-image iso --coreos-image`"
        );
    }
    let mut texts = texts.to_vec();
    texts.extend(url_arguments(image));
    let params = BootParams::from_command_line(&CommandLine::parse(&texts.join(" ")));
    params.given_image()?;
    Ok(KernelArgs::with_defaults(&texts, arch)?)
}

/// The kernel arguments that give hosts the URL of the image.
pub(crate) fn url_arguments(image: &CoreosImageArguments) -> Vec<String> {
    let mut texts = Vec::new();
    if !image.coreos_image_url.is_empty() {
        texts.push(format!(
            "landfall.coreos.image={}",
            image.coreos_image_url.join(",")
        ));
        if let Some(digest) = &image.coreos_image_digest {
            texts.push(format!("landfall.coreos.image_checksum={digest}"));
        }
    }
    texts
}

/// A copy of an image that will be moved to a medium.
#[derive(Debug)]
pub(crate) struct PlacedImage {
    pub(crate) copy: PathBuf,
    pub(crate) image: CoreosImage,
}

impl PlacedImage {
    /// Copies the file into `work` and checks its digest on the way.
    pub(crate) fn copy(file: &Path, expected: Option<&Digest>, work: &Path) -> Result<Self> {
        let reading = || format!("cannot read {}", file.display());
        let name = file.file_name().with_context(reading)?.to_string_lossy();
        ensure!(
            !name.chars().any(char::is_control),
            "{name:?}: expected a file name without control characters"
        );
        check(file)?;
        let copy = work.join("coreos-image");
        let writing = || format!("cannot write {}", copy.display());
        let mut input = File::open(file).with_context(reading)?;
        let mut output = DigestWriter::new(File::create(&copy).with_context(writing)?);
        let sha512 = match expected.map(Digest::algorithm) {
            Some(Algorithm::Sha512) => Some(copy_with_sha512(&mut input, &mut output)),
            _ => {
                io::copy(&mut input, &mut output).with_context(writing)?;
                None
            }
        };
        let sha512 = sha512.transpose().with_context(writing)?;
        let (size, sha256) = output.finish();
        if let Some(expected) = expected {
            let found = sha512.as_deref().unwrap_or(&sha256);
            ensure!(
                expected.hex() == found,
                "{}: {} expected {}, found {found}",
                file.display(),
                expected.algorithm(),
                expected.hex()
            );
        }
        let name = name.into_owned();
        let sha256 = Digest::new(Algorithm::Sha256, &sha256)?;
        let image = CoreosImage { name, size, sha256 };
        Ok(Self { copy, image })
    }
}

/// Fails if the file is not a disk image.
pub(crate) fn check(file: &Path) -> Result<()> {
    let metadata = file.metadata();
    let metadata = metadata.with_context(|| format!("cannot read {}", file.display()))?;
    ensure!(
        metadata.is_file(),
        "{}: expected a regular file, found something else",
        file.display()
    );
    disk_image::check(file)
}

fn copy_with_sha512(input: &mut File, output: &mut impl io::Write) -> io::Result<String> {
    let mut digest = Sha512::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match input.read(&mut buffer)? {
            0 => return Ok(digest_writer::hex(&digest.finalize())),
            len => {
                digest.update(&buffer[..len]);
                output.write_all(&buffer[..len])?;
            }
        }
    }
}

/// The line for the image in a summary.
pub(crate) fn line(image: &CoreosImage) -> String {
    format!(
        "  image    {} ({}), sha256 {}\n",
        image.name,
        megabytes(image.size),
        image.sha256.hex()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image_digest::image_digest;

    #[test]
    fn a_digest_is_checked_while_the_image_is_copied() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("rhcos.raw.gz");
        let disk = disk_image::tests::disk();
        std::fs::write(&file, &disk).unwrap();
        let sha256 = digest_writer::sha256(&disk);
        let sha512 = digest_writer::hex(&Sha512::digest(&disk));
        for (expected, good) in [
            (None, true),
            (Some(format!("sha256:{}", sha256.to_uppercase())), true),
            (Some(format!("sha512:{sha512}")), true),
            (Some(format!("sha256:{}", "0".repeat(64))), false),
            (Some(format!("sha512:{}", "0".repeat(128))), false),
        ] {
            let digest = expected.as_deref().map(|text| image_digest(text).unwrap());
            let placed = PlacedImage::copy(&file, digest.as_ref(), directory.path());
            assert_eq!(placed.is_ok(), good, "{expected:?}");
            match placed {
                Ok(placed) => {
                    assert_eq!(placed.image.sha256.hex(), sha256);
                    assert_eq!(
                        (placed.image.name.as_str(), placed.image.size),
                        ("rhcos.raw.gz", 512)
                    );
                    assert_eq!(std::fs::read(placed.copy).unwrap(), disk);
                }
                Err(error) => assert!(
                    format!("{error:#}").contains(&sha256[..8])
                        || format!("{error:#}").contains(&sha512[..8]),
                    "{error:#}"
                ),
            }
        }
    }

    #[test]
    fn unusable_images_are_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let empty = directory.path().join("empty");
        std::fs::write(&empty, "").unwrap();
        for (file, part) in [
            (empty.as_path(), "found nothing"),
            (Path::new("/dev/zero"), "expected a regular file"),
            (Path::new("/no/such/file"), "cannot read /no/such/file"),
        ] {
            let error = PlacedImage::copy(file, None, directory.path()).unwrap_err();
            assert!(format!("{error:#}").contains(part), "{error:#}");
        }
    }

    #[test]
    fn urls_become_kernel_arguments() {
        let digest = format!("sha256:{}", "AB".repeat(32));
        let arguments = CoreosImageArguments {
            coreos_image_url: vec!["http://h/i".to_owned(), "http://m/i".to_owned()],
            coreos_image_digest: Some(digest.parse().unwrap()),
        };
        let line = kernel_args(
            &["quiet console=tty0".to_owned()],
            Arch::X86_64,
            None,
            &arguments,
        )
        .unwrap();
        let expected = format!(
            "console=ttyS0,115200n8 quiet console=tty0 landfall.coreos.image=http://h/i,http://m/i landfall.coreos.image_checksum=sha256:{}",
            "ab".repeat(32)
        );
        assert_eq!(line.as_str(), expected);
        assert_eq!(line.warnings(&[]), [""; 0]);
        let contradicted = CoreosImageArguments {
            coreos_image_url: vec![format!("http://h/i?sha256={}", "1".repeat(64))],
            coreos_image_digest: arguments.coreos_image_digest.clone(),
        };
        let error = kernel_args(&[], Arch::X86_64, None, &contradicted).unwrap_err();
        assert!(
            error.to_string().contains("expected one checksum"),
            "{error}"
        );
        let alone = CoreosImageArguments {
            coreos_image_url: Vec::new(),
            ..arguments
        };
        assert!(kernel_args(&[], Arch::X86_64, None, &alone).is_err());
        assert!(kernel_args(&[], Arch::X86_64, Some(Path::new("i.raw")), &alone).is_ok());
    }
}
