//! One mirror: a URL of the file, what its server reported about the file, and the
//! errors.

use landfall_report::failure::Failure;

use super::download_state::{Break, DownloadState, Outcome};
use super::shown;
use crate::resume::{Resource, same_file};

pub(super) struct Mirror<'a> {
    pub(super) url: &'a str,
    pub(super) shown: String,
    /// What this mirror reported about the file.
    pub(super) known: Option<Resource>,
    /// This mirror ignores Range, so it can only send the file from its start.
    pub(super) starts_over: bool,
    /// The last temporary error of this mirror.
    pub(super) trouble: Option<String>,
    /// The permanent error after which the agent no longer uses this mirror.
    pub(super) lost: Option<Failure>,
}

impl<'a> Mirror<'a> {
    pub(super) fn new(url: &'a str) -> Self {
        Self {
            url,
            shown: shown(url),
            known: None,
            starts_over: false,
            trouble: None,
            lost: None,
        }
    }

    /// Fails unless this mirror has the file that the download began with. Checks a
    /// mirror only when it reports about the file for the first time.
    pub(super) fn must_be_same(&self, state: &DownloadState<'_>, now: &Resource) -> Outcome<()> {
        let Some(file) = state.file.as_ref().filter(|_| self.known.is_none()) else {
            return Ok(());
        };
        // Before the first byte is delivered, the result cannot be a mixture of two
        // files. So an equal length is enough.
        let checked = state.request.checked || state.received == 0;
        same_file(file, now, checked).map_err(|reason| {
            Break::Final(Failure::image_download(format!(
                "{}: expected the same file as at the start of the download: {reason}",
                self.shown
            )))
        })
    }
}
