//! Parses and evaluates the expressions in root device hints: `>= 100`,
//! `<or> a <or> b`, `s!= x`, or a plain value.
//!
//! Operators have written hints for Ironic's agent for years. So this module keeps the
//! unusual, two-step evaluation of that agent: the first step finds the operands and
//! percent-encodes them, the second step parses and compares the result. Grammar and
//! comparisons are those of `specs_matcher` in oslo.utils. Errors have the same class as
//! in Python, because Ironic's agent reacts to each class differently.

mod grammar;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use self::grammar::{Operator, Parsed, parse};

/// The characters that Python's `urllib.parse.quote` encodes: all except letters, digits,
/// and the characters removed here.
const ENCODED: AsciiSet = NON_ALPHANUMERIC
    .remove(b'_')
    .remove(b'.')
    .remove(b'-')
    .remove(b'~')
    .remove(b'/');

/// The class of the Python exception that corresponds to an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The hint or its expression is invalid, or cannot be compared with the device.
    /// Ironic's agent reports that the hints are not valid; if a device has several
    /// texts, it continues with the next text.
    ValueError,
    /// The comparison is not defined for these values.
    TypeError,
    /// The grammar does not accept the text.
    ParseException,
    /// The text is not valid Python where Ironic's agent evaluates it as Python.
    SyntaxError,
    /// The value of the hints has the wrong structure.
    AttributeError,
}

impl ErrorClass {
    /// The name of the class in Python.
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

/// The reason why an expression cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HintError {
    /// The class of the exception that Ironic's agent would raise.
    pub class: ErrorClass,
    /// The explanation for the operator.
    pub message: String,
}

impl HintError {
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
        }
    }
}

/// An expression that can be compared with devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    operator: Operator,
    operands: Vec<String>,
}

impl Expression {
    /// Parses an expression that compares text.
    ///
    /// # Errors
    /// If the text is empty, or if an operator has no operand.
    pub fn for_text(text: &str) -> Result<Self, HintError> {
        let normal = normalize(text)?.ok_or_else(empty)?;
        match parse(&normal)?.operator {
            None => Self::parsed(&format!("s== {normal}")),
            Some(_) => Self::parsed(&normal),
        }
    }

    /// Parses an expression that compares a number of GiB.
    ///
    /// # Errors
    /// If an operand is not a positive integer, or if an operator has no operand.
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
        // After this check, Ironic's agent uses the text without case folding, so `S== 5`
        // is a plain value here.
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

    /// Whether the expression matches only complete texts: one text (`s==`, or a plain
    /// value), or one of several texts (`<or>`).
    pub fn is_exact(&self) -> bool {
        matches!(self.operator, grammar::EQUAL | Operator::Or)
    }

    /// Whether the operator is `s!=`, which matches everything except one text.
    pub fn is_exclusion(&self) -> bool {
        self.operator == grammar::NOT_EQUAL
    }

