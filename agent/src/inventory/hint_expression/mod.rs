//! The language of root device hints: `>= 100`, `<or> a <or> b`, `s!= x`, or
//! just a value.
//!
//! Operators have written hints for the original agent for years, so its
//! peculiar reading is kept, in its own two passes: first operands are found
//! and percent-encoded, then the result is parsed and compared. Grammar and
//! comparisons are those of oslo.utils' `specs_matcher`; what goes wrong has the
//! class that it has in Python, since the class decides what happens next.

mod grammar;
mod python_literal;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use self::grammar::{Operator, Parsed, parse};

/// What Python's `urllib.parse.quote` leaves alone.
const ENCODED: AsciiSet = NON_ALPHANUMERIC
    .remove(b'_')
    .remove(b'.')
    .remove(b'-')
    .remove(b'~')
    .remove(b'/');

/// The Python class of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The expression means nothing for this hint or device. The original says
    /// that the hints are not valid; of one text among several it goes to the
    /// next.
    ValueError,
    /// The comparison is not defined.
    TypeError,
    /// The grammar does not know it.
    ParseException,
    /// A text is no Python, where the original reads it as such.
    SyntaxError,
    /// Something has the wrong shape altogether.
    AttributeError,
}

impl ErrorClass {
    /// As Python writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ValueError => "ValueError",
            Self::TypeError => "TypeError",
            Self::ParseException => "ParseException",
            Self::SyntaxError => "SyntaxError",
            Self::AttributeError => "AttributeError",
        }
    }
}

/// Why an expression cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HintError {
    /// What the original would raise.
    pub class: ErrorClass,
    /// What is wrong, for the operator.
    pub message: String,
}

impl HintError {
    /// An error of this class.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
        }
    }
}

/// An expression that is ready to be compared with devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    operator: Operator,
    operands: Vec<String>,
}

impl Expression {
    /// An expression for a text.
    ///
    /// # Errors
    /// If it is empty, or an operator lacks its operand.
    pub fn for_text(text: &str) -> Result<Self, HintError> {
        let normal = normalize(text)?.ok_or_else(empty)?;
        match parse(&normal)?.operator {
            None => Self::parsed(&format!("s== {normal}")),
            Some(_) => Self::parsed(&normal),
        }
    }

    /// An expression for a number of GiB.
    ///
    /// # Errors
    /// If an operand is not a positive integer, or an operator lacks its own.
    pub fn for_size(text: &str) -> Result<Self, HintError> {
        let folded = normal_case(text).ok_or_else(empty)?;
        let values = match parse(&folded)?.operator {
            None => vec![&*folded],
            Some((symbol, _)) => folded.split(symbol).filter(|v| !v.is_empty()).collect(),
        };
        if !values.iter().all(|value| is_positive_integer(value)) {
            return Err(HintError::new(
                ErrorClass::ValueError,
                format!("expected a positive number of GiB, found \"{text}\""),
            ));
        }
        // Here the original forgets to fold: `S== 5` is a value now.
        match parse(text)?.operator {
            None => Self::parsed(&format!("== {text}")),
            Some(_) => Self::parsed(text),
        }
    }

    fn parsed(text: &str) -> Result<Self, HintError> {
        let Parsed { operator, operands } = parse(text)?;
        Ok(Self {
            operator: operator.map_or(Operator::Or, |(_, operator)| operator),
            operands: operands.into_iter().map(str::to_owned).collect(),
        })
    }

    /// Whether this is true only of texts that it spells out: of one (`s==`, or a
    /// plain text), or of one of several (`<or>`).
    pub fn is_exact(&self) -> bool {
        matches!(self.operator, grammar::EQUAL | Operator::Or)
    }

    /// Whether this is `s!=`, which is true of everything but one text.
    pub fn is_exclusion(&self) -> bool {
        self.operator == grammar::NOT_EQUAL
    }

