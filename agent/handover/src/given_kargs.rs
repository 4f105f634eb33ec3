//! The kernel arguments that an operator gave for the installed system. They take
//! precedence over the arguments that the agent adds because of the kind of the disk.

use crate::install_coreos::CoreosChanges;

/// The words of [`CoreosChanges::append_kargs`] and [`CoreosChanges::delete_kargs`].
pub(crate) struct GivenKargs<'a> {
    pub appended: Vec<&'a str>,
    pub deleted: Vec<&'a str>,
}

impl<'a> GivenKargs<'a> {
    pub fn of(changes: &'a CoreosChanges) -> Self {
        let words = |list: &'a [String]| -> Vec<&'a str> {
            let words = list.iter().flat_map(|text| text.split_whitespace());
            words.collect()
        };
        Self {
            appended: words(&changes.append_kargs),
            deleted: words(&changes.delete_kargs),
        }
    }

    /// Returns `changes` with `arguments` appended, except those that the changes append
    /// already.
    pub fn with(&self, changes: &CoreosChanges, arguments: &[&str]) -> CoreosChanges {
        let mut changes = changes.clone();
        let new = arguments.iter().copied();
        let new = new.filter(|argument| !self.appended.contains(argument));
        changes.append_kargs.extend(new.map(str::to_owned));
        changes
    }
}

/// The name of an argument: the part before the equals sign.
pub(crate) fn name(word: &str) -> &str {
    word.split_once('=').map_or(word, |(name, _)| name)
}
