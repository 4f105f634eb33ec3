//! What a test does that cannot run on this machine.

/// Set to 1 where every test has to run: then a test that cannot fails.
const REQUIRED: &str = "LANDFALL_TESTS_REQUIRED";

/// Says why the test does not run; the caller returns.
pub fn skip(why: impl std::fmt::Display) {
    let required = std::env::var_os(REQUIRED).is_some_and(|value| value == "1");
    assert!(!required, "this test has to run here ({REQUIRED}): {why}");
    eprintln!("skipped: {why}");
}
