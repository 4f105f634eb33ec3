//! Breaks text into lines of a given width.

/// Breaks text after a label into lines of `width` columns, between words. A word that is
/// too long for one line, such as a URL, is also broken. Every line but the first is
/// indented by `indent` spaces, at most half of `width`.
pub fn wrapped(label: &str, text: &str, indent: usize, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Lines {
        full: Vec::new(),
        line: String::new(),
        margin: " ".repeat(indent.min(width / 2)),
        width,
    };
    lines.put(label);
    for (number, word) in text.split(' ').enumerate() {
        if number > 0 && lines.line.len() + 1 + word.len() > width {
            lines.end_line();
        } else if number > 0 {
            lines.line.push(' ');
        }
        lines.put(word);
    }
    lines.full.push(lines.line);
    lines.full
}

struct Lines {
    full: Vec<String>,
    /// The line that is being filled.
    line: String,
    margin: String,
    width: usize,
}

impl Lines {
    fn put(&mut self, word: &str) {
        let mut rest = word;
        while self.line.len() + rest.len() > self.width {
            let room = self.width.saturating_sub(self.line.len());
            if room > 0 {
                let first = rest.chars().next().map_or(0, char::len_utf8);
                let (head, tail) = rest.split_at(rest.floor_char_boundary(room).max(first));
                self.line.push_str(head);
                rest = tail;
            }
            self.end_line();
        }
        self.line.push_str(rest);
    }

    fn end_line(&mut self) {
        let next = self.margin.clone();
        self.full.push(std::mem::replace(&mut self.line, next));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_line_fits_and_no_character_is_lost(
            text in "[ a-z]{0,90}", indent in 0_usize..30, width in 1_usize..100
        ) {
            let lines = wrapped("label: ", &text, indent, width);
            prop_assert!(lines.iter().all(|line| line.len() <= width), "{lines:?}");
            let kept = |text: &str| text.replace(' ', "");
            prop_assert_eq!(kept(&lines.concat()), kept(&format!("label: {text}")));
        }

        #[test]
        fn any_text_comes_to_an_end(text: String, width in 0_usize..20) {
            let kept = |text: &str| text.replace(' ', "");
            let lines = wrapped("", &text, 3, width);
            prop_assert_eq!(kept(&lines.concat()), kept(&text));
        }
    }
}
