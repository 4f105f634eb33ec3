//! Edits the permanent kernel arguments, which are the `options` of a boot loader
//! entry.
//!
//! The result equals that of coreos-installer (`src/io/bls.rs`) byte for byte, so that
//! the tools of the installed system find what they expect. The edit works on `" " +
//! options + " "`. Each deletion replaces every `" x "` with one space; then the new
//! arguments are appended, even if the options already have them.

use landfall_report::failure::{Failure, Result};

use crate::grub_words::{self, WordError};

const PLATFORM: &str = "ignition.platform.id=";
/// The platform of an image for bare metal, as the images of CoreOS name it.
pub const METAL: &str = "metal";

/// One pass over the arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Sets another platform instead of `metal`.
    Platform(String),
    /// Deletes arguments, then appends others.
    Change {
        /// Arguments to delete, wherever they are; a missing one is no error.
        delete: Vec<String>,
        /// Arguments to append.
        append: Vec<String>,
    },
}

impl Step {
    /// The part of the step that also applies to the variables that the options name:
    /// everything except appending.
    fn within_variable(&self) -> Self {
        match self {
            Self::Platform(_) => self.clone(),
            Self::Change { delete, .. } => Self::Change {
                delete: delete.clone(),
                append: Vec::new(),
            },
        }
    }

    pub fn edit(&self, options: &str) -> String {
        let mut text = format!(" {options} ");
        match self {
            Self::Platform(platform) => {
                let (old, new) = (
                    format!(" {PLATFORM}{METAL} "),
                    format!(" {PLATFORM}{platform} "),
                );
                text = text.replace(&old, &new);
            }
            Self::Change { delete, append } => {
                for argument in delete {
                    text = text.replace(&format!(" {} ", argument.trim()), " ");
                }
                for argument in append {
                    text.push_str(argument.trim());
                    text.push(' ');
                }
            }
        }
        text.trim().to_owned()
    }
}

/// Rejects arguments that cannot be deleted, because the options never contain them:
/// empty ones, and those with a line break or another control character.
pub fn check_deleted(arguments: &[String]) -> Result<()> {
    for argument in arguments {
        if argument.trim().is_empty() || argument.contains(|c: char| c.is_control()) {
            return Err(Failure::invalid_params(format!(
                "kernel argument {argument:?}: expected text that is not empty and has no line break or other control character"
            )));
        }
    }
    Ok(())
}

/// Rejects arguments that GRUB would not pass to the kernel unchanged, because it parses
/// the options as a part of a script.
///
/// # Errors
/// If an argument is empty or has a control character, or if [`grub_words::check`]
/// rejects it.
pub fn check_appended(arguments: &[String]) -> Result<()> {
    check_deleted(arguments)?;
    for argument in arguments {
        grub_words::check(argument.trim()).map_err(|reason| {
            Failure::invalid_params(format!("kernel argument {argument:?}: {reason}"))
        })?;
    }
    Ok(())
}

/// Rejects a platform that is not one word of letters, digits, `-`, `_` and `.`.
pub fn check_platform(platform: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if !platform.is_empty() && platform.chars().all(fits) {
        Ok(())
    } else {
        Err(Failure::invalid_params(format!(
            "platform {platform:?}: expected a name like metal, openstack or qemu"
        )))
    }
}

/// Why kernel arguments cannot be edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// In coreos-installer's words, because people search for them.
    #[error("couldn't locate platform ID: no {PLATFORM}{METAL} among the kernel arguments")]
    NoPlatform,
    #[error("kernel arguments {edited:?}: {reason}")]
    Words { edited: String, reason: WordError },
}

