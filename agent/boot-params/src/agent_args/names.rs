//! The external names of settings.

/// The names of one setting. Most settings have two: a kernel argument, and an
/// option in files and answers that follow oslo.config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// The kernel argument. Names in upper case are environment variables too,
    /// since the kernel passes arguments that it does not know to init as
    /// environment variables.
    pub argument: Option<&'static str>,
    /// The option: `name` in `[DEFAULT]`, `group.name` in another group.
    pub option: Option<&'static str>,
    /// No file can set the option; Ironic's lookup answer does.
    pub only_in_lookup: bool,
    /// The setting is read and checked, but has no effect. The agent reports it if
    /// it is set, which matters most for settings about security.
    pub is_ignored: bool,
}

/// The kernel argument that names the boot NIC. It is not an option.
pub(super) const BOOTIF: &str = "BOOTIF";

/// At most this many unknown names are reported for one source.
pub(super) const MAX_UNKNOWN: usize = 100;

const NONE: Names = Names {
    argument: None,
    option: None,
    only_in_lookup: false,
    is_ignored: false,
};

pub(super) const fn both(argument: &'static str, option: &'static str) -> Names {
    Names {
        argument: Some(argument),
        ..file(option)
    }
}

/// The names of a setting that only the kernel command line can give: a fact about this boot.
pub(super) const fn argument(argument: &'static str) -> Names {
    Names {
        argument: Some(argument),
        ..NONE
    }
}

/// An option that has no kernel argument.
pub(super) const fn file(option: &'static str) -> Names {
    Names {
        option: Some(option),
        ..NONE
    }
}

/// An option that only a lookup answer sets.
pub(super) const fn lookup_only(option: &'static str) -> Names {
    Names {
        only_in_lookup: true,
        ..file(option)
    }
}

/// A setting that has no effect.
pub(super) const fn ignored(names: Names) -> Names {
    Names {
        is_ignored: true,
        ..names
    }
}

impl Names {
    /// The name to print: the kernel argument, or else the option.
    pub fn shown(&self) -> &'static str {
        match (self.argument, self.option) {
            (Some(name), _) | (None, Some(name)) => name,
            (None, None) => "",
        }
    }
}

/// The candidate closest to a mistyped name, if one is close enough.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // At most a quarter of the characters, and at most three, may differ. Beyond
    // that a suggestion is a guess, since all arguments start with the same prefix.
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
