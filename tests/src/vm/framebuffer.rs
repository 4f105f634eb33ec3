//! Recognises the text on the picture of a graphic console.
//!
//! With UEFI, and on most BMCs, the kernel draws characters on a framebuffer, so no
//! memory holds the characters. Each character is a cell of 8 by 16 pixels in two
//! colours. The pattern of the cell is a glyph of the kernel's font.

use std::collections::{BTreeSet, HashMap};
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use flate2::read::GzDecoder;

/// The size of a cell, in pixels.
const WIDTH: usize = 8;
const HEIGHT: usize = 16;

/// Replaces a cell that matches no glyph of the font, such as the cell under the
/// cursor.
const UNKNOWN: char = '\u{fffd}';

/// The rows of a character. The highest bit is the pixel on the left.
type Glyph = [u8; HEIGHT];

/// The glyphs that differ between the kernel's font (`lib/fonts/font_8x16.c`) and
/// Debian's file of the same VGA font.
const OF_THE_KERNEL: [(char, Glyph); 5] = [
    ('\'', [0, 48, 48, 48, 96, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    ('`', [0, 48, 24, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    (
        'f',
        [0, 0, 28, 54, 50, 48, 120, 48, 48, 48, 48, 120, 0, 0, 0, 0],
    ),
    (
        'v',
        [0, 0, 0, 0, 0, 198, 198, 198, 198, 198, 108, 56, 0, 0, 0, 0],
    ),
    ('~', [0, 118, 220, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
];

/// The printable ASCII characters of the console's font.
pub(super) struct Font(HashMap<Glyph, char>);

impl Font {
    /// Reads a font of Debian's console-setup.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let packed = std::fs::read(path)
            .with_context(|| format!("reading {} (make setup downloads it)", path.display()))?;
        let mut psf = Vec::new();
        GzDecoder::new(&packed[..]).read_to_end(&mut psf)?;
        Self::parse(&psf).with_context(|| path.display().to_string())
    }

    /// Reads a PC screen font of version 1 (psf.h of kbd): a magic number, the mode, the
    /// height of the glyphs, then the glyphs.
    fn parse(psf: &[u8]) -> Result<Self> {
        ensure!(
            psf.len() >= 4 && psf[..2] == [0x36, 0x04] && usize::from(psf[3]) == HEIGHT,
            "expected a PSF 1 font of {HEIGHT} lines, found {:02x?}",
            &psf[..psf.len().min(4)]
        );
        let glyphs = psf[4..].chunks_exact(HEIGHT).zip('\0'..='~');
        let printable = glyphs.filter(|(_, character)| *character >= ' ');
        let mut characters: HashMap<Glyph, char> = HashMap::new();
        for (rows, character) in printable {
            if OF_THE_KERNEL.iter().all(|(own, _)| *own != character) {
                characters.insert(rows.try_into()?, character);
            }
        }
        characters.extend(OF_THE_KERNEL.map(|(character, glyph)| (glyph, character)));
        ensure!(
            characters.len() == usize::from(b'~' - b' ') + 1,
            "expected a glyph for each ASCII character, found {}",
            characters.len()
        );
        Ok(Self(characters))
    }
}

/// A screen as pixels.
pub(super) struct Picture {
    pub(super) width: usize,
    pub(super) height: usize,
    /// Red, green and blue of each pixel, row by row.
    bytes: Vec<u8>,
}

const COLOURS: usize = 3;

impl Picture {
    /// Reads a PPM file of the kind that QEMU writes (`P6`, 8 bits a colour).
    pub(super) fn parse(ppm: &[u8]) -> Result<Self> {
        let mut fields = ppm.splitn(4, u8::is_ascii_whitespace);
        let mut field = || {
            let field = fields.next().context("the file ends early")?;
            Ok::<_, anyhow::Error>(std::str::from_utf8(field)?)
        };
        ensure!(field()? == "P6", "expected the magic number P6");
        let (width, height): (usize, usize) = (field()?.parse()?, field()?.parse()?);
        let rest = fields.next().context("the file ends early")?;
        let bytes = rest
            .strip_prefix(b"255\n")
            .context("expected 8 bits a colour")?;
        ensure!(
            bytes.len() == width * height * COLOURS,
            "expected {width}x{height} pixels, found {} bytes",
            bytes.len()
        );
        Ok(Self {
            width,
            height,
            bytes: bytes.to_owned(),
        })
    }

    /// Returns the characters on the picture, row by row.
    pub(super) fn rows(&self, font: &Font) -> Vec<String> {
        let row =
            |row| (0..self.width / WIDTH).map(move |column| self.character(font, row, column));
        (0..self.height / HEIGHT)
            .map(|number| row(number).collect())
            .collect()
    }

    fn character(&self, font: &Font, row: usize, column: usize) -> char {
        let line = |y: usize| {
            let start = (row * HEIGHT + y) * self.width + column * WIDTH;
            self.bytes[start * COLOURS..(start + WIDTH) * COLOURS].chunks_exact(COLOURS)
        };
        let colours: BTreeSet<&[u8]> = (0..HEIGHT).flat_map(line).collect();
        match colours.len() {
            1 => return ' ',
            2 => {}
            _ => return UNKNOWN,
        }
        let bit = |bits: u8, is_set: bool| bits << 1 | u8::from(is_set);
        let glyph = |colour: &[u8]| -> Glyph {
            std::array::from_fn(|y| line(y).fold(0, |bits, pixel| bit(bits, pixel == colour)))
        };
        // Either colour may be that of the character: the title is dark on light.
        { colours.into_iter() }
            .find_map(|colour| font.0.get(&glyph(colour)).copied())
            .unwrap_or(UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifacts;

    /// The screen of a host that was booted by UEFI.
    const KEPT: &[u8] = include_bytes!("../../test_data/screens/uefi.ppm.gz");
    const TEXT: &str = include_str!("../../test_data/screens/uefi.txt");

    fn kept() -> Picture {
        let mut ppm = Vec::new();
        GzDecoder::new(KEPT).read_to_end(&mut ppm).unwrap();
        Picture::parse(&ppm).unwrap()
    }

    #[test]
    fn the_text_of_a_kept_picture_is_read() {
        let font = Font::read(&artifacts::console_font().unwrap()).unwrap();
        let rows = kept().rows(&font);
        assert!(rows.iter().all(|row| row.chars().count() == 160));
        let text: String = { rows.iter() }
            .map(|row| row.trim_end().to_owned() + "\n")
            .collect();
        // The cursor is in the last line.
        let text = text.trim_end().trim_end_matches(UNKNOWN).trim_end();
        assert_eq!(text, TEXT.trim_end());
    }

    #[test]
    fn a_picture_is_not_guessed() {
        let font = Font::read(&artifacts::console_font().unwrap()).unwrap();
        let mut picture = kept();
        // One more pixel in the first letter of the title.
        let at = (7 * picture.width + WIDTH) * COLOURS;
        let background = picture.bytes[..COLOURS].to_owned();
        let pixel = &mut picture.bytes[at..at + COLOURS];
        if pixel == background {
            pixel.copy_from_slice(&[1, 2, 3]);
        } else {
            pixel.copy_from_slice(&background);
        }
        assert!(picture.rows(&font)[0].starts_with(&format!(" {UNKNOWN}andfall ")));
        for ppm in [&b"P6\n2 1\n255\nabcde"[..], b"P6\n2", b"P5\n1 1\n255\nabc"] {
            assert!(Picture::parse(ppm).is_err(), "{ppm:?}");
        }
    }
}