/// Applies all steps to the `options`, one after the other. `variables` are the names and
/// values of the variables that the options name; the steps edit these values too.
///
/// # Errors
/// If neither the options nor a variable has the platform argument that a step replaces,
/// or if GRUB could parse the old options but not the new ones.
pub fn edit(
    options: &str,
    variables: &mut [(String, String)],
    steps: &[Step],
) -> std::result::Result<String, EditError> {
    let mut edited = options.trim().to_owned();
    for step in steps {
        let old = std::mem::take(&mut edited);
        edited = step.edit(&old);
        let mut any = edited != old;
        for (_, value) in variables.iter_mut() {
            let old = std::mem::take(value);
            *value = step.within_variable().edit(&old);
            any |= *value != old;
        }
        if matches!(step, Step::Platform(_)) && !any {
            return Err(EditError::NoPlatform);
        }
    }
    // A deletion may have removed half of a quoted text. That is an error only if GRUB
    // could parse the old options.
    if grub_words::check(options.trim()).is_ok()
        && let Err(reason) = grub_words::check(&edited)
    {
        return Err(EditError::Words { edited, reason });
    }
    Ok(edited)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    fn change(append: &[&str], delete: &[&str]) -> Step {
        Step::Change {
            delete: strings(delete),
            append: strings(append),
        }
    }

    /// Rows that were observed with coreos-installer 0.26.0.
    #[test]
    fn options_as_the_peer_edits_them() {
        let metal = "rw ignition.platform.id=metal console=tty0 console=ttyS0,115200n8";
        for (options, append, delete, expected) in [
            (
                metal,
                &["nosmt", "foo=bar baz"][..],
                &["console=tty0"][..],
                "rw ignition.platform.id=metal console=ttyS0,115200n8 nosmt foo=bar baz",
            ),
            (
                metal,
                &[],
                &["console=ttyS0,115200n8", "rw"],
                "ignition.platform.id=metal console=tty0",
            ),
            (metal, &[], &["console=ttyS0", "tty0", "absent"], metal),
            ("a b c", &[], &["a b"], "c"),
            ("a b c", &["b"], &["b"], "a c b"),
            ("a", &["a", "a"], &[], "a a a"),
            ("a   b", &["c"], &[], "a   b c"),
            ("a", &["  b "], &[" a  "], "b"),
            // A deletion is one pass: if two matches share a space, only the first is
            // deleted.
            ("x x y", &[], &["x"], "x y"),
            ("", &["a"], &["b"], "a"),
        ] {
            assert_eq!(
                change(append, delete).edit(options),
                expected,
                "{options:?} + {append:?} - {delete:?}"
            );
        }
    }

    #[test]
    fn the_platform_is_replaced_where_it_is_metal() {
        let platform = |name: &str| [Step::Platform(name.to_owned())];
        let replace = |options| edit(options, &mut [], &platform("qemu"));
        assert_eq!(
            replace("a ignition.platform.id=metal b ").unwrap(),
            "a ignition.platform.id=qemu b"
        );
        for options in [
            "",
            "ignition.platform.id=metal4",
            "xignition.platform.id=metal",
            "ignition.platform.id=qemu",
        ] {
            let reason = replace(options).unwrap_err().to_string();
            assert!(reason.starts_with("couldn't locate platform ID"));
        }
        for bad in ["", "a b", "a=b", "a;", "\"", "\u{e4}"] {
            assert!(check_platform(bad).is_err(), "{bad:?}");
        }
        check_platform("nosuch-1.x_y").unwrap();
    }

    #[test]
    fn arguments_in_a_variable_are_deleted_there() {
        let value = "root=x ro ignition.platform.id=metal console=tty0";
        let mut variables = [("kernelopts".to_owned(), value.to_owned())];
        let steps = [
            Step::Platform("qemu".to_owned()),
            change(&["b"], &["console=tty0", "a"]),
        ];
        let options = edit("$kernelopts a", &mut variables, &steps).unwrap();
        assert_eq!(options, "$kernelopts b");
        assert_eq!(variables[0].1, "root=x ro ignition.platform.id=qemu");
    }

    #[test]
    fn arguments_that_would_not_arrive_are_refused() {
        for bad in ["", " ", "a=\"b c", "a\nb", "a\tb", "a\0", "a;b", "a=$b"] {
            assert!(check_appended(&strings(&[bad])).is_err(), "{bad:?}");
        }
        for good in ["ip=[fd00::1]::[fd00::2]:64:h:ens3:none", "a=\"b c\"", "$x"] {
            check_appended(&strings(&[good])).unwrap();
        }
        for bad in ["", " ", "a\nb"] {
            assert!(check_deleted(&strings(&[bad])).is_err(), "{bad:?}");
        }
        check_deleted(&strings(&["a;b", "x=\"y", "$x"])).unwrap();
    }

    #[test]
    fn no_half_of_a_quotation_is_left() {
        let halve = |options| edit(options, &mut [], &[change(&[], &["b\""])]);
        let reason = halve("a=\"x b\" c").unwrap_err().to_string();
        assert!(reason.contains("closing \""), "{reason}");
        // The options of the image already had the fault, so the agent accepts it in
        // the result.
        assert_eq!(halve("a=\" b\" c;").unwrap(), "a=\" c;");
    }

    proptest! {
        #[test]
        fn arguments_that_are_not_named_stay(
            options in "([a-c=]{1,3} {1,2}){0,6}",
            append in prop::collection::vec("[a-c=]{1,3}", 0..4),
            delete in prop::collection::vec("[a-c=]{1,3}", 0..4),
        ) {
            let step = Step::Change { delete: delete.clone(), append: append.clone() };
            let edited = edit(&options, &mut [], std::slice::from_ref(&step)).unwrap();
            // Compares the result with a model that works on words: the order is kept,
            // and each added argument is there.
            let kept = |words: &str| words.split(' ').filter(|w| !w.is_empty())
                .filter(|w| !delete.iter().any(|d| d == w)).map(str::to_owned).collect::<Vec<_>>();
            let all: Vec<String> = edited.split(' ').map(str::to_owned).collect();
            prop_assert!(all.ends_with(&append));
            let old = all[..all.len() - append.len()].join(" ");
            prop_assert_eq!(kept(&old), kept(&options));
            // A second edit appends the same arguments again.
            prop_assert!(edit(&edited, &mut [], &[step]).unwrap().ends_with(&append.join(" ")));
        }
    }
}
