//! Decompression, by what the bytes are and never by a file's name.

use std::fmt;
use std::io::{self, BufRead, Chain, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

/// `xz -9` has a dictionary of 64 MiB. More than that is no image for a host
/// whose memory we do not know; liblzma then says so instead of the OOM killer.
const XZ_MEMORY_LIMIT: u64 = 80 << 20;
/// `zstd --ultra -22` has a window of 128 MiB, the format's default limit;
/// `--long=31` needs 2 GiB and is refused.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// How an image is packed on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Not packed.
    Raw,
    /// gzip, one or more members (RFC 1952).
    Gzip,
    /// Zstandard, one or more frames (RFC 8878).
    Zstd,
    /// xz, one or more streams.
    Xz,
}

impl Packing {
    /// What the first bytes say; everything unknown is `Raw`, whose content is
    /// judged later.
    pub fn by_content(start: &[u8]) -> Self {
        match start {
            // RFC 1952, 2.3.1: the only compression method is 8.
            [0x1f, 0x8b, 0x08, ..] => Self::Gzip,
            // RFC 8878, 3.1.1 and 3.1.2: a frame, or a skippable frame, with
            // which pzstd begins its files.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            _ => Self::Raw,
        }
    }
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raw => "raw",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
        })
    }
}

type Input<R> = Chain<Cursor<Vec<u8>>, R>;

/// The decoder of one stream. Reads to the end of its input: bytes after the
/// packed stream, and an input that ends inside it, are errors.
pub struct Decoder<R: BufRead> {
    packing: Packing,
    stream: Unpack<R>,
}

enum Unpack<R: BufRead> {
    Raw(Input<R>),
    Gzip(MultiGzDecoder<Input<R>>),
    Zstd(zstd::stream::read::Decoder<'static, Input<R>>),
    Xz(XzDecoder<Input<R>>),
}

impl<R: BufRead> Decoder<R> {
    /// A decoder of this stream, after a look at its first bytes. Also returns
    /// the unpacked size, if the stream's first header promises one: the whole
    /// size or less.
    ///
    /// # Errors
    /// If the stream cannot be read, or the header is broken.
    pub fn new(mut input: R) -> io::Result<(Self, Option<u64>)> {
        let mut start = Vec::new();
        (&mut input)
            .take(ZSTD_HEADER_LEN as u64)
            .read_to_end(&mut start)?;
        let packing = Packing::by_content(&start);
        let promised = match packing {
            Packing::Zstd => zstd_content_size(&start),
            // gzip's length field is modulo 4 GiB and at the very end; xz's
            // index is at the end, too.
            Packing::Raw | Packing::Gzip | Packing::Xz => None,
        };
        let input = Cursor::new(start).chain(input);
        let stream = match packing {
            Packing::Raw => Unpack::Raw(input),
            Packing::Gzip => Unpack::Gzip(MultiGzDecoder::new(input)),
            Packing::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Unpack::Zstd(decoder)
            }
            Packing::Xz => {
                let stream = Stream::new_stream_decoder(XZ_MEMORY_LIMIT, CONCATENATED)?;
                Unpack::Xz(XzDecoder::new_stream(input, stream))
            }
        };
        Ok((Self { packing, stream }, promised))
    }

    /// How the stream is packed.
    pub fn packing(&self) -> Packing {
        self.packing
    }

    /// The input, to read what is left of it after an error.
    pub fn into_input(self) -> R {
        match self.stream {
            Unpack::Raw(input) => input,
            Unpack::Gzip(decoder) => decoder.into_inner(),
            Unpack::Zstd(decoder) => decoder.finish(),
            Unpack::Xz(decoder) => decoder.into_inner(),
        }
        .into_inner()
        .1
    }

    /// Fills the buffer as far as the stream reaches.
    ///
    /// # Errors
    /// What the stream says.
    pub fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(filled)
    }
}

impl<R: BufRead> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.stream {
            Unpack::Raw(input) => input.read(buffer),
            Unpack::Gzip(decoder) => decoder.read(buffer),
            Unpack::Zstd(decoder) => decoder.read(buffer),
            Unpack::Xz(decoder) => decoder.read(buffer),
        }
    }
}

impl<R: BufRead> fmt::Debug for Decoder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decoder({})", self.packing)
    }
}

/// RFC 8878, 3.1.1.1: the frame header is at most 14 bytes after its magic.
const ZSTD_HEADER_LEN: usize = 18;

