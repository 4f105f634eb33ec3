//! Finds the correct name for a mistyped one.

/// The candidate closest to a mistyped name, if one is close enough.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // At most a quarter of the characters, and at most three characters, may differ. Many
    // names start with the same prefix, so a suggestion with more differences would be a
    // guess.
    nearest_within(name, name.len().div_ceil(4).min(3), candidates)
}

/// The candidate closest to a mistyped name, if at most `limit` characters differ.
pub fn nearest_within<'a>(
    name: &str,
    limit: usize,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= limit)
        // A swap of two neighbouring characters (`ulr`), the most common typo, is one
        // edit, not two.
        .map(|candidate| (strsim::osa_distance(name, candidate), candidate))
        .filter(|&(distance, _)| distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_near_miss_is_offered() {
        let names = || ["ipa-api-url", "ipa-debug", "ipa-insecure"].into_iter();
        assert_eq!(nearest("ipa-api-ulr", names()), Some("ipa-api-url"));
        assert_eq!(nearest("ipa-unsecure", names()), Some("ipa-insecure"));
        assert_eq!(nearest("ipa-foo", names()), None);
        assert_eq!(nearest("", names()), None);
    }
}
