//! Buffers that are aligned as O_DIRECT requires.

use std::ops::{Deref, DerefMut};

/// In bytes. With O_DIRECT, addresses, offsets and lengths must be multiples of the
/// logical sector size (open(2)). 4096 covers both sector sizes that exist, 512 and 4096
/// bytes.
const ALIGNMENT: usize = 4096;

/// Bytes whose address is a multiple of 4096.
///
/// Stable Rust has no aligned `Vec` without `unsafe`. So the buffer is one page too
/// long, and the bytes begin at the first aligned address in it.
#[derive(Debug)]
pub struct AlignedBuffer {
    storage: Box<[u8]>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    pub fn zeroed(len: usize) -> Self {
        // A boxed slice never reallocates, so `start` stays aligned.
        let storage = vec![0u8; len + ALIGNMENT].into_boxed_slice();
        let start = (ALIGNMENT - storage.as_ptr().addr() % ALIGNMENT) % ALIGNMENT;
        Self {
            storage,
            start,
            len,
        }
    }

    /// Copies `bytes` and appends zeros up to a multiple of `unit`.
    pub fn padded(bytes: &[u8], unit: usize) -> Self {
        let mut buffer = Self::zeroed(bytes.len().next_multiple_of(unit));
        buffer[..bytes.len()].copy_from_slice(bytes);
        buffer
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.storage[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_at_a_page_and_pads_with_zeros() {
        for len in [1, 511, 512, 4097] {
            let buffer = AlignedBuffer::padded(&vec![7; len], 512);
            assert_eq!(buffer.as_ptr().addr() % ALIGNMENT, 0);
            assert_eq!(buffer.len() % 512, 0);
            assert!(buffer[..len].iter().all(|&b| b == 7));
            assert!(buffer[len..].iter().all(|&b| b == 0));
        }
    }
}
