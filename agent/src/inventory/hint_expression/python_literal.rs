//! Predicts the error of Python's `ast.literal_eval` for a device's text. In the
//! original agent the operator `<all-in>` passes the text to it.
//!
//! The text is never a list, because its brackets are percent-encoded. So the
//! comparison always fails, and this module only finds out with which error. The
//! difference matters to operators: some errors skip the disk, others end the
//! deployment.

use super::ErrorClass;

/// The error of `<all-in>` on a text of the characters `[a-z0-9_.~/-]` and `%XX`.
pub(super) fn error_of(text: &str) -> ErrorClass {
    let mut reader = Reader { rest: text };
    match reader.expression() {
        Some(shape) if reader.rest.is_empty() => match shape {
            Shape::Refused => ErrorClass::ValueError,
            // The text is a value, but not a list.
            _ => ErrorClass::TypeError,
        },
        _ => ErrorClass::SyntaxError,
    }
}

/// The kinds of expressions that `literal_eval` tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Number,
    /// `5j`
    Imaginary,
    /// `-5`
    Signed,
    /// `-5j`
    SignedImaginary,
    /// `3-5j`
    Complex,
    /// `...`
    Ellipsis,
    /// Names and calculations, which `literal_eval` rejects.
    Refused,
}

/// Keywords, which cannot be names (Python 3.11, reference 2.3.1). Keywords with
/// capitals are not here, because the text is in lower case.
const KEYWORDS: [&str; 32] = [
    "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif",
    "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda",
    "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// Parses differences of products of signed operands. Only the operators `-`,
    /// `/`, `//`, `%` and `~` can occur in the text.
    fn expression(&mut self) -> Option<Shape> {
        let mut shape = self.product()?;
        while self.take("-") {
            let right = self.product()?;
            shape = match (shape, right) {
                (Shape::Number | Shape::Signed, Shape::Imaginary) => Shape::Complex,
                _ => Shape::Refused,
            };
        }
        Some(shape)
    }

    fn product(&mut self) -> Option<Shape> {
        let mut shape = self.signed()?;
        while self.take("//") || self.take("/") || self.take("%") {
            self.signed()?;
            shape = Shape::Refused;
        }
        Some(shape)
    }

    fn signed(&mut self) -> Option<Shape> {
        let unsigned = self.rest.trim_start_matches(['-', '~']);
        let signs = &self.rest[..self.rest.len() - unsigned.len()];
        self.rest = unsigned;
        // One minus makes a negative number; more make a calculation.
        Some(match (signs, self.operand()?) {
            ("", shape) => shape,
            ("-", Shape::Number) => Shape::Signed,
            ("-", Shape::Imaginary) => Shape::SignedImaginary,
            _ => Shape::Refused,
        })
    }

    fn operand(&mut self) -> Option<Shape> {
        let digit_at = |index: usize| {
            let byte = self.rest.as_bytes().get(index);
            byte.is_some_and(u8::is_ascii_digit)
        };
        let mut shape = if digit_at(0) || self.rest.starts_with('.') && digit_at(1) {
            self.number()?
        } else if self.take("...") {
            Shape::Ellipsis
        } else {
            self.name()?;
            Shape::Refused
        };
        while self.take(".") {
            self.name()?;
            shape = Shape::Refused;
        }
        Some(shape)
    }

    fn name(&mut self) -> Option<()> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let word = &self.rest[..end];
        if word.is_empty() || word.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        self.rest = &self.rest[end..];
        (!KEYWORDS.contains(&word)).then_some(())
    }

    /// Follows the Python reference, 2.4.5 to 2.4.7.
    fn number(&mut self) -> Option<Shape> {
        // `%0B` is an encoded control character, so `0B` can occur in capitals.
        for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2), ("0B", 2)] {
            if self.take(prefix) {
                let _ = self.take("_");
                self.digits(radix)?;
                return self.ends_number().then_some(Shape::Number);
            }
        }
        let start = self.rest;
        let whole = if start.starts_with('.') {
            false
        } else {
            self.digits(10)?;
            true
        };
        let integer = &start[..start.len() - self.rest.len()];
        let mut is_float = false;
        if self.take(".") {
            is_float = true;
            if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
                self.digits(10)?;
            } else if !whole {
                return None;
            }
        }
        if self.rest.starts_with(['e', 'E']) {
            let exponent = &self.rest[1..];
            let unsigned = exponent.strip_prefix('-').unwrap_or(exponent);
            if unsigned.starts_with(|c: char| c.is_ascii_digit()) {
                self.rest = unsigned;
                self.digits(10)?;
                is_float = true;
            }
        }
        let imaginary = self.take("j");
        let leading_zero =
            integer.starts_with('0') && integer.bytes().any(|digit| !matches!(digit, b'0' | b'_'));
        if leading_zero && !is_float && !imaginary {
            return None;
        }
        self.ends_number().then_some(match imaginary {
            true => Shape::Imaginary,
            false => Shape::Number,
        })
    }

    /// Digits, with single `_` between them.
    fn digits(&mut self, radix: u32) -> Option<()> {
        let mut seen = 0;
        let mut last = '_';
        for character in self.rest.chars() {
            if !(character.is_digit(radix) || character == '_' && last != '_') {
                break;
            }
            last = character;
            seen += 1;
        }
        self.rest = &self.rest[seen..];
        (seen > 0 && last != '_').then_some(())
    }

    /// A name may follow a number only after a blank.
    fn ends_number(&self) -> bool {
        !self
            .rest
            .starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
    }

    fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected errors come from Python 3.11.
    #[test]
    fn errors_are_pythons() {
        for (text, expected) in [
            ("10", ErrorClass::TypeError),
            ("-3", ErrorClass::TypeError),
            ("5j", ErrorClass::TypeError),
            ("3-5j", ErrorClass::TypeError),
            ("1e5", ErrorClass::TypeError),
            ("0x50014ee20a1b2c3d", ErrorClass::TypeError),
            ("...", ErrorClass::TypeError),
            (".5", ErrorClass::TypeError),
            ("1_000", ErrorClass::TypeError),
            ("acme", ErrorClass::ValueError),
            ("none", ErrorClass::ValueError),
            ("a/b", ErrorClass::ValueError),
            ("a-b", ErrorClass::ValueError),
            ("a%20", ErrorClass::ValueError),
            ("eui.0025", ErrorClass::SyntaxError),
            ("--5", ErrorClass::ValueError),
            ("~5", ErrorClass::ValueError),
            ("-...", ErrorClass::ValueError),
            ("3--5j", ErrorClass::ValueError),
            ("x.y", ErrorClass::ValueError),
            ("1.2.3", ErrorClass::SyntaxError),
            ("/dev/sda", ErrorClass::SyntaxError),
            ("0%3A0%3A0%3A0", ErrorClass::SyntaxError),
            ("3z8nb0k", ErrorClass::SyntaxError),
            ("samsung%20ssd", ErrorClass::SyntaxError),
            ("if", ErrorClass::SyntaxError),
            ("0123", ErrorClass::SyntaxError),
            ("1__0", ErrorClass::SyntaxError),
            ("5.a", ErrorClass::SyntaxError),
            ("%5B1%5D", ErrorClass::SyntaxError),
            ("", ErrorClass::SyntaxError),
            ("s==%20x", ErrorClass::SyntaxError),
        ] {
            assert_eq!(error_of(text), expected, "{text}");
        }
    }
}
