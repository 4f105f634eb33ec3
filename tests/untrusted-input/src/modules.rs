//! Fuzz functions for kernel modules, their index, the archive that holds them, the
//! packages that contain them, the kernel, and the stub of a unified kernel image.

use std::io::{self, Cursor};

use landfall_initramfs::kernel_image::KernelImage;
use landfall_initramfs::modinfo::ModInfo;
use landfall_initramfs::newc::Reader;
use landfall_initramfs::rpm::Package;
use landfall_initramfs::unified_image::{self, Section};
use landfall_module_index::{Index, IndexContent, LeftOut};

pub fn modinfo(data: &[u8]) {
    let _ = ModInfo::parse(data).kernel_release();
    let _ = ModInfo::of_elf(data);
}

pub fn module_index(data: &[u8]) {
    // The first line is a modalias to look up in the index after it.
    let text = String::from_utf8_lossy(data);
    let (alias, text) = text.split_once('\n').unwrap_or(("", &text));
    let Ok(content) = IndexContent::parse(text) else {
        return;
    };
    let Ok(written) = content.to_text() else {
        panic!("what was read cannot be written");
    };
    assert_eq!(IndexContent::parse(&written).as_ref(), Ok(&content));
    let index = Index::new(content);
    let _ = index.resolve(alias);
    let _ = index.load_order(index.modules_for(alias));
    let _ = index.load_order(index.modules().map(|(id, _)| id));
}

pub fn left_out(data: &[u8]) {
    // The first line is a modalias or a firmware file to look up.
    let text = String::from_utf8_lossy(data);
    let (name, text) = text.split_once('\n').unwrap_or(("", &text));
    let Ok(content) = LeftOut::parse(text) else {
        return;
    };
    let Ok(written) = content.to_text() else {
        panic!("what was read cannot be written");
    };
    assert_eq!(LeftOut::parse(&written).as_ref(), Ok(&content));
    let _ = content.modules_for(name);
    let _ = content.firmware(name);
}

pub fn newc(data: &[u8]) {
    let mut reader = Reader::new(data);
    for entry in reader.by_ref().flatten() {
        assert!(entry.data.len() <= data.len());
        let _ = entry.is_file();
    }
    assert!(reader.consumed() <= data.len());
}

pub fn rpm_package(data: &[u8]) {
    /// In bytes: the limit for unpacking the files of a package.
    const LIMIT: u64 = 1 << 20;
    let Ok(package) = Package::open(Cursor::new(data.to_vec())) else {
        return;
    };
    for names in [package.requires(), package.provides()] {
        assert!(names.len() <= data.len());
    }
    let Ok(mut payload) = package.payload() else {
        return;
    };
    let mut left = LIMIT;
    while let Ok(Some(member)) = payload.next_member() {
        let size = u64::from(member.size);
        let Some(rest) = left.checked_sub(size) else {
            return;
        };
        left = rest;
        let Ok(read) = io::copy(&mut payload, &mut io::sink()) else {
            return;
        };
        assert_eq!(read, size);
    }
}

/// Reads a kernel image. Kernels come from packages, and from an ISO that a user
/// inspects.
pub fn kernel_image(data: &[u8]) {
    if let Ok(kernel) = KernelImage::parse(data) {
        assert!(!kernel.release.is_empty());
        assert!(kernel.has_efi_stub || !kernel.is_signed);
    }
}

/// Adds sections to an EFI program. The program's own sections must keep their names
/// and lengths.
pub fn unified_image(data: &[u8]) {
    let added = [(".linux", &b"kernel"[..]), (".initrd", data)];
    let sections = added.map(|(name, content)| Section { name, content });
    let Ok(image) = unified_image::assemble(data, &sections) else {
        return;
    };
    let (Ok(before), Ok(after)) = (
        unified_image::sections(data),
        unified_image::sections(&image),
    ) else {
        panic!("what was written cannot be read");
    };
    let (own, new) = after.split_at(before.len());
    for (before, after) in before.iter().zip(own) {
        assert_eq!(before.0, after.0);
        assert_eq!(before.1.len(), after.1.len());
    }
    let new: Vec<(&str, &[u8])> = { new.iter() }
        .map(|(name, content)| (name.as_str(), *content))
        .collect();
    assert_eq!(new, added);
}
