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
        .map(|candidate| (distance(word.as_bytes(), candidate.as_bytes()), candidate))
        .filter(|&(distance, _)| distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance: each insertion, deletion and replacement counts 1.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("", "", 0),
            ("a", "", 1),
            ("kitten", "sitting", 3),
            ("e1000e", "e1000", 1),
        ] {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
            assert_eq!(distance(b.as_bytes(), a.as_bytes()), expected, "{b} {a}");
        }
    }

    #[test]
    fn only_a_near_miss_is_offered() {
        let names = || ["virtio_net", "virtio_blk", "xfs"].into_iter();
        assert_eq!(nearest("virtio_nett", names()), Some("virtio_net"));
        assert_eq!(nearest("virtnet", names()), Some("virtio_net"));
        assert_eq!(nearest("floppy", names()), None);
        assert_eq!(nearest("xfx", names()), Some("xfs"));
    }
}
