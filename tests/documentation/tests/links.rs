//! Every link of README and docs leads to a file and to a heading that are there.

use std::collections::BTreeSet;
use std::fs;

use landfall_documentation::book::{SUMMARY, joined};
use landfall_documentation::page::{Page, page, pages, repository};
use landfall_documentation::{anchors, links};

#[test]
fn no_link_and_no_anchor_is_broken() {
    let mut broken = Vec::new();
    let mut count = 0;
    for page in pages().unwrap() {
        for link in links(&page) {
            if link.is_external() {
                continue;
            }
            count += 1;
            let (path, anchor) = link.parts();
            let target = match path {
                "" => page.name.clone(),
                path => joined(&page.name, path),
            };
            let is_there = repository().join(&target).exists();
            let has_anchor = || match anchor {
                None => true,
                Some(anchor) => {
                    let text = fs::read_to_string(repository().join(&target)).unwrap();
                    let name = target.clone();
                    anchors(&Page { name, text }).iter().any(|a| a == anchor)
                }
            };
            if !is_there || !has_anchor() {
                broken.push(format!("{}:{}: {}", page.name, link.line, link.target));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
    assert!(count > 200, "{count}");
}

/// The pages that the links of a page lead to.
fn linked_from(name: &str) -> anyhow::Result<BTreeSet<String>> {
    let page = page(name)?;
    let links = links(&page).into_iter();
    let linked = links
        .filter(|link| !link.is_external())
        .map(|link| joined(&page.name, link.parts().0));
    Ok(linked.collect())
}

#[test]
fn every_page_is_in_the_book_and_in_the_index() {
    let (book, index) = (
        linked_from(SUMMARY).unwrap(),
        linked_from("docs/README.md").unwrap(),
    );
    for page in pages().unwrap() {
        if page.name == SUMMARY {
            continue;
        }
        assert!(book.contains(&page.name), "{SUMMARY} lacks {}", page.name);
        let is_below = page.name.starts_with("docs/platforms/") || page.name == "docs/README.md";
        let is_top = !page.name.starts_with("docs/");
        assert!(
            is_below || is_top || index.contains(&page.name),
            "docs/README.md lacks {}",
            page.name
        );
    }
}
