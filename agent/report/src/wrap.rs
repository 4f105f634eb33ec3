//! Breaks text into lines of a given width.

/// Breaks text after a label into lines, between words. A word that is too long for
/// one line, such as a URL, is broken as well. Later lines begin with `indent`
/// blanks. `width` is in columns, and larger than `indent` and the label.
pub fn wrapped(label: &str, text: &str, indent: usize, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = label.to_owned();
    let mut is_begin = true;
    for word in text.split(' ') {
        let mut rest = word;
        let gap = usize::from(!is_begin);
        if !is_begin && line.len() + gap + rest.len() > width {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
        } else if !is_begin {
            line.push(' ');
        }
        while line.len() + rest.len() > width {
            let room = width.saturating_sub(line.len());
            let at = rest
                .char_indices()
                .map(|(at, _)| at)
                .take_while(|at| *at <= room);
            let (head, tail) = rest.split_at(at.last().unwrap_or(0));
            line.push_str(head);
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            rest = tail;
        }
        line.push_str(rest);
        is_begin = false;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_line_fits_and_no_character_is_lost(text in "[ a-z]{0,90}", width in 20_usize..40) {
            let lines = wrapped("label: ", &text, 4, width);
            prop_assert!(lines.iter().all(|line| line.len() <= width), "{lines:?}");
            let kept = |text: &str| text.replace(' ', "");
            prop_assert_eq!(kept(&lines.concat()), kept(&format!("label: {text}")));
        }
    }
}