    /// Whether a device's text matches. For a device without a text the caller passes the
    /// text `None`, as Ironic's agent does. An empty text never matches. A text that
    /// begins with an operator is itself parsed as an expression.
    ///
    /// # Errors
    /// If the expression and the text cannot be compared.
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
                class_of_no_list(&value),
                format!("<all-in> and <range-in> cannot be used on the text \"{value}\""),
            )),
        }
    }

    /// Whether a device's size in GiB matches.
    ///
    /// # Errors
    /// If the operator cannot be used on a number, or if the operand is not a number.
    pub fn matches_size(&self, gib: f64) -> Result<bool, HintError> {
        let first = self.operands.first().map_or("", String::as_str);
        match self.operator {
            Operator::Number(wanted) => {
                let order = gib.partial_cmp(&number(first)?);
                Ok(order.is_some_and(|order| wanted.contains(&order)))
            }
            Operator::NumberNotEqual => Ok(gib != number(first)?),
            // A number never equals a text.
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

/// Converts to lower case and strips white space; `None` if nothing is left.
fn normal_case(text: &str) -> Option<String> {
    let text = text.trim_matches(is_python_space).to_lowercase();
    (!text.is_empty()).then_some(text)
}

/// The characters that Python's `str.strip` removes: Unicode white space and ASCII's
/// separators.
fn is_python_space(character: char) -> bool {
    character.is_whitespace() || ('\x1c'..='\x1f').contains(&character)
}

/// Converts a text to the form in which texts are compared: in lower case, with
/// percent-encoded operands. `None` if the text is empty.
fn normalize(text: &str) -> Result<Option<String>, HintError> {
    let Some(text) = normal_case(text) else {
        return Ok(None);
    };
    let Some((symbol, _)) = parse(&text)?.operator else {
        return Ok(Some(encode(&text)));
    };
    // Each further occurrence of the operator separates two operands.
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

/// The class of the error if `<all-in>` is compared with a device's text. Ironic's agent
/// evaluates the text as a Python literal and expects a list, but no text of a device is
/// a list. A number causes a `TypeError`, a calculation with names a `ValueError`, any
/// other text a `SyntaxError`. Only after a `ValueError` does the agent continue with the
/// device's next text.
fn class_of_no_list(text: &str) -> ErrorClass {
    let is_name = |word: &str| {
        word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    };
    let is_integer = |word: &str| {
        word.bytes().all(|byte| byte.is_ascii_digit()) && (word == "0" || !word.starts_with('0'))
    };
    let is_hex = |digits: &str| u128::from_str_radix(digits, 16).is_ok();
    let leads_with_zero = text.len() > 1 && text.starts_with('0') && !text.contains(['.', 'e']);
    let is_decimal = number(text).is_ok_and(f64::is_finite) && !leads_with_zero;
    if is_decimal || text.strip_prefix("0x").is_some_and(is_hex) {
        return ErrorClass::TypeError;
    }
    let is_operand =
        |word: &str| !word.is_empty() && (is_integer(word) || word.split('.').all(is_name));
    match text.split(['-', '/', '%']).all(is_operand) {
        true => ErrorClass::ValueError,
        false => ErrorClass::SyntaxError,
    }
}

/// Whether the text is a positive integer for Python's int(): digits, with an optional
/// `+` before them and `_` between them.
fn is_positive_integer(text: &str) -> bool {
    let text = text.trim_matches(is_python_space);
    let digits = text.strip_prefix('+').unwrap_or(text);
    digits
        .split('_')
        .all(|group| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit()))
        && digits.bytes().any(|byte| !matches!(byte, b'0' | b'_'))
}

/// Parses like Python's float(), which also accepts `inf` and `1_000`.
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
        // In a lone `<or>`, the grammar parses `<` as the operator, and `or>` as its
        // operand.
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

    /// The expected errors come from Python 3.11.
    #[test]
    fn all_in_fails_as_in_python() {
        for (text, expected) in [
            ("10", ErrorClass::TypeError),
            ("-3", ErrorClass::TypeError),
            ("1e5", ErrorClass::TypeError),
            ("0x50014EE20A1B2C3D", ErrorClass::TypeError),
            ("acme", ErrorClass::ValueError),
            ("inf", ErrorClass::ValueError),
            ("a/b", ErrorClass::ValueError),
            ("drive-scsi0", ErrorClass::ValueError),
            ("x.y", ErrorClass::ValueError),
            ("a ", ErrorClass::ValueError),
            ("0123", ErrorClass::SyntaxError),
            ("1.2.3", ErrorClass::SyntaxError),
            ("eui.0025", ErrorClass::SyntaxError),
            ("/dev/sda", ErrorClass::SyntaxError),
            ("0:0:0:0", ErrorClass::SyntaxError),
            ("3z8nb0k", ErrorClass::SyntaxError),
            ("Samsung SSD", ErrorClass::SyntaxError),
            ("st1000-0001", ErrorClass::SyntaxError),
        ] {
            let error = text_matches("<all-in> a", text).unwrap_err();
            assert_eq!(error.class, expected, "{text}");
        }
    }

    proptest! {
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