    /// Whether a device's text matches; no text is the text `None`. An empty
    /// text never matches, and a text that begins like an operator is read as an
    /// expression itself.
    ///
    /// # Errors
    /// If the two cannot be compared.
    pub fn matches_text(&self, value: &str) -> Result<bool, HintError> {
        let Some(value) = normalize(value)? else {
            return Ok(false);
        };
        let first = self.operands.first().map_or("", String::as_str);
        match self.operator {
            Operator::Number(wanted) => {
                let order = number(&value)?.partial_cmp(&number(first)?);
                Ok(order.is_some_and(|order| wanted.contains(&order)))
            }
            Operator::NumberNotEqual => Ok(number(&value)? != number(first)?),
            Operator::Text(wanted) => Ok(wanted.contains(&value.as_str().cmp(first))),
            Operator::In => Ok(value.contains(first)),
            Operator::Or => Ok(self.operands.contains(&value)),
            Operator::AllIn | Operator::RangeIn => Err(HintError::new(
                python_literal::error_of(&value),
                format!("<all-in> and <range-in> cannot be used on the text \"{value}\""),
            )),
        }
    }

    /// Whether a device's size in GiB matches.
    ///
    /// # Errors
    /// If the expression compares text.
    pub fn matches_size(&self, gib: f64) -> Result<bool, HintError> {
        let first = self.operands.first().map_or("", String::as_str);
        match self.operator {
            Operator::Number(wanted) => {
                let order = gib.partial_cmp(&number(first)?);
                Ok(order.is_some_and(|order| wanted.contains(&order)))
            }
            Operator::NumberNotEqual => Ok(gib != number(first)?),
            // A number is never equal to a text, hence always different.
            Operator::Or => Ok(false),
            operator if operator == grammar::EQUAL => Ok(false),
            operator if operator == grammar::NOT_EQUAL => Ok(true),
            Operator::Text(_) | Operator::In => Err(HintError::new(
                ErrorClass::TypeError,
                "a size can be compared as a number only",
            )),
            Operator::AllIn | Operator::RangeIn => Err(HintError::new(
                ErrorClass::ValueError,
                "<all-in> and <range-in> cannot be used on a size",
            )),
        }
    }
}

fn empty() -> HintError {
    HintError::new(
        ErrorClass::ValueError,
        "expected an expression, found an empty text",
    )
}

/// Lower case without blanks around it; `None` if nothing is left.
fn normal_case(text: &str) -> Option<String> {
    let text = text.trim_matches(is_python_space).to_lowercase();
    (!text.is_empty()).then_some(text)
}

/// What `str.strip` cuts: beyond Unicode's white space also the separators of
/// ASCII.
fn is_python_space(character: char) -> bool {
    character.is_whitespace() || ('\x1c'..='\x1f').contains(&character)
}

/// The form in which texts are compared: folded, with operands encoded. `None`
/// if the text is empty.
fn normalize(text: &str) -> Result<Option<String>, HintError> {
    let Some(text) = normal_case(text) else {
        return Ok(None);
    };
    let Some((symbol, _)) = parse(&text)?.operator else {
        return Ok(Some(encode(&text)));
    };
    // Occurrences further on separate operands, wherever they are.
    let operands: String = text
        .split(symbol)
        .filter(|value| !value.is_empty())
        .map(|value| format!("{symbol} {} ", encode(value.trim_matches(is_python_space))))
        .collect();
    Ok(Some(operands.trim_end().to_owned()))
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, &ENCODED).to_string()
}

/// Python's int(): digits, a sign, `_` between digits.
fn is_positive_integer(text: &str) -> bool {
    let text = text.trim_matches(is_python_space);
    let digits = text.strip_prefix('+').unwrap_or(text);
    digits
        .split('_')
        .all(|group| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit()))
        && digits.bytes().any(|byte| !matches!(byte, b'0' | b'_'))
}

