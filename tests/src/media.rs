//! Makes boot media for one test with the builder's command line, as an operator does.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use axum::body::Bytes;

use crate::artifacts;
use crate::dhcp_server::TftpFile;
use crate::image_server::{Behaviour, ServedFile};
use crate::lab::Lab;
use crate::program;
use crate::ramdisk_parts::{Kernel, ModuleSet};

/// Builder arguments that all media need.
async fn inputs(lab: &Lab, kernel: Kernel, kernel_arguments: &str) -> Result<Vec<String>> {
    let mut list = vec![
        "--agent".to_owned(),
        artifacts::agent()?.display().to_string(),
    ];
    list.extend(kernel.options(lab).await?);
    for argument in kernel_arguments.split(' ') {
        list.extend(["--karg".to_owned(), argument.to_owned()]);
    }
    Ok(list)
}

async fn build(
    lab: &Lab,
    what: &str,
    kernel: Kernel,
    kernel_arguments: &str,
    options: &[String],
    to: &Path,
) -> Result<()> {
    let builder = artifacts::builder()?.display().to_string();
    let mut inputs = inputs(lab, kernel, kernel_arguments).await?;
    inputs.extend(artifacts::arch_options());
    inputs.extend_from_slice(options);
    let to = to.display().to_string();
    let mut arguments = vec![what];
    arguments.extend(inputs.iter().map(String::as_str));
    arguments.extend(["-o", &to]);
    program::run(&builder, &arguments).await?;
    Ok(())
}

/// Builds a ramdisk with these options. An archive with `files` (path and content), all
/// executable, is appended to it.
pub async fn ramdisk(lab: &Lab, options: &[String], files: &[(&str, Vec<u8>)]) -> Result<PathBuf> {
    ramdisk_of(lab, Kernel::Cloud, options, files).await
}

/// Builds a ramdisk with the drivers of servers, for [`artifacts::generic_kernel`].
pub async fn server_ramdisk(lab: &Lab) -> Result<PathBuf> {
    ramdisk_of(lab, Kernel::Generic, &ModuleSet::Server.options(), &[]).await
}

/// Appends the `config.ign` of `folder` to the ramdisk `system` of a live system as a
/// second cpio archive, as in CoreOS. Returns the path of the result.
pub async fn with_config(lab: &Lab, system: &Path, folder: &Path) -> Result<PathBuf> {
    let archive = lab.path("config.cpio");
    let pack = format!(
        "cd {} && echo config.ign | cpio -o -H newc --quiet > {}",
        folder.display(),
        archive.display()
    );
    program::run("sh", &["-c", &pack]).await?;
    let mut ramdisk = std::fs::read(system)?;
    // The kernel expects the next archive at an offset that is a multiple of four.
    ramdisk.resize(ramdisk.len().next_multiple_of(4), 0);
    ramdisk.extend(std::fs::read(&archive)?);
    let path = lab.path("live.img");
    std::fs::write(&path, ramdisk)?;
    Ok(path)
}

async fn ramdisk_of(
    lab: &Lab,
    kernel: Kernel,
    options: &[String],
    files: &[(&str, Vec<u8>)],
) -> Result<PathBuf> {
    let path = lab.path("initrd.img");
    let builder = artifacts::builder()?.display().to_string();
    let to = path.display().to_string();
    let agent = artifacts::agent()?.display().to_string();
    let kernel = kernel.options(lab).await?;
    let mut arguments = vec!["initramfs", "--agent", &agent];
    arguments.extend(kernel.iter().map(String::as_str));
    // Compress fast, because these tests are not about the size.
    arguments.extend(["--compress", "zstd:1", "-o", &to]);
    arguments.extend(options.iter().map(String::as_str));
    program::run(&builder, &arguments).await?;
    if !files.is_empty() {
        append_archive(lab, files, &path).await?;
    }
    Ok(path)
}

