//! A value together with where it came from.

use std::fmt;

/// Where a value came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything, or nothing that could be read.
    #[default]
    Default,
    /// A kernel argument: its text, with a secret's value masked.
    KernelArgument(String),
    /// `parameters.txt` of virtual media: the device it was read from.
    Parameters(String),
    /// A configuration file: its path.
    File(String),
    /// An mDNS answer.
    Mdns,
    /// Ironic's answer to the lookup.
    Lookup,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::KernelArgument(text) => write!(f, "kernel argument {text}"),
            Origin::Parameters(device) => write!(f, "parameters.txt on {device}"),
            Origin::File(path) => f.write_str(path),
            Origin::Mdns => f.write_str("mDNS"),
            Origin::Lookup => f.write_str("lookup"),
        }
    }
}

/// A value that can say where it came from. The console and `show-params`
/// print both: an operator must not have to guess which of two settings won.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// What counts.
    pub value: T,
    /// Who said so.
    pub origin: Origin,
}

impl<T> Setting<T> {
    /// A value that nobody gave.
    pub fn from_default(value: T) -> Setting<T> {
        Setting {
            value,
            origin: Origin::Default,
        }
    }

    /// True unless somebody gave the value.
    pub fn is_default(&self) -> bool {
        self.origin == Origin::Default
    }
}

impl<T> std::ops::Deref for Setting<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
