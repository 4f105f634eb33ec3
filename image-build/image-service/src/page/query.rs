//! Parses the query of the page's URL, which says what the user wants to see.

use axum::extract::Query;
use axum::http::Uri;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

/// The maximum length of a search text in characters: that of a host's name.
const MAX_SEARCH: usize = 253;

/// The hosts that the page lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Show {
    #[default]
    All,
    /// Read in the last minute.
    Now,
    /// Read before that.
    Earlier,
    /// Not read yet.
    Never,
}

impl Show {
    pub(super) const EACH: [Self; 4] = [Self::All, Self::Now, Self::Earlier, Self::Never];

    /// The value in the query.
    pub(super) fn value(self) -> &'static str {
        match self {
            Self::All => "",
            Self::Now => "now",
            Self::Earlier => "earlier",
            Self::Never => "never",
        }
    }

    /// The text of the link.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::All => "All",
            Self::Now => "Read in the last minute",
            Self::Earlier => "Read earlier",
            Self::Never => "Not read yet",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PageQuery {
    /// A part of a host's name or of the address of a client.
    pub(super) search: String,
    pub(super) show: Show,
    /// From 0.
    pub(super) page: usize,
    /// The browser loads the page again and again.
    pub(super) follow: bool,
}

/// All values are texts, so that an invalid value is not an error.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Given {
    search: String,
    show: String,
    page: String,
    follow: String,
}

impl PageQuery {
    pub(super) fn of(uri: &Uri) -> Self {
        let given = Query::<Given>::try_from_uri(uri);
        let given = given.map_or_else(|_| Given::default(), |Query(given)| given);
        let show = Show::EACH
            .into_iter()
            .find(|show| show.value() == given.show);
        Self {
            search: given.search.trim().chars().take(MAX_SEARCH).collect(),
            show: show.unwrap_or_default(),
            page: given.page.parse::<usize>().unwrap_or(1).saturating_sub(1),
            follow: given.follow == "1",
        }
    }

    /// The URL of the page with this query, as the value of an attribute.
    pub(super) fn href(&self) -> String {
        let mut parts = Vec::new();
        if !self.search.is_empty() {
            let search = utf8_percent_encode(&self.search, NON_ALPHANUMERIC);
            parts.push(format!("search={search}"));
        }
        if self.show != Show::All {
            parts.push(format!("show={}", self.show.value()));
        }
        if self.page > 0 {
            parts.push(format!("page={}", self.page + 1));
        }
        if self.follow {
            parts.push("follow=1".to_owned());
        }
        match parts.is_empty() {
            true => "/".to_owned(),
            false => format!("/?{}", parts.join("&amp;")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_is_one() {
        let of = |uri: &str| PageQuery::of(&uri.parse().unwrap());
        let plain = PageQuery::default();
        for uri in [
            "/",
            "/?",
            "/?page=0",
            "/?page=1",
            "/?page=x",
            "/?page=-1",
            "/?show=x",
            "/?a=b",
            "/?search=+",
            "/?page=1&page=2",
            "/?search=%ff&search",
        ] {
            assert_eq!(of(uri).page, 0, "{uri}");
            assert_eq!(of(uri).show, Show::All, "{uri}");
        }
        assert_eq!(of("/?search="), plain);
        let given = PageQuery {
            search: "a b&<ä".to_owned(),
            show: Show::Never,
            page: 6,
            follow: true,
        };
        let href = given.href();
        assert_eq!(
            href,
            "/?search=a%20b%26%3C%C3%A4&amp;show=never&amp;page=7&amp;follow=1"
        );
        assert_eq!(of(&href.replace("&amp;", "&")), given);
        assert_eq!(plain.href(), "/");
        assert_eq!(
            of(&format!("/?search={}", "x".repeat(9999))).search.len(),
            MAX_SEARCH
        );
    }
}