/// Appends an archive with `files` (path and content), all executable, to the file at
/// `to`, which need not exist.
pub async fn append_archive(lab: &Lab, files: &[(&str, Vec<u8>)], to: &Path) -> Result<()> {
    const PACK: &str = r#"cd "$1" && find . -mindepth 1 | sort | cpio -o -H newc >> "$2""#;
    let folder = lab.path("behind-initrd");
    for (name, content) in files {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().unwrap_or(&folder))?;
        std::fs::write(&file, content)?;
        std::fs::set_permissions(&file, Permissions::from_mode(0o755))?;
    }
    let (folder, to) = (folder.display().to_string(), to.display().to_string());
    program::run("sh", &["-c", PACK, "sh", &folder, &to]).await?;
    Ok(())
}

/// Builds an ISO with the cloud kernel, which most tests use. `options` are further
/// options of the builder.
pub async fn iso(lab: &Lab, kernel_arguments: &str, options: &[String]) -> Result<PathBuf> {
    iso_of(lab, Kernel::Cloud, kernel_arguments, options).await
}

/// Like [`iso`], with this kernel.
pub async fn iso_of(
    lab: &Lab,
    kernel: Kernel,
    kernel_arguments: &str,
    options: &[String],
) -> Result<PathBuf> {
    let path = lab.path("agent.iso");
    build(lab, "iso", kernel, kernel_arguments, options, &path).await?;
    Ok(path)
}

/// Builds the folder for a network boot with these kernel arguments. By default kernel
/// and ramdisk come from the same server as the boot loader.
pub async fn network_tree(
    lab: &Lab,
    kernel: Kernel,
    kernel_arguments: &str,
    options: &[String],
) -> Result<PathBuf> {
    let path = lab.path("pxe");
    build(lab, "pxe", kernel, kernel_arguments, options, &path).await?;
    Ok(path)
}

/// The name of the unified kernel image (UKI) in the folder of [`uki_folder`].
pub const UKI: &str = "landfall.efi";

/// Builds a folder that contains only a UKI with these kernel arguments.
pub async fn uki_folder(
    lab: &Lab,
    kernel: Kernel,
    kernel_arguments: &str,
    options: &[String],
) -> Result<PathBuf> {
    let folder = lab.path("uki");
    std::fs::create_dir(&folder)?;
    let path = folder.join(UKI);
    build(lab, "uki", kernel, kernel_arguments, options, &path).await?;
    Ok(folder)
}

/// The path of the iPXE build that drives the NIC through UEFI, in Debian's package
/// ipxe.
pub const IPXE: &str = "/usr/lib/ipxe/snponly.efi";

/// The name of that build on the TFTP server.
pub const IPXE_FILE: &str = "snponly.efi";

/// Makes a folder for a TFTP server that contains only iPXE for UEFI.
pub fn ipxe_over_tftp(lab: &Lab) -> Result<TftpFile> {
    let root = lab.path("tftp");
    std::fs::create_dir(&root)?;
    std::fs::copy(IPXE, root.join(IPXE_FILE))
        .with_context(|| format!("copying {IPXE} (package ipxe)"))?;
    Ok(TftpFile {
        root,
        file: IPXE_FILE.to_owned(),
    })
}

/// The archive that `landfall-image hosts` makes with these options.
pub async fn hosts(lab: &Lab, options: &[String]) -> Result<Vec<u8>> {
    let path = lab.path("hosts.img");
    let builder = artifacts::builder()?.display().to_string();
    let to = path.display().to_string();
    let mut arguments = vec!["hosts", "-o", &to];
    arguments.extend(options.iter().map(String::as_str));
    program::run(&builder, &arguments).await?;
    Ok(std::fs::read(path)?)
}

/// The files of a network boot, served under their paths in the folder: the files
/// directly in it, and the file with an operator's additions.
pub fn served(folder: &Path) -> Result<Vec<ServedFile>> {
    let mut files = vec![ServedFile::read(ADDITION, &folder.join(ADDITION))?];
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            files.push(ServedFile {
                name: entry.file_name().to_string_lossy().into_owned(),
                content: Bytes::from(std::fs::read(entry.path())?),
                behaviour: Behaviour::default(),
            });
        }
    }
    Ok(files)
}

/// The path of the last ramdisk of a network boot. It adds nothing until an operator
/// replaces it.
pub const ADDITION: &str = "images/ignition.img";

/// The name of the loader for UEFI HTTP boot in the folder of [`network_tree`].
#[must_use]
pub fn http_loader() -> String {
    format!("http{}.efi", artifacts::arch().efi_suffix())
}
