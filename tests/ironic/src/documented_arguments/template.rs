//! Expands the notation of the documentation, such as `ip=NIC:METHOD[:[MTU][:MAC]]`, to
//! arguments with values.

use std::net::Ipv6Addr;

use anyhow::{Result, bail};

/// The words that the documentation writes in capitals, each with a value that an operator
/// could give.
const VALUES: &[(&str, &str)] = &[
    ("ADDRESS", "192.0.2.10"),
    ("ALGORITHM", "sha256"),
    ("BYTES", "01-02"),
    ("DISK", "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4"),
    ("DNS1", "192.0.2.53"),
    ("DNS2", "192.0.2.54"),
    ("GATEWAY", "192.0.2.1"),
    ("HEX", "00ff"),
    ("HOST", "host-1"),
    ("HOSTNAME", "host-1"),
    ("INDEX", "5-7"),
    ("IRONIC", "192.0.2.5"),
    ("KEY", "8001"),
    ("LABEL", "data*"),
    ("MAC", "52-54-00-00-00-01"),
    ("MASK", "255.255.255.0"),
    ("MTU", "1500"),
    ("N", "3"),
    ("NAME", "net100"),
    ("NET", "198.51.100.0"),
    ("NETMASK", "255.255.255.0"),
    ("NIC", "eno1"),
    ("OPTION", "mode"),
    ("PLATFORM", "metal"),
    ("PORT", "6514"),
    ("PREFIX", "24"),
    ("RUNNER", "activebackup"),
    ("SECONDS", "20"),
    ("SPEED", "1000"),
    ("STREAM", "stable"),
    ("TEXT", "landfall"),
    ("TYPE", "sha512"),
    ("URL", "https://images.example.org/coreos.raw.xz"),
    ("VALUE", "802.3ad"),
    // These values themselves are written in capitals.
    ("CS0", "CS0"),
    ("CS4", "CS4"),
    ("CS6", "CS6"),
];

/// Returns every way to write an argument: each alternative, with and without the
/// optional parts, and with each of `methods` for METHOD.
///
/// # Errors
/// If a word in capitals has no value in [`VALUES`].
pub(super) fn expand(argument: &str, methods: &[String]) -> Result<Vec<String>> {
    let Some((name, value)) = argument.split_once('=') else {
        return Ok(vec![argument.to_owned()]);
    };
    let mut found = Vec::new();
    for alternative in value.split('|') {
        // A list of NICs gets a second item. Of any other list one item is enough.
        let list = alternative.replace("NIC,...", "NIC,eno2");
        let list = list.replace(",...", "").replace("...", "");
        for with_optional in [true, false] {
            let chosen = choose(&list, with_optional);
            match chosen.contains("METHOD") {
                false => found.push(chosen),
                true => found.extend(
                    methods
                        .iter()
                        .map(|method| chosen.replace("METHOD", method)),
                ),
            }
        }
    }
    let mut written = Vec::new();
    for value in found {
        let line = format!("{name}={}", filled(&value, argument)?);
        if !value.is_empty() && !written.contains(&line) {
            written.push(line);
        }
    }
    Ok(written)
}

/// Keeps or removes the optional parts, which are in brackets. The brackets of an IPv6
/// address stay.
fn choose(text: &str, with_optional: bool) -> String {
    let mut chosen = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('[') {
        let (before, from_open) = rest.split_at(open);
        let Some(close) = closing(from_open) else {
            break;
        };
        let inner = &from_open[1..close];
        chosen += before;
        if inner.parse::<Ipv6Addr>().is_ok() {
            chosen += &from_open[..=close];
        } else if with_optional {
            chosen += &choose(inner, with_optional);
        }
        rest = &from_open[close + 1..];
    }
    chosen + rest
}

/// The position of the bracket that closes the one at the start of the text.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, character) in text.char_indices() {
        match character {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Puts values in the place of words in capitals.
fn filled(text: &str, argument: &str) -> Result<String> {
    let mut filled = String::new();
    let is_of_word = |character: char| character.is_ascii_alphanumeric() || character == '-';
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|character| !is_of_word(character));
        let (words, after) = rest.split_at(end.unwrap_or(rest.len()));
        // A word that has small letters too is a name, such as X-OpenStack-Request-ID.
        if words.contains(|character: char| character.is_ascii_lowercase()) {
            filled += words;
        } else {
            let values: Result<Vec<&str>> = words
                .split('-')
                .map(|word| value_of(word, argument))
                .collect();
            filled += &values?.join("-");
        }
        let next = after.find(is_of_word).unwrap_or(after.len());
        filled += &after[..next];
        rest = &after[next..];
    }
    Ok(filled)
}

fn value_of<'a>(word: &'a str, argument: &str) -> Result<&'a str> {
    if !word.contains(|character: char| character.is_ascii_uppercase()) {
        return Ok(word);
    }
    match VALUES.iter().find(|(name, _)| *name == word) {
        Some((_, value)) => Ok(value),
        None => bail!("{word} in {argument}: expected a word that has a value in VALUES"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_write_an_argument() {
        let methods = ["dhcp".to_owned(), "none".to_owned()];
        for (template, expected) in [
            ("ip=METHOD", &["ip=dhcp", "ip=none"][..]),
            (
                "ip=NIC:METHOD[:[MTU][:MAC]]",
                &[
                    "ip=eno1:dhcp:1500:52-54-00-00-00-01",
                    "ip=eno1:none:1500:52-54-00-00-00-01",
                    "ip=eno1:dhcp",
                    "ip=eno1:none",
                ],
            ),
            (
                "BOOTIF=[01-]MAC",
                &["BOOTIF=01-52-54-00-00-00-01", "BOOTIF=52-54-00-00-00-01"],
            ),
            ("dscp=CS0|CS4", &["dscp=CS0", "dscp=CS4"]),
            ("bridge=NAME:NIC,...", &["bridge=net100:eno1,eno2"]),
            ("ip=[2001:db8::10]::eno1", &["ip=[2001:db8::10]::eno1"]),
            ("coreos.inst.insecure", &["coreos.inst.insecure"]),
            ("a=sha256:HEX", &["a=sha256:00ff"]),
            ("a=TYPE-HEX", &["a=sha512-00ff"]),
            ("a=X-OpenStack-Request-ID", &["a=X-OpenStack-Request-ID"]),
        ] {
            assert_eq!(expand(template, &methods).unwrap(), expected, "{template}");
        }
    }
}
