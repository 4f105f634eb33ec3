//! The external names of settings.

/// The names of one setting. Most settings have two names: a kernel argument, and an
/// oslo.config option for files, Ironic's lookup answer and mDNS answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// The kernel argument. Names in upper case are environment variables too,
    /// since the kernel passes arguments that it does not know to init as
    /// environment variables.
    pub argument: Option<&'static str>,
    /// The option: `name` in `[DEFAULT]`, `group.name` in another group.
    pub option: Option<&'static str>,
    /// True if only Ironic's lookup answer sets the option: no file can set it.
    pub only_in_lookup: bool,
}

/// The kernel argument that names the boot NIC. There is no oslo.config option for it.
pub(super) const BOOTIF: &str = "BOOTIF";

/// At most this many unknown names are reported for one source.
pub(super) const MAX_UNKNOWN: usize = 100;

const NONE: Names = Names {
    argument: None,
    option: None,
    only_in_lookup: false,
};

pub(super) const fn both(argument: &'static str, option: &'static str) -> Names {
    Names {
        argument: Some(argument),
        ..file(option)
    }
}

/// The names of a setting that only the kernel command line and `parameters.txt` can
/// give: a fact about this boot.
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

impl Names {
    /// The name to print: the kernel argument, or the option if there is no argument.
    pub fn shown(&self) -> &'static str {
        match (self.argument, self.option) {
            (Some(name), _) | (None, Some(name)) => name,
            (None, None) => "",
        }
    }
}
