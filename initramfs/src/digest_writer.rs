//! Counts and digests the bytes that pass through a writer.

use std::io::{self, Write};

use sha2::{Digest, Sha256};

#[derive(Debug)]
pub struct DigestWriter<W> {
    out: W,
    digest: Sha256,
    bytes: u64,
}

impl<W: Write> DigestWriter<W> {
    pub fn new(out: W) -> Self {
        Self {
            out,
            digest: Sha256::new(),
            bytes: 0,
        }
    }

    /// Number of bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of bytes written, and their SHA-256 as sha256sum prints it.
    pub fn finish(self) -> (u64, String) {
        (self.bytes, hex(&self.digest.finalize()))
    }
}

impl<W: Write> Write for DigestWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.digest.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The SHA-256 of these bytes in hexadecimal, as sha256sum prints it.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The bytes as lower-case hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_as_sha256sum_does() {
        let mut writer = DigestWriter::new(Vec::new());
        writer.write_all(b"ab").unwrap();
        writer.write_all(b"c").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(writer.bytes(), 3);
        assert_eq!(writer.finish(), (3, expected.to_owned()));
        assert_eq!(sha256(b"abc"), expected);
    }
}
