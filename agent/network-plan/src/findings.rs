//! Collects what the reader of a document finds: faults and warnings.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

/// The maximum number of faults that are kept, and also of warnings. A document can be
/// full of faults, and an operator reads only the first few.
const MOST_FAULTS: usize = 100;

/// Errors of the document (faults), and its parts that have no effect (warnings).
#[derive(Debug, Default)]
pub(crate) struct Findings {
    faults: RefCell<Vec<String>>,
    warnings: RefCell<Vec<String>>,
    /// The files with faults. This list is complete, unlike `faults`.
    faulty_files: RefCell<BTreeSet<String>>,
}

impl Findings {
    pub(crate) fn fault(&self, path: &str, words: impl fmt::Display) {
        add(&self.faults, path, words);
    }

    /// A fault of one of several files.
    pub(crate) fn fault_of(&self, file: &str, path: &str, words: impl fmt::Display) {
        let mut files = self.faulty_files.borrow_mut();
        if !files.contains(file) {
            files.insert(file.to_owned());
        }
        self.fault(path, words);
    }

    /// The files with faults. Includes files whose faults are not in the list because it
    /// already has [`MOST_FAULTS`].
    pub(crate) fn faulty_files(&self) -> BTreeSet<String> {
        self.faulty_files.borrow().clone()
    }

    pub(crate) fn warn(&self, path: &str, words: impl fmt::Display) {
        add(&self.warnings, path, words);
    }

    /// Returns the faults as an error if there are any. Otherwise returns the
    /// warnings.
    pub(crate) fn into_result(self) -> Result<Vec<String>, Vec<String>> {
        let faults = self.faults.into_inner();
        if faults.is_empty() {
            Ok(self.warnings.into_inner())
        } else {
            Err(faults)
        }
    }
}

fn add(list: &RefCell<Vec<String>>, path: &str, words: impl fmt::Display) {
    let mut list = list.borrow_mut();
    if list.len() < MOST_FAULTS {
        let line = format!("{path}: {words}");
        if !list.contains(&line) {
            list.push(line);
        }
    } else if list.len() == MOST_FAULTS {
        list.push("more faults or warnings, not shown".to_owned());
    }
}
