//! Finds the pages of the documentation in the repository.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The pages outside of docs that belong to the documentation.
const TOP: [&str; 5] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
];

/// A page in Markdown.
pub struct Page {
    /// The path in the repository, like `docs/guide.md`.
    pub name: String,
    pub text: String,
}

/// The directory of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All pages, in the order of their names.
pub fn pages() -> Result<Vec<Page>> {
    let mut names: Vec<String> = TOP.iter().map(|&name| name.to_owned()).collect();
    for directory in ["docs", "docs/platforms"] {
        let entries = fs::read_dir(repository().join(directory)).context(directory)?;
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".md") {
                names.push(format!("{directory}/{name}"));
            }
        }
    }
    names.sort();
    names.into_iter().map(page).collect()
}

/// The page with this path in the repository.
pub fn page(name: impl Into<String>) -> Result<Page> {
    let name = name.into();
    let text = fs::read_to_string(repository().join(&name)).with_context(|| name.clone())?;
    Ok(Page { name, text })
}
