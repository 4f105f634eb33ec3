use super::*;

#[test]
fn an_untrusted_server_is_reported_once_beside_another() {
    let mut known = Try::new(None, Vec::new());
    let untrusted = NoAnswer {
        untrusted_for_good: true,
        ..NoAnswer::because("x")
    };
    let said = ["https://a", "https://b", "https://a", "https://b"]
        .map(|url| known.is_said(url, &untrusted));
    assert_eq!(said, [false, false, true, true]);
    assert!(!known.is_said("https://a", &NoAnswer::because("x")));
}
