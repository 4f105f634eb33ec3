//! Reads tables of test cases from files.

/// The rows of a table with two columns, which ` | ` separates. Empty lines and lines
/// that start with `#` are skipped.
pub(crate) fn rows(table: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_row = |line: &&str| !line.is_empty() && !line.starts_with('#');
    table.lines().filter(is_row).map(split)
}

fn split(row: &str) -> (&str, &str) {
    row.split_once(" | ")
        .unwrap_or_else(|| panic!("{row:?} has one column"))
}
