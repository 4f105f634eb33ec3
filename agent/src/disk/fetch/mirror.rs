//! One place of several that have the same file, and what is known of it.

use super::course::{Break, Course, Outcome, final_at};
use super::location::Location;
use super::{Local, Transfer, shown};
use crate::disk::resume::{Resource, same_file};
use crate::failure::Failure;

/// A place, by its URL.
pub(super) struct Mirror<'a> {
    pub(super) url: &'a str,
    pub(super) shown: String,
    /// What it said of the file.
    pub(super) known: Option<Resource>,
    /// It can only send the file from its start.
    pub(super) sends_anew: bool,
    /// Why it was tried in vain the last time.
    pub(super) trouble: Option<String>,
    /// Why it is not to be asked again.
    pub(super) lost: Option<Failure>,
}

impl<'a> Mirror<'a> {
    pub(super) fn new(url: &'a str) -> Self {
        Self {
            url,
            shown: shown(url),
            known: None,
            sends_anew: false,
            trouble: None,
            lost: None,
        }
    }

    /// Takes the file from here until its end or until something breaks.
    /// `anew` is whether a lot of it may be read once more for that.
    pub(super) async fn go_on(
        &mut self,
        course: &mut Course<'_>,
        client: &reqwest::Client,
        anew: bool,
    ) -> Outcome<()> {
        let location = Location::parse(self.url).map_err(|reason| final_at(&self.shown, reason))?;
        if location == Location::Server {
            Transfer::new(self, client).go_on(course, anew).await
        } else {
            Local::new(self, location).go_on(course).await
        }
    }

    /// What this place has now must be the file that the download began with,
    /// wherever that was.
    pub(super) fn must_be_same(&self, course: &Course<'_>, now: &Resource) -> Outcome<()> {
        let Some(file) = course.file.as_ref().filter(|_| self.known.is_none()) else {
            return Ok(());
        };
        // Nothing of it is used yet but its length.
        let checked = course.request.checked || course.received == 0;
        same_file(file, now, checked).map_err(|reason| {
            Break::Final(super::download_error(format!(
                "{}: not known to be the file that the download began with: {reason}",
                self.shown
            )))
        })
    }
}
