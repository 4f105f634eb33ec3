//! A value together with its source.

use std::fmt;

/// The source of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// No source gave a value, or none that could be parsed.
    #[default]
    Default,
    /// A kernel argument: its text, with a secret value masked.
    KernelArgument(String),
    /// `parameters.txt` of virtual media: the device that held it.
    Parameters(String),
    /// A configuration file: its path. Also config.ign, and the environment and the
    /// defaults of OpenShift's agent container: a description.
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

/// A value with its source. The console and `show-params` print both, so that an operator
/// can see which source's value took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    pub value: T,
    pub origin: Origin,
}

impl<T> Setting<T> {
    /// A value that no source gave.
    pub(crate) fn from_default(value: T) -> Setting<T> {
        Setting {
            value,
            origin: Origin::Default,
        }
    }

    /// True if no source gave the value.
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
