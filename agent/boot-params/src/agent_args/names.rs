//! What a setting is called by those who set it.

use crate::edit_distance::edit_distance;

/// The names of one setting. Most have two: a kernel argument, and an option
/// in the files and answers that follow oslo.config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// The kernel argument; an environment variable in upper case, since the
    /// kernel makes those of arguments that it does not know.
    pub argument: Option<&'static str>,
    /// The option: `name` in `[DEFAULT]`, `group.name` in another group.
    pub option: Option<&'static str>,
    /// The option cannot stand in a file: only Ironic's lookup answer sets it.
    pub only_told: bool,
}

/// A setting with both names.
pub(super) const fn both(argument: &'static str, option: &'static str) -> Names {
    Names {
        argument: Some(argument),
        option: Some(option),
        only_told: false,
    }
}

/// A fact of this boot that no file can know.
pub(super) const fn argument(argument: &'static str) -> Names {
    Names {
        argument: Some(argument),
        option: None,
        only_told: false,
    }
}

/// An option that has no kernel argument.
pub(super) const fn file(option: &'static str) -> Names {
    Names {
        argument: None,
        option: Some(option),
        only_told: false,
    }
}

/// What only a lookup answer says.
pub(super) const fn told(option: &'static str) -> Names {
    Names {
        argument: None,
        option: Some(option),
        only_told: true,
    }
}

impl Names {
    /// The name for people: the kernel argument, or else the option.
    pub fn shown(&self) -> &'static str {
        match (self.argument, self.option) {
            (Some(name), _) | (None, Some(name)) => name,
            (None, None) => "",
        }
    }
}

/// The candidate that differs least from a mistyped name, if it differs little.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A quarter of the letters: beyond that a suggestion is a riddle, and all
    // arguments begin alike.
    let limit = name.len().div_ceil(4).min(3);
    candidates
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= limit)
        .map(|candidate| (edit_distance(name, candidate), candidate))
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
