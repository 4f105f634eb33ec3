//! Finding an image's line in a checksum file, in the forms that sha256sum
//! writes: `<hash>  <name>`, `<hash> *<name>`, `SHA256 (<name>) = <hash>`, or the
//! hash alone. Pure.

/// The lengths that Ironic accepts: MD5, SHA-256, SHA-512.
const LENGTHS: [usize; 3] = [32, 64, 128];

/// The hash of the image that `image_url` names.
///
/// # Errors
/// If no line names it, or the line holds no hash.
pub fn find<'a>(text: &'a str, image_url: &str) -> Result<&'a str, String> {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    if let [only] = lines[..]
        && !only.contains(char::is_whitespace)
    {
        return if is_hash(only) {
            Ok(only)
        } else {
            Err("expected one checksum, found no hexadecimal digits of a known length".to_owned())
        };
    }
    let name = file_name(image_url);
    lines
        .into_iter()
        .filter(|line| !line.starts_with('#'))
        .find(|line| names(line, name))
        .ok_or_else(|| format!("no line names {name:?}"))
        .and_then(|line| {
            let mut words = line.split_whitespace();
            let (first, last) = (words.next(), words.next_back());
            [first, last]
                .into_iter()
                .flatten()
                .find(|word| is_hash(word))
                .ok_or_else(|| format!("the line of {name:?} holds no checksum"))
        })
}

/// The last part of the URL's path.
fn file_name(url: &str) -> &str {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}

fn names(line: &str, name: &str) -> bool {
    if name.is_empty() {
        return false;
    }
    let at_end = line
        .strip_suffix(name)
        .is_some_and(|rest| rest.ends_with([' ', '\t', '*', '/']));
    at_end || line.contains(&format!(" ({name}) "))
}

fn is_hash(word: &str) -> bool {
    LENGTHS.contains(&word.len()) && word.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "http://host/path/image.raw.gz?token=1";

    fn hash(digit: char) -> String {
        digit.to_string().repeat(64)
    }

    #[test]
    fn every_form_of_a_line() {
        let (a, b) = (hash('a'), hash('b'));
        for text in [
            a.clone(),
            format!("{a}\n"),
            format!("{a}  image.raw.gz\n"),
            format!("{a} *image.raw.gz\n"),
            format!("{a}  ./image.raw.gz\n"),
            format!("SHA256 (image.raw.gz) = {a}\n"),
            format!("# image.raw.gz {b}\n\n{b}  other.raw.gz\n{a}  image.raw.gz\n"),
            format!("{b}  old-image.raw.gz\n{a}  image.raw.gz\n"),
            format!("{a}  image.raw.gz\n{b}  image.raw.gz\n"),
        ] {
            assert_eq!(find(&text, URL), Ok(a.as_str()), "{text}");
        }
    }

    #[test]
    fn what_is_no_checksum_of_the_image() {
        for text in [
            "",
            "deadbeef",
            "<html>",
            "image.raw.gz",
            "nothing image.raw.gz",
            "x (image.raw.gz) = y",
            &format!("{}  other.raw.gz", hash('a')),
            &format!("{}  xximage.raw.gz", hash('a')),
        ] {
            assert!(find(text, URL).is_err(), "{text}");
        }
        assert!(find(&format!("{}  x", hash('a')), "http://host/").is_err());
    }
}
