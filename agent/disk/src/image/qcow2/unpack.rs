//! Unpacks one compressed cluster. Does no I/O.

use std::fmt;

use flate2::{Decompress, FlushDecompress};
use zstd::zstd_safe::{DCtx, find_frame_compressed_size, get_error_name};

use crate::image::qcow2::header::Compression;

/// Why a compressed cluster cannot be unpacked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnpackError {
    /// The decoder reports this fault. The image is damaged; compare its digest.
    #[error("{0}")]
    Damaged(String),
    /// A compressed part of the qcow2 image does not have the length that the image
    /// states. The image is damaged; compare its digest.
    #[error("expected {expected} bytes, found {found}")]
    Length { expected: usize, found: usize },
}

pub enum Unpacker {
    Zlib(Decompress),
    Zstd(DCtx<'static>),
}

impl Unpacker {
    pub fn new(compression: Compression) -> Self {
        match compression {
            Compression::Zlib => Self::Zlib(Decompress::new(false)),
            Compression::Zstd => Self::Zstd(DCtx::create()),
        }
    }

    /// Unpacks one whole cluster into `out`. Other data may follow the cluster in
    /// `packed`. Returns how many bytes of `packed` the cluster used.
    ///
    /// # Errors
    /// If `packed` is damaged or does not fill the cluster.
    pub fn unpack(&mut self, packed: &[u8], out: &mut [u8]) -> Result<usize, UnpackError> {
        let (used, filled) = match self {
            Self::Zlib(inflate) => {
                inflate.reset(false);
                inflate
                    .decompress(packed, out, FlushDecompress::Finish)
                    .map_err(|error| UnpackError::Damaged(error.to_string()))?;
                // At most the length of the slices, so the casts are lossless.
                (inflate.total_in() as usize, inflate.total_out() as usize)
            }
            Self::Zstd(decoder) => zstd_frames(decoder, packed, out)?,
        };
        if filled == out.len() {
            Ok(used)
        } else {
            Err(UnpackError::Length {
                expected: out.len(),
                found: filled,
            })
        }
    }
}

impl fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unpacker")
    }
}

/// Unpacks frame by frame, because `DCtx::decompress` accepts no bytes after the last
/// frame. The streaming functions of zstd would accept them, but they allocate a window
/// buffer.
fn zstd_frames(
    decoder: &mut DCtx<'_>,
    packed: &[u8],
    out: &mut [u8],
) -> Result<(usize, usize), UnpackError> {
    let damaged = |code| UnpackError::Damaged(get_error_name(code).to_ascii_lowercase());
    let (mut used, mut filled) = (0, 0);
    while filled < out.len() && used < packed.len() {
        let len = find_frame_compressed_size(&packed[used..]).map_err(damaged)?;
        let frame = &packed[used..used + len];
        filled += decoder
            .decompress(&mut out[filled..], frame)
            .map_err(damaged)?;
        used += len;
    }
    Ok((used, filled))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn cluster() -> Vec<u8> {
        (0..65536u32).map(|n| (n / 7 % 251) as u8).collect()
    }

    fn packed(compression: Compression) -> Vec<u8> {
        match compression {
            Compression::Zlib => {
                let level = flate2::Compression::fast();
                let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), level);
                encoder.write_all(&cluster()).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Zstd => zstd::bulk::compress(&cluster(), 1).unwrap(),
        }
    }

    #[test]
    fn trailing_bytes_are_left_and_missing_bytes_are_an_error() {
        for compression in [Compression::Zlib, Compression::Zstd] {
            let mut unpacker = Unpacker::new(compression);
            let packed = packed(compression);
            let mut longer = packed.clone();
            longer.extend_from_slice(b"the next cluster");
            let mut out = vec![1; 65536];
            assert_eq!(unpacker.unpack(&longer, &mut out), Ok(packed.len()));
            assert!(out == cluster());
            for end in [0, 1, packed.len() / 2, packed.len() - 8] {
                assert!(unpacker.unpack(&packed[..end], &mut out).is_err(), "{end}");
            }
            // The unpacker does not write beyond the cluster.
            let mut short = vec![1; 512];
            let outcome = unpacker.unpack(&packed, &mut short);
            assert!(outcome.is_err() || short == cluster()[..512]);
            assert!(unpacker.unpack(&packed, &mut vec![1; 65537]).is_err());
        }
    }
}
