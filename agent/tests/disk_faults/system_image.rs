//! Disk images with everything that firmware looks for.

use std::io::Cursor;

/// Size in bytes of the pieces in which data and zeros alternate.
const PIECE: usize = 64 << 10;

/// An image with boot code, a GPT, an ESP and a root partition. Every fourth piece holds
/// data, including the last piece of each MiB. `seed` must be even: the images of two
/// different even seeds differ in every data byte.
pub fn system_image(size: usize, seed: u8) -> Vec<u8> {
    with_data(size, seed, |piece| piece % 4 == 3)
}

/// An image like [`system_image`] but without zero pieces, so that remains of it under
/// another image are visible.
pub fn full_system_image(size: usize, seed: u8) -> Vec<u8> {
    with_data(size, seed, |_| true)
}

fn with_data(size: usize, seed: u8, has_data: impl Fn(usize) -> bool) -> Vec<u8> {
    let mut image = vec![0; size];
    for (index, piece) in image.chunks_mut(PIECE).enumerate().skip(1) {
        if has_data(index) {
            for (place, byte) in piece.iter_mut().enumerate() {
                *byte = 1 | (seed ^ ((place / 16) as u8) ^ ((index as u8) << 1));
            }
        }
    }
    let mut device = Cursor::new(image);
    let sectors = u32::try_from(size / 512 - 1).unwrap();
    gpt::mbr::ProtectiveMBR::with_lb_size(sectors)
        .overwrite_lba0(&mut device)
        .unwrap();
    let mut disk = gpt::GptConfig::new()
        .writable(true)
        .create_from_device(device, None)
        .unwrap();
    let quarter = size as u64 / 4;
    let aligned = Some(2048);
    for (name, kind) in [
        ("EFI-SYSTEM", gpt::partition_types::EFI),
        ("root", gpt::partition_types::LINUX_FS),
    ] {
        disk.add_partition(name, quarter, kind, 0, aligned).unwrap();
    }
    let mut image = disk.write().unwrap().into_inner();
    // The boot code, up to the partition table of the protective MBR.
    image[..440].fill(seed | 1);
    image
}