/// The content size in the header of the first frame. More frames may follow.
fn zstd_content_size(start: &[u8]) -> Option<u64> {
    zstd::zstd_safe::get_frame_content_size(start)
        .ok()
        .flatten()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn pack(packing: Packing, bytes: &[u8]) -> Vec<u8> {
        match packing {
            Packing::Raw => bytes.to_vec(),
            Packing::Gzip => {
                let level = flate2::Compression::fast();
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            Packing::Zstd => zstd::bulk::compress(bytes, 1).unwrap(),
            Packing::Xz => {
                let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
        }
    }

    const PACKED: [Packing; 3] = [Packing::Gzip, Packing::Zstd, Packing::Xz];

    fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
        let (mut decoder, _) = Decoder::new(packed)?;
        let mut out = Vec::new();
        decoder.read_to_end(&mut out)?;
        Ok(out)
    }

    fn sample() -> Vec<u8> {
        (0..100_000u32)
            .flat_map(|n| (n % 251).to_le_bytes())
            .collect()
    }

    #[test]
    fn every_packing_is_known_by_content() {
        for packing in [Packing::Raw, Packing::Gzip, Packing::Zstd, Packing::Xz] {
            let packed = pack(packing, &sample());
            let (mut decoder, _) = Decoder::new(&packed[..]).unwrap();
            assert_eq!(decoder.packing(), packing);
            let mut buffer = vec![0; 1 << 20];
            assert_eq!(decoder.fill(&mut buffer).unwrap(), sample().len());
            assert_eq!(buffer[..sample().len()], sample());
        }
        assert_eq!(unpack(b"").unwrap(), b"");
    }

    #[test]
    fn several_members_are_one_image() {
        for packing in PACKED {
            let mut packed = pack(packing, b"first ");
            packed.extend(pack(packing, b"second"));
            assert_eq!(unpack(&packed).unwrap(), b"first second", "{packing}");
        }
    }

    #[test]
    fn truncated_anywhere_is_an_error() {
        for packing in PACKED {
            let packed = pack(packing, &sample());
            for keep in [8, 20, packed.len() / 2, packed.len() - 1] {
                assert!(unpack(&packed[..keep]).is_err(), "{packing} cut at {keep}");
            }
        }
    }

    #[test]
    fn trailing_bytes_are_an_error() {
        for packing in PACKED {
            for tail in [&b"garbage"[..], b"x", &[0x1f, 0x8b]] {
                let mut packed = pack(packing, &sample());
                packed.extend_from_slice(tail);
                assert!(unpack(&packed).is_err(), "{packing} + {tail:?}");
            }
        }
    }

    #[test]
    fn damaged_content_is_an_error() {
        for packing in [Packing::Gzip, Packing::Xz] {
            let mut packed = pack(packing, &sample());
            let middle = packed.len() / 2;
            packed[middle] ^= 0x10;
            assert!(unpack(&packed).is_err(), "{packing}");
        }
    }

    #[test]
    fn zstd_promises_its_size() {
        let packed = pack(Packing::Zstd, &sample());
        let (_, promised) = Decoder::new(&packed[..]).unwrap();
        assert_eq!(promised, Some(sample().len() as u64));
    }

    #[test]
    fn an_xz_dictionary_beyond_the_limit_is_refused() {
        // 1 GiB of dictionary, announced in the header; costs the writer nothing.
        let mut options = liblzma::stream::LzmaOptions::new_preset(0).unwrap();
        options.dict_size(1 << 30);
        let mut filters = liblzma::stream::Filters::new();
        filters.lzma2(&options);
        let Ok(stream) = Stream::new_stream_encoder(&filters, liblzma::stream::Check::Crc32) else {
            panic!("liblzma refuses to encode");
        };
        let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
        encoder.write_all(b"x").unwrap();
        let packed = encoder.finish().unwrap();
        let error = unpack(&packed).unwrap_err().to_string();
        assert!(error.contains("memory"), "{error}");
    }

    proptest! {
        #[test]
        fn mutated_input_never_panics(
            kind in 0usize..3,
            places in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..8),
            keep in any::<proptest::sample::Index>(),
        ) {
            let mut packed = pack(PACKED[kind], &sample());
            for (place, byte) in places {
                let place = place.index(packed.len());
                packed[place] = byte;
            }
            let _ = unpack(&packed);
            let _ = unpack(&packed[..keep.index(packed.len())]);
        }

        /// Reads of any size over input chunks of any size give the same bytes.
        #[test]
        fn chunking_changes_nothing(
            kind in 0usize..3,
            chunk in 1usize..3000,
            read in 1usize..5000,
        ) {
            let packed = pack(PACKED[kind], &sample());
            let input = io::BufReader::with_capacity(chunk, &packed[..]);
            let (mut decoder, _) = Decoder::new(input).unwrap();
            let mut out = Vec::new();
            let mut buffer = vec![0; read];
            loop {
                let n = decoder.fill(&mut buffer).unwrap();
                out.extend_from_slice(&buffer[..n]);
                if n < read {
                    break;
                }
            }
            prop_assert!(out == sample());
        }
    }
}
