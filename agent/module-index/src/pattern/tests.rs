use super::*;
use proptest::prelude::*;

#[test]
fn table() {
    let cases: &[(&str, &str, bool)] = &[
        ("", "", true),
        ("", "a", false),
        ("*", "", true),
        ("**", "abc", true),
        ("a*c", "abbbc", true),
        ("a*c", "abbbd", false),
        ("*a*b*c*", "xxaxxbxxcxx", true),
        ("a?c", "abc", true),
        ("a?c", "ac", false),
        ("?", "", false),
        (
            "pci:v00008086d000010D3sv*sd*bc*sc*i*",
            "pci:v00008086d000010D3sv00008086sd0000A01Fbc02sc00i00",
            true,
        ),
        (
            "pci:v00008086d000010D3sv*sd*bc*sc*i*",
            "pci:v00008086d0000153Asv00008086sd0000A01Fbc02sc00i00",
            false,
        ),
        ("virtio:d00000001v*", "virtio:d00000001v00001AF4", true),
        (
            "usb:v*p*d*dc*dsc*dp*ic08isc06ip50in*",
            "usb:v0781p5567d0126dc00dsc00dp00ic08isc06ip50in00",
            true,
        ),
        ("acpi*:PNP0A03:*", "acpi:PNP0A08:PNP0A03:", true),
        (
            "of:N*T*Cvirtio,mmio",
            "of:Nvirtio_mmioT(null)Cvirtio,mmio",
            true,
        ),
        ("[ab]x", "ax", true),
        ("[ab]x", "cx", false),
        ("[!ab]x", "cx", true),
        ("[^ab]x", "ax", false),
        ("[0-9A-F]", "B", true),
        ("[0-9A-F]", "G", false),
        ("[]]", "]", true),
        ("[a-]", "-", true),
        ("[abc", "[abc", true),
        ("[abc", "a", false),
        ("[", "[", true),
        ("\\*", "*", true),
        ("\\*", "x", false),
        ("a/*", "a/b/c", true),
    ];
    for &(pattern, text, expected) in cases {
        assert_eq!(
            matches(pattern.as_bytes(), text.as_bytes()),
            expected,
            "{pattern:?} against {text:?}"
        );
    }
}

#[test]
fn many_stars_do_not_explode() {
    let pattern = "*a".repeat(1000) + "b";
    let text = "a".repeat(4000);
    let start = std::time::Instant::now();
    assert!(!matches(pattern.as_bytes(), text.as_bytes()));
    assert!(start.elapsed().as_secs() < 5, "took {:?}", start.elapsed());
}

#[test]
fn prefixes() {
    assert_eq!(literal_prefix("pci:v00008086d*"), "pci:v00008086d");
    assert_eq!(literal_prefix("fs-ext4"), "fs-ext4");
    assert_eq!(literal_prefix("*"), "");
    assert!(has_wildcards("a[bc]"));
    assert!(!has_wildcards("fs-ext4"));
}

/// The definition of a match, without regard to speed. `matches` must give the same
/// result.
fn oracle(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.first() {
        None => text.is_empty(),
        Some(b'*') => (0..=text.len()).any(|taken| oracle(&pattern[1..], &text[taken..])),
        Some(b'?') => !text.is_empty() && oracle(&pattern[1..], &text[1..]),
        Some(b'\\') if pattern.len() > 1 => {
            text.first() == Some(&pattern[1]) && oracle(&pattern[2..], &text[1..])
        }
        Some(b'[') => {
            let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
            let start = 1 + usize::from(negated);
            let close = (start + 1..pattern.len()).find(|&i| pattern[i] == b']');
            let Some(close) = close else {
                return text.first() == Some(&b'[') && oracle(&pattern[1..], &text[1..]);
            };
            let Some(&byte) = text.first() else {
                return false;
            };
            let members = &pattern[start..close];
            let mut allowed = [false; 256];
            let mut i = 0;
            while i < members.len() {
                if i + 2 < members.len() && members[i + 1] == b'-' {
                    for b in members[i]..=members[i + 2] {
                        allowed[usize::from(b)] = true;
                    }
                    i += 3;
                } else {
                    allowed[usize::from(members[i])] = true;
                    i += 1;
                }
            }
            allowed[usize::from(byte)] != negated && oracle(&pattern[close + 1..], &text[1..])
        }
        Some(literal) => text.first() == Some(literal) && oracle(&pattern[1..], &text[1..]),
    }
}

proptest! {
    #[test]
    fn agrees_with_the_definition(pattern in r"[ab\[\]*?!^\\-]{0,10}", text in r"[ab\[\]!-]{0,8}") {
        prop_assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), oracle(pattern.as_bytes(), text.as_bytes()));
    }

    #[test]
    fn a_match_begins_with_the_literal_prefix(pattern in r"[ab]{0,3}[ab*?\[\]]{0,6}", text in r"[ab]{0,8}") {
        if matches(pattern.as_bytes(), text.as_bytes()) {
            prop_assert!(text.starts_with(literal_prefix(&pattern)));
        }
    }
}
