//! Finds the test functions in a source file, also within macros such as `proptest!`.

/// The names of the tests, and whether each is `#[ignore]`d. A function is a test only
/// with an attribute directly above it, like `#[test]` or `#[tokio::test]`.
pub fn tests_in(source: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let mut attributes = String::new();
    // The number of brackets that are open in an attribute of several lines.
    let mut open = 0;
    for line in source.lines().map(str::trim) {
        if open > 0 || line.starts_with("#[") {
            attributes.push_str(line);
            attributes.push('\n');
            open += line.matches(['[', '(']).count();
            open = open.saturating_sub(line.matches([']', ')']).count());
        } else if !line.starts_with("//") {
            if let Some(name) = function(line)
                && attributes.lines().any(is_of_test)
            {
                let is_ignored = attributes.lines().any(|line| line.starts_with("#[ignore"));
                found.push((name.to_owned(), is_ignored));
            }
            attributes.clear();
        }
    }
    found
}

fn is_of_test(attribute: &str) -> bool {
    let Some(path) = attribute.strip_prefix("#[") else {
        return false;
    };
    let end = path.find([']', '(']).unwrap_or(path.len());
    path[..end].rsplit("::").next() == Some("test")
}

/// The name of the function that begins in this line.
fn function(line: &str) -> Option<&str> {
    let line = line.strip_prefix("async ").unwrap_or(line);
    let rest = line.strip_prefix("fn ")?;
    Some(&rest[..rest.find(['(', '<'])?])
}

#[test]
fn only_functions_with_the_attribute_are_tests() {
    let source = "
        #[test]
        fn plain() {}

        /// Documented.
        #[tokio::test(start_paused = true)]
        // Explained.
        async fn with_runtime() {}

        #[test]
        #[ignore = \"as plain\"]
        fn left_out() {}

        #[test]
        #[expect(
            clippy::unwrap_used,
            reason = \"x\"
        )]
        fn with_long_attribute() {}

        #[cfg(test)]
        fn helper() {}

        // #[test]
        fn no_test_any_more() {}
    ";
    let found = tests_in(source);
    let found: Vec<(&str, bool)> = { found.iter() }
        .map(|(name, is_ignored)| (name.as_str(), *is_ignored))
        .collect();
    assert_eq!(
        found,
        [
            ("plain", false),
            ("with_runtime", false),
            ("left_out", true),
            ("with_long_attribute", false),
        ]
    );
}
