//! One text into one setting, from wherever it comes.

use crate::argument_value::ArgumentValue;
use crate::setting::{Origin, Setting};
use crate::shown::without_secrets;

/// Characters of a value that a warning repeats.
const SHOWN: usize = 200;

/// What somebody says about one setting.
pub(super) struct Said<'a> {
    /// What they call it, as a warning shall name it: `ipa-debug=`, or
    /// `/etc/x.conf: debug = `.
    pub(super) name: String,
    /// The value's text.
    pub(super) text: &'a str,
    /// Who they are. The text of a kernel argument is added here, masked.
    pub(super) origin: Origin,
    /// An empty text takes the value away that another source gave, instead
    /// of saying nothing.
    pub(super) empty_counts: bool,
}

/// Takes what is said, or warns and leaves what there is.
pub(super) fn assign<T: ArgumentValue>(
    setting: &mut Setting<T>,
    said: Said<'_>,
    warnings: &mut Vec<String>,
) {
    let text = said.text.trim();
    if text.is_empty() {
        if !said.empty_counts {
            return;
        }
        if let Some(value) = T::empty() {
            let origin = said.origin;
            *setting = Setting { value, origin };
            return;
        }
    }
    match Some(text)
        .filter(|text| !text.is_empty())
        .and_then(T::parse)
    {
        Some(value) => {
            let origin = match said.origin {
                Origin::KernelArgument(_) => {
                    Origin::KernelArgument(format!("{}{}", said.name, shown::<T>(text)))
                }
                other => other,
            };
            *setting = Setting { value, origin };
        }
        None => {
            let (name, text, expected) = (said.name, shown::<T>(text), T::EXPECTED);
            warnings.push(format!(
                "{name}{text}: expected {expected}; {}",
                kept(setting)
            ));
        }
    }
}

/// A value as others may see it: secrets masked, not endless, on one line.
pub(super) fn shown<T: ArgumentValue>(text: &str) -> String {
    if T::SECRET {
        return "***".to_owned();
    }
    let masked = match text.rsplit_once('@') {
        // `HTTP_PROXY=user:password@proxy:3128`: no URL, but meant as one.
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

/// What counts instead of a value that cannot be read.
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
