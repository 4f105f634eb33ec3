//! Settings as `show-params` and the console print them.

use super::assign::shown;
use super::names::BOOTIF;
use crate::argument_value::ArgumentValue;
use crate::mac::BootInterface;
use crate::setting::{Origin, Setting};

/// A line of `show-params`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSetting<'a> {
    /// The kernel argument of the setting, or its option if it has no kernel argument.
    pub key: &'static str,
    /// The value of the setting as text, with secrets masked; empty if the setting has
    /// none.
    pub value: String,
    pub origin: &'a Origin,
}

impl<'a> ListedSetting<'a> {
    pub(super) fn new<T: ArgumentValue>(key: &'static str, setting: &'a Setting<T>) -> Self {
        let text = setting.to_text();
        ListedSetting {
            key,
            value: if text.is_empty() {
                text
            } else {
                shown::<T>(&text)
            },
            origin: &setting.origin,
        }
    }

    pub(super) fn of_boot_interface(setting: &'a Setting<Option<BootInterface>>) -> Self {
        let interface = setting.value.as_ref();
        ListedSetting {
            key: BOOTIF,
            value: interface.map(|i| i.mac.to_string()).unwrap_or_default(),
            origin: &setting.origin,
        }
    }
}
