//! Parses one text from any source into one setting.

use crate::argument_value::ArgumentValue;
use crate::setting::{Origin, Setting};
use crate::shown::without_secrets;

/// At most this many characters of a value are repeated in a warning.
const SHOWN: usize = 200;

/// A value for one setting, as text from one source.
pub(super) struct GivenText<'a> {
    /// The name of the setting as warnings print it: `ipa-debug=`, or
    /// `/etc/x.conf: debug = `.
    pub(super) name: String,
    pub(super) text: &'a str,
    /// The source of the value. [`assign`] completes [`Origin::KernelArgument`] with the
    /// text of the argument, in which secrets are masked.
    pub(super) origin: Origin,
    /// True if an empty text removes the value that another source gave. If the type has
    /// no empty value (`ArgumentValue::empty`), an empty text is then invalid. False if
    /// an empty text is ignored.
    pub(super) empty_counts: bool,
}

/// Parses the text into the setting. If it is not valid, warns and keeps the old
/// value.
pub(super) fn assign<T: ArgumentValue>(
    setting: &mut Setting<T>,
    given: GivenText<'_>,
    warnings: &mut Vec<String>,
) {
    let text = given.text.trim();
    if text.is_empty() {
        if !given.empty_counts {
            return;
        }
        if let Some(value) = T::empty() {
            let origin = given.origin;
            *setting = Setting { value, origin };
            return;
        }
    }
    match Some(text)
        .filter(|text| !text.is_empty())
        .and_then(T::parse)
    {
        Some(value) => {
            let origin = match given.origin {
                Origin::KernelArgument(_) => {
                    Origin::KernelArgument(format!("{}{}", given.name, shown::<T>(text)))
                }
                other => other,
            };
            *setting = Setting { value, origin };
        }
        None => {
            let (name, text, expected) = (given.name, shown::<T>(text), T::EXPECTED);
            warnings.push(format!(
                "{name}{text}: expected {expected}; {}",
                kept(setting)
            ));
        }
    }
}

/// The value as warnings and listings show it: on one line, cut after [`SHOWN`]
/// characters, and with secrets masked.
pub(super) fn shown<T: ArgumentValue>(text: &str) -> String {
    if T::SECRET {
        return "***".to_owned();
    }
    let masked = match text.rsplit_once('@') {
        // A proxy without a scheme is not a URL, but it can contain a password:
        // `HTTP_PROXY=user:password@proxy:3128`.
        Some((_, host)) if !text.contains("://") => format!("***@{host}").into(),
        _ => without_secrets(text),
    };
    let mut shown: String = masked
        .chars()
        .take(SHOWN)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if masked.chars().nth(SHOWN).is_some() {
        shown.push_str("...");
    }
    shown
}

/// The value that stays in effect, and its source, for the warning about an invalid
/// value.
fn kept<T: ArgumentValue>(setting: &Setting<T>) -> String {
    let value = match setting.to_text() {
        text if text.is_empty() => "none".to_owned(),
        text => shown::<T>(&text),
    };
    match &setting.origin {
        Origin::Default => format!("default used ({value})"),
        origin => format!("{value} used ({origin})"),
    }
}
