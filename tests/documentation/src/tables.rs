//! Reads the tables of a page.

use crate::page::Page;

/// The rows of the tables below a heading, up to the next heading of the same or a higher
/// level, without their headers. `heading` is written as on the page: `## The status`.
pub fn rows_below<'a>(page: &'a Page, heading: &str) -> Vec<Vec<&'a str>> {
    let depth = heading.bytes().take_while(|byte| *byte == b'#').count();
    let mut lines = page.text.lines().skip_while(|line| *line != heading);
    lines.next();
    let level = |line: &str| match line.bytes().take_while(|byte| *byte == b'#').count() {
        0 => usize::MAX,
        level => level,
    };
    let mut is_code = false;
    let section: Vec<&str> = lines
        .take_while(|line| {
            is_code ^= line.starts_with("```");
            is_code || level(line) > depth
        })
        .collect();
    let is_ruler = |line: &str| line.starts_with("|--");
    let mut rows = Vec::new();
    for (at, line) in section.iter().enumerate() {
        let is_header = section.get(at + 1).is_some_and(|next| is_ruler(next));
        if line.starts_with("| ") && !is_header {
            let row = line.trim_matches('|');
            rows.push(row.split(" | ").map(str::trim).collect());
        }
    }
    rows
}

/// The texts in backquotes.
pub fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_end_at_the_next_heading() {
        let page = Page {
            name: "a.md".to_owned(),
            text: "# T\n\n| a | b |\n|---|---|\n| `no` | x |\n\n## S\n\n```sh\n# comment\n```\n\n\
                   | a | b |\n|---|---|\n| `p`, `q` | x |\n| `r` | y |\n\n### U\n\n\
                   | c |\n|---|\n| `s` |\n\n## V\n\n| a |\n|---|\n| no |\n"
                .to_owned(),
        };
        let rows = rows_below(&page, "## S");
        assert_eq!(rows, [vec!["`p`, `q`", "x"], vec!["`r`", "y"], vec!["`s`"]]);
        assert_eq!(quoted(rows[0][0]).collect::<Vec<_>>(), ["p", "q"]);
        assert_eq!(rows_below(&page, "## Missing"), Vec::<Vec<&str>>::new());
    }
}
