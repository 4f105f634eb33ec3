//! Lays the documentation out for mdBook.
//!
//! mdBook takes pages from one directory and renders those that its SUMMARY.md names. Our
//! pages link to files at the top of the repository and to examples elsewhere in it. So
//! the book's source is a copy in which the pages keep their places, and docs/SUMMARY.md
//! moves to the top. Each screen (a `.screen` file with the text of a console) becomes a
//! page, because a web server would offer the file as a download.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::links::links;
use crate::page::{Page, page, pages, repository};

/// The table of contents, in the repository.
pub const SUMMARY: &str = "docs/SUMMARY.md";
/// The configuration of mdBook, in the repository.
pub const CONFIGURATION: &str = "docs/book.toml";

/// Writes the book's source into an empty directory: `book.toml` and `src`.
pub fn lay_out(target: &Path) -> Result<()> {
    fs::create_dir_all(target.join("src"))?;
    fs::copy(repository().join(CONFIGURATION), target.join("book.toml")).context(CONFIGURATION)?;
    let mut screens = BTreeSet::new();
    for page in pages()? {
        if page.name == SUMMARY {
            continue;
        }
        let mut text = page.text.clone();
        for link in links(&page) {
            let (path, _) = link.parts();
            if link.is_external() || path.is_empty() || path.ends_with(".md") {
                continue;
            }
            let file = joined(&page.name, path);
            if path.ends_with(".screen") {
                text = text.replace(&format!("]({path})"), &format!("]({path}.md)"));
                screens.insert(file);
            } else if repository().join(&file).is_file() {
                put(target, &file, &fs::read(repository().join(&file))?)?;
            }
        }
        put(target, &page.name, text.as_bytes())?;
    }
    for screen in &screens {
        let text = fs::read_to_string(repository().join(screen))?;
        let content = format!("# {}\n\n```text\n{text}\n```\n", title(screen));
        put(target, &format!("{screen}.md"), content.as_bytes())?;
    }
    let summary = summary(&page(SUMMARY)?, &screens);
    put(target, "SUMMARY.md", summary.as_bytes())
}

fn put(target: &Path, name: &str, content: &[u8]) -> Result<()> {
    let path = target.join("src").join(name);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(&path, content).with_context(|| path.display().to_string())
}

/// The table of contents with links from the top of the repository, and the screens below
/// the page that shows them.
fn summary(page: &Page, screens: &BTreeSet<String>) -> String {
    let mut text = String::new();
    for line in page.text.lines() {
        match line.split_once("](") {
            Some((before, rest)) => {
                let path = rest.trim_end_matches(')');
                let _ = writeln!(text, "{before}]({})", joined(&page.name, path));
                if path == "my-host-hangs.md" {
                    let indent = before.len() - before.trim_start().len() + 2;
                    for screen in screens {
                        let title = title(screen);
                        let _ = writeln!(text, "{:indent$}- [{title}]({screen}.md)", "");
                    }
                }
            }
            None => {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    text
}

/// A title from the name of a file: `wrong-clock.screen` is "Screen: wrong clock".
fn title(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    let name = name.trim_end_matches(".screen").replace('-', " ");
    format!("Screen: {name}")
}

/// The path in the repository that a link of a page leads to.
pub fn joined(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The links of a built book that lead to no file or no anchor: `page: link`.
pub fn broken_links(book: &Path) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for file in html_files(book)? {
        let text = fs::read_to_string(&file)?;
        let name = file.strip_prefix(book)?.display().to_string();
        // mdBook's page for a missing page, its page for printing and its table of
        // contents have links that are relative to other directories.
        if ["404.html", "print.html", "toc.html"].contains(&name.as_str()) {
            continue;
        }
        for rest in text.split("href=\"").skip(1) {
            let link = rest.split('"').next().unwrap_or_default();
            if link.is_empty() || link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => file.clone(),
                path => book.join(joined(&name, path)),
            };
            let has_anchor = || {
                anchor.is_empty()
                    || fs::read_to_string(&target)
                        .is_ok_and(|text| text.contains(&format!("id=\"{anchor}\"")))
            };
            if !target.is_file() || !has_anchor() {
                broken.push(format!("{name}: {link}"));
            }
        }
    }
    Ok(broken)
}

fn html_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(html_files(&path)?);
        } else if path.extension().is_some_and(|name| name == "html") {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_relative_to_the_page() {
        for (page, link, path) in [
            ("docs/a.md", "b.md", "docs/b.md"),
            ("docs/a.md", "../README.md", "README.md"),
            ("docs/platforms/a.md", "../b.md", "docs/b.md"),
            ("README.md", "docs/a.md", "docs/a.md"),
        ] {
            assert_eq!(joined(page, link), path);
        }
    }

    #[test]
    fn the_screens_are_below_their_page() {
        let page = Page {
            name: SUMMARY.to_owned(),
            text: "- [Top](../README.md)\n- [Hangs](my-host-hangs.md)\n".to_owned(),
        };
        let screens = BTreeSet::from(["agent/wrong-clock.screen".to_owned()]);
        assert_eq!(
            summary(&page, &screens),
            "- [Top](README.md)\n- [Hangs](docs/my-host-hangs.md)\n  \
             - [Screen: wrong clock](agent/wrong-clock.screen.md)\n"
        );
    }
}
