//! Recognises zeros, which need not be written.

pub fn all_zero(bytes: &[u8]) -> bool {
    // The compiler vectorises this loop over whole words.
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| u128::from_ne_bytes(*word) == 0) && rest.iter().all(|&b| b == 0)
}
