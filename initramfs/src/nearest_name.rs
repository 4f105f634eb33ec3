//! Guesses which name was meant by a mistyped one.

/// The candidate with the smallest distance to `word`, if that distance is small.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    // If more than a third of the letters differ, a suggestion only confuses.
    let limit = word.len().div_ceil(3).min(4);
    candidates
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= limit)
        .map(|candidate| (strsim::levenshtein(word, candidate), candidate))
        .filter(|&(distance, _)| distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_near_miss_is_offered() {
        let names = || ["virtio_net", "virtio_blk", "xfs"].into_iter();
        assert_eq!(nearest("virtio_nett", names()), Some("virtio_net"));
        assert_eq!(nearest("virtnet", names()), Some("virtio_net"));
        assert_eq!(nearest("floppy", names()), None);
        assert_eq!(nearest("xfx", names()), Some("xfs"));
    }
}
