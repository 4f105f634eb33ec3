//! Skips a test that cannot run on this machine.

/// If this variable is 1, every test must run, and a test that cannot run fails. The
/// Makefile sets it, because cargo hides the output of a test that passes.
const REQUIRED: &str = "LANDFALL_TESTS_REQUIRED";

/// Prints why the test is skipped. The caller must return afterwards.
pub fn skip(why: impl std::fmt::Display) {
    let required = std::env::var_os(REQUIRED).is_some_and(|value| value == "1");
    assert!(!required, "this test has to run here ({REQUIRED}): {why}");
    eprintln!("skipped: {why}");
}
