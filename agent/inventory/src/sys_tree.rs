//! Creates the captured machines of the tests from this crate's test data.

use std::fs;
use std::path::Path;

pub use landfall_sys::sys_tree::{PlantedTree, plant};

/// Creates the tree from test_data/sys_trees/`name`.tree.
pub fn captured(name: &str) -> PlantedTree {
    plant(&fs::read_to_string(test_data(&format!("sys_trees/{name}.tree"))).unwrap())
}

/// The path of a file in this crate's test data.
pub fn test_data(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("test_data")
        .join(name)
}
