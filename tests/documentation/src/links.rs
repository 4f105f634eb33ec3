//! Reads the links and the anchors of a page, as a Git forge makes them.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::page::Page;

/// A link as it is written.
#[derive(Debug, PartialEq, Eq)]
pub struct Link {
    /// The line, from 1.
    pub line: usize,
    pub target: String,
}

impl Link {
    /// Whether the target is outside of the repository.
    pub fn is_external(&self) -> bool {
        ["http://", "https://", "mailto:"]
            .iter()
            .any(|scheme| self.target.starts_with(scheme))
    }

    /// Path and anchor.
    pub fn parts(&self) -> (&str, Option<&str>) {
        match self.target.split_once('#') {
            Some((path, anchor)) => (path, Some(anchor)),
            None => (&self.target, None),
        }
    }
}

fn events(page: &Page) -> impl Iterator<Item = (Event<'_>, std::ops::Range<usize>)> {
    Parser::new_ext(&page.text, Options::ENABLE_TABLES).into_offset_iter()
}

/// The links and pictures of a page.
pub fn links(page: &Page) -> Vec<Link> {
    let found = events(page).filter_map(|(event, range)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(Link {
            line: page.text[..range.start].matches('\n').count() + 1,
            target: dest_url.into_string(),
        }),
        _ => None,
    });
    found.collect()
}

/// The anchors of the headings of a page.
pub fn anchors(page: &Page) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut heading: Option<String> = None;
    for (event, _) in events(page) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let slug = slug(&heading.take().unwrap_or_default());
                let same = found.iter().filter(|&anchor| *anchor == slug).count();
                found.push(match same {
                    0 => slug,
                    number => format!("{slug}-{number}"),
                });
            }
            _ => {}
        }
    }
    found
}

/// GitHub's rule: lower case, without punctuation, spaces become hyphens. mdBook has
/// the same rule (`normalize_id`).
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        _ => c.is_alphanumeric().then_some(c),
    });
    kept.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_anchors_are_found() {
        let page = Page {
            name: "a.md".to_owned(),
            text: "# Set `a_b`: 1, 2\n\n[x](y.md#z)\n\n| a |\n|---|\n| [q](../r) |\n\n## Two\n\n## Two\n"
                .to_owned(),
        };
        assert_eq!(anchors(&page), ["set-a_b-1-2", "two", "two-1"]);
        let links = links(&page);
        let found: Vec<(usize, &str)> = links
            .iter()
            .map(|link| (link.line, link.target.as_str()))
            .collect();
        assert_eq!(found, [(3, "y.md#z"), (7, "../r")]);
        assert_eq!(links[0].parts(), ("y.md", Some("z")));
    }
}