/// Python's float(), which reads `inf` and `1_000`, too.
fn number(text: &str) -> Result<f64, HintError> {
    let bytes = text.as_bytes();
    let separates = |index: usize| {
        let digit = |index: usize| bytes.get(index).is_some_and(u8::is_ascii_digit);
        index > 0 && digit(index - 1) && digit(index + 1)
    };
    let misplaced = bytes
        .iter()
        .enumerate()
        .any(|(index, byte)| *byte == b'_' && !separates(index));
    let plain = if misplaced {
        "_".into()
    } else {
        text.replace('_', "")
    };
    plain.parse().map_err(|_| {
        HintError::new(
            ErrorClass::ValueError,
            format!("expected a number, found \"{text}\""),
        )
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text_matches(expression: &str, value: &str) -> Result<bool, HintError> {
        Expression::for_text(expression)?.matches_text(value)
    }

    #[test]
    fn operators_need_no_blank_and_no_case() {
        for expression in [
            "s== foo",
            "s==foo",
            " S==  FOO ",
            "foo",
            "<or>foo",
            "<OR> foo",
            "<in>oo",
        ] {
            assert_eq!(text_matches(expression, "Foo "), Ok(true), "{expression}");
            assert_eq!(text_matches(expression, "bar"), Ok(false), "{expression}");
        }
    }

    #[test]
    fn lone_operators_are_broken() {
        for expression in [">=", "s==", "<in>", "s== s== b", "=", "<"] {
            let error = text_matches(expression, "foo").unwrap_err();
            assert_eq!(error.class, ErrorClass::ParseException, "{expression}");
        }
        // Its first character is an operator with the rest as operand.
        let error = text_matches("<or>", "5").unwrap_err();
        assert_eq!(error.class, ErrorClass::ValueError, "{error:?}");
    }

    #[test]
    fn blanks_within_count() {
        assert_eq!(text_matches("foo  bar", "foo bar"), Ok(false));
        assert_eq!(text_matches("foo bar", "FOO BAR"), Ok(true));
        assert_eq!(text_matches("<or> a b <or> c", "a b"), Ok(true));
        assert_eq!(text_matches("<in> o b", "foo bar"), Ok(true));
    }

    #[test]
    fn operators_within_a_text_are_text() {
        assert_eq!(text_matches("a s== b", "a s== b"), Ok(true));
        assert_eq!(
            text_matches("s== a s== b", "a"),
            Ok(true),
            "the rest is ignored"
        );
        assert_eq!(text_matches("10 >= 5", "10 >= 5"), Ok(true));
    }

    #[test]
    fn sizes() {
        for (expression, gib, expected) in [
            ("100", 100.0, true),
            ("100", 100.5, false),
            ("= 100", 120.0, true),
            (">= 100", 100.0, true),
            ("< 100", 100.0, false),
            ("!= 100", 100.0, false),
            ("+1_00", 100.0, true),
            ("<or> 100 <or> 200", 100.0, false),
            ("s== 100", 100.0, false),
            ("s!= 100", 100.0, true),
        ] {
            let found = Expression::for_size(expression).unwrap().matches_size(gib);
            assert_eq!(found, Ok(expected), "{expression} of {gib}");
        }
    }

    #[test]
    fn sizes_are_positive_integers() {
        for expression in [
            "100.5",
            "0",
            "-5",
            "",
            "null",
            "true",
            "abc",
            "10 20",
            "<range-in> [ 10 20 ]",
            "1__0",
            "_1",
            ">= 1x",
        ] {
            let error = Expression::for_size(expression).unwrap_err();
            assert_eq!(error.class, ErrorClass::ValueError, "{expression}");
        }
        let lone = Expression::for_size(">=").unwrap_err();
        assert_eq!(lone.class, ErrorClass::ParseException);
        let part = Expression::for_size("<in> 10").unwrap();
        let error = part.matches_size(10.0).unwrap_err();
        assert_eq!(error.class, ErrorClass::TypeError);
    }

    proptest! {
        #[test]
        fn any_expression_ends(expression in "\\PC{0,60}", value in "\\PC{0,30}", gib in 0.0f64..1e6) {
            if let Ok(expression) = Expression::for_text(&expression) {
                let _ = expression.matches_text(&value);
            }
            if let Ok(expression) = Expression::for_size(&expression) {
                let _ = expression.matches_size(gib);
            }
        }

        #[test]
        fn a_text_matches_itself(value in "[a-zA-Z0-9][ -~]{0,30}[a-zA-Z0-9]") {
            prop_assume!(parse(&value.to_lowercase()).is_ok_and(|p| p.operator.is_none()));
            prop_assert_eq!(text_matches(&value, &value), Ok(true));
            let quoted = format!("s== {value}");
            prop_assume!(!value.to_lowercase().contains("s=="));
            prop_assert_eq!(text_matches(&quoted, &value.to_uppercase()), Ok(true));
        }
    }
}
