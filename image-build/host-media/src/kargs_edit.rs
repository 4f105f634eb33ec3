//! Changes of kernel arguments: reset, delete, append, in this order.

use crate::kernel_args::{AreaArguments, KernelArgs, KernelArgsError};

/// What changes in the kernel arguments of a base.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KargsEdit {
    /// Start from the arguments that the base was built with.
    pub reset: bool,
    /// Arguments to remove: `KEY=VALUE`, or `KEY` for all arguments of that key.
    pub delete: Vec<String>,
    /// Texts to append. Each holds one or more arguments.
    pub append: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KargsEditError {
    #[error("cannot delete kernel argument `{argument}`: it is not among `{line}`")]
    Missing { argument: String, line: String },
    #[error(transparent)]
    Arguments(#[from] KernelArgsError),
}

impl KargsEdit {
    /// Whether the edit changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.reset && self.delete.is_empty() && self.append.is_empty()
    }

    /// The new arguments. `current` are those of the base now, `default` those that the
    /// base was built with. Both may come from programs that allow more characters than
    /// the builder does, so only the arguments that the edit adds are checked.
    ///
    /// # Errors
    /// If an argument that is to be deleted does not exist, or if an added argument or
    /// the whole line cannot be passed to the kernel.
    pub fn apply(&self, current: &str, default: &str) -> Result<AreaArguments, KargsEditError> {
        let start = if self.reset { default } else { current };
        let mut words: Vec<&str> = start.split_whitespace().collect();
        for argument in self.delete.iter().flat_map(|text| text.split_whitespace()) {
            let before = words.len();
            words.retain(|word| {
                let key = word.split('=').next();
                *word != argument && key != Some(argument)
            });
            if words.len() == before {
                return Err(KargsEditError::Missing {
                    argument: argument.escape_default().to_string(),
                    line: start.to_owned(),
                });
            }
        }
        let added = KernelArgs::exactly(&self.append)?;
        Ok(AreaArguments::joined(&words, &added)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn edits() {
        for (reset, delete, append, expected) in [
            (false, &[][..], &[][..], Ok("a=1 quiet a=2 b")),
            (true, &[], &[], Ok("built=1")),
            (false, &["a=1"], &[], Ok("quiet a=2 b")),
            (false, &["a"], &["c  d", "a=3"], Ok("quiet b c d a=3")),
            (false, &["quiet b"], &[], Ok("a=1 a=2")),
            (true, &["built"], &["x"], Ok("x")),
            (
                false,
                &["a=3"],
                &[],
                Err("cannot delete kernel argument `a=3`: it is not among `a=1 quiet a=2 b`"),
            ),
            (true, &["a"], &[], Err("it is not among `built=1`")),
            (false, &[], &["a\nb"], Err("cannot be passed through GRUB")),
        ] {
            let edit = KargsEdit {
                reset,
                delete: texts(delete),
                append: texts(append),
            };
            let found = edit.apply("a=1 quiet a=2 b", "built=1");
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.as_str(), expected),
                (Err(found), Err(expected)) => {
                    assert!(found.to_string().contains(expected), "{found}");
                }
                (found, expected) => panic!("{found:?}, expected {expected:?}"),
            }
        }
    }

    /// coreos-installer writes arguments with characters such as `$` and `;`, and GRUB
    /// passes them on.
    #[test]
    fn only_added_arguments_are_checked() {
        let edit = KargsEdit {
            append: texts(&["b"]),
            ..KargsEdit::default()
        };
        for edit in [KargsEdit::default(), edit] {
            let found = edit.apply("a=$x;y && c|d", "").unwrap();
            assert!(found.as_str().starts_with("a=$x;y && c|d"));
            assert!(found.for_scripts().is_err());
        }
        let edit = KargsEdit {
            append: texts(&["a=$x"]),
            ..KargsEdit::default()
        };
        assert!(edit.apply("", "").is_err());
        let edit = KargsEdit {
            append: vec!["x".repeat(1000)],
            ..KargsEdit::default()
        };
        assert!(edit.apply(&"x".repeat(1000), "").is_err());
    }

    #[test]
    fn it_knows_whether_it_changes_anything() {
        assert!(KargsEdit::default().is_empty());
        let edit = KargsEdit {
            append: texts(&["a"]),
            ..KargsEdit::default()
        };
        assert!(!edit.is_empty());
    }
}
