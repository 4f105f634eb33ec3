//! The language of root device hints: `>= 100`, `<or> a <or> b`, `s!= x`, or
//! just a value.
//!
//! Operators have written hints for the original agent for years, so its
//! peculiar reading is kept, in its own two passes: first operands are found
//! and percent-encoded, then the result is parsed and compared. Grammar and
//! comparisons are those of oslo.utils' `specs_matcher`.

use std::cmp::Ordering;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What Python's `urllib.parse.quote` leaves alone.
const ENCODED: AsciiSet = NON_ALPHANUMERIC
    .remove(b'_')
    .remove(b'.')
    .remove(b'-')
    .remove(b'~')
    .remove(b'/');

/// Operators with one operand, in the order they are tried in.
const UNARY: [(&str, Operator); 14] = [
    ("==", Operator::Number(&[Ordering::Equal])),
    ("=", Operator::Number(&[Ordering::Greater, Ordering::Equal])),
    ("!=", Operator::NumberNotEqual),
    ("<in>", Operator::In),
    (
        ">=",
        Operator::Number(&[Ordering::Greater, Ordering::Equal]),
    ),
    ("<=", Operator::Number(&[Ordering::Less, Ordering::Equal])),
    (">", Operator::Number(&[Ordering::Greater])),
    ("<", Operator::Number(&[Ordering::Less])),
    ("s==", Operator::Text(&[Ordering::Equal])),
    ("s!=", Operator::Text(&[Ordering::Less, Ordering::Greater])),
    ("s<=", Operator::Text(&[Ordering::Less, Ordering::Equal])),
    ("s<", Operator::Text(&[Ordering::Less])),
    ("s>=", Operator::Text(&[Ordering::Greater, Ordering::Equal])),
    ("s>", Operator::Text(&[Ordering::Greater])),
];
const OR: &str = "<or>";
const ALL_IN: &str = "<all-in>";
const RANGE_IN: &str = "<range-in>";

/// How a device's value is compared with the operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    /// As numbers; true for these results.
    Number(&'static [Ordering]),
    /// Apart, since it is true of what is no number at all, too.
    NumberNotEqual,
    /// As text; true for these results.
    Text(&'static [Ordering]),
    /// The operand is part of the value.
    In,
    /// The value is one of the operands.
    Or,
    /// For values that are lists, which no property of a disk is.
    AllIn,
    /// For values that are numbers.
    RangeIn,
}

/// Why an expression cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HintError {
    /// It means nothing for this hint (a `ValueError` in the original, which
    /// says that the hints are not valid).
    Invalid(String),
    /// It cannot be read or computed (any other exception in the original,
    /// which fails the whole step).
    Broken(String),
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
        let text = normal_case(text).ok_or_else(empty)?;
        let parsed = parse(&text).ok_or_else(|| no_operand(&text))?;
        let normalized = match parsed.operator {
            None => format!("s== {}", encode(&text)),
            // Occurrences further on separate operands, wherever they are.
            Some((symbol, _)) => text
                .split(symbol)
                .filter(|value| !value.is_empty())
                .map(|value| format!("{symbol} {} ", encode(value.trim())))
                .collect(),
        };
        Self::parsed(&normalized)
    }

    /// An expression for a number of GiB.
    ///
    /// # Errors
    /// If an operand is not a positive integer, or an operator lacks its own.
    pub fn for_size(text: &str) -> Result<Self, HintError> {
        let folded = normal_case(text).ok_or_else(empty)?;
        let parsed = parse(&folded).ok_or_else(|| no_operand(text))?;
        let values: Vec<&str> = match parsed.operator {
            None => vec![&folded],
            Some((symbol, _)) => folded.split(symbol).filter(|v| !v.is_empty()).collect(),
        };
        if !values.iter().all(|value| is_positive_integer(value)) {
            return Err(HintError::Invalid(format!(
                "expected a positive number of GiB, found \"{text}\""
            )));
        }
        match parse(text) {
            Some(Parsed { operator: None, .. }) => Self::parsed(&format!("== {text}")),
            _ => Self::parsed(text),
        }
    }

    fn parsed(text: &str) -> Result<Self, HintError> {
        match parse(text) {
            Some(Parsed {
                operator: Some((_, operator)),
                operands,
            }) => Ok(Self {
                operator,
                operands: operands.into_iter().map(str::to_owned).collect(),
            }),
            _ => Err(no_operand(text)),
        }
    }

    /// Whether this is `s!=`, which is true of everything but one text.
    pub fn is_exclusion(&self) -> bool {
        self.operator == Operator::Text(&[Ordering::Less, Ordering::Greater])
    }

    /// Whether a device's text matches. `None`, which is no text, counts as the
    /// text `none`; an empty text never matches.
    ///
    /// # Errors
    /// If the expression wants a number and the text is none.
    pub fn matches_text(&self, value: Option<&str>) -> Result<bool, HintError> {
        let Some(value) = normal_case(value.unwrap_or("none")) else {
            return Ok(false);
        };
        let value = encode(&value);
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
            Operator::AllIn | Operator::RangeIn => Err(not_a_literal(&value)),
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
            Operator::NumberNotEqual => Ok(number(first)? != gib),
            // A number is never equal to a text, hence always different.
            Operator::Or => Ok(false),
            Operator::Text([Ordering::Equal]) => Ok(false),
            Operator::Text([Ordering::Less, Ordering::Greater]) => Ok(true),
            Operator::Text(_) | Operator::In => Err(HintError::Broken(
                "a size can be compared as a number only".into(),
            )),
            Operator::AllIn | Operator::RangeIn => Err(HintError::Invalid(format!(
                "{ALL_IN} and {RANGE_IN} cannot be used on a size"
            ))),
        }
    }
}

/// The original evaluates the device's text as a Python literal for these
/// operators: a word is no literal (`ValueError`), anything else is either one
/// of the wrong type or no Python at all.
fn not_a_literal(value: &str) -> HintError {
    let reason = format!("{ALL_IN} and {RANGE_IN} cannot be used on the text \"{value}\"");
    let is_word = !value.starts_with(|c: char| c.is_ascii_digit())
        && value
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if is_word {
        HintError::Invalid(reason)
    } else {
        HintError::Broken(reason)
    }
}

fn empty() -> HintError {
    HintError::Invalid("expected an expression, found an empty text".into())
}

fn no_operand(text: &str) -> HintError {
    HintError::Broken(format!("an operator without operand in \"{text}\""))
}

/// Lower case without blanks around it; `None` if nothing is left.
fn normal_case(text: &str) -> Option<String> {
    let text = text.trim().to_lowercase();
    (!text.is_empty()).then_some(text)
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, &ENCODED).to_string()
}

/// Python's int(): digits, a sign, `_` between digits.
fn is_positive_integer(text: &str) -> bool {
    let text = text.trim();
    let digits = text.strip_prefix('+').unwrap_or(text);
    digits
        .split('_')
        .all(|group| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit()))
        && digits.bytes().any(|byte| !matches!(byte, b'0' | b'_'))
}

/// Python's float(), which reads `inf` and `1_000`, too.
fn number(text: &str) -> Result<f64, HintError> {
    let grouped = text.replace('_', "");
    grouped
        .parse()
        .map_err(|_| HintError::Invalid(format!("expected a number, found \"{text}\"")))
}

/// What the grammar makes of a text; whatever follows is ignored.
struct Parsed<'a> {
    operator: Option<(&'static str, Operator)>,
    operands: Vec<&'a str>,
}

/// `None` if the text begins with an operator that lacks its operand.
fn parse(text: &str) -> Option<Parsed<'_>> {
    let operation = |symbol, operator, operands| {
        Some(Parsed {
            operator: Some((symbol, operator)),
            operands,
        })
    };
    let alternatives = {
        let mut rest = text;
        let mut operands = Vec::new();
        while let Some((operand, after)) = literal(rest, OR).and_then(atom) {
            operands.push(operand);
            rest = after;
        }
        operands
    };
    if !alternatives.is_empty() {
        return operation(OR, Operator::Or, alternatives);
    }
    if let Some(rest) = literal(text, ALL_IN) {
        let items = atoms(rest, usize::MAX);
        if !items.is_empty() {
            return operation(ALL_IN, Operator::AllIn, items);
        }
    }
    if let Some(rest) = literal(text, RANGE_IN) {
        let bounds = atoms(rest, 4);
        if bounds.len() == 4 {
            return operation(RANGE_IN, Operator::RangeIn, bounds);
        }
    }
    // The first operator that fits is the one: without an operand the whole
    // text is broken, and no shorter operator is tried.
    let unary = UNARY
        .iter()
        .find_map(|&(symbol, operator)| Some((symbol, operator, literal(text, symbol)?)));
    if let Some((symbol, operator, rest)) = unary {
        let (operand, _) = atom(rest)?;
        return operation(symbol, operator, vec![operand]);
    }
    let (word, _) = atom(text)?;
    Some(Parsed {
        operator: None,
        operands: vec![word],
    })
}

/// White space of the grammar, which is less than Unicode's.
fn skip_blanks(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', '\r', '\n'])
}

fn literal<'a>(text: &'a str, symbol: &str) -> Option<&'a str> {
    skip_blanks(text).strip_prefix(symbol)
}

/// A word that does not begin like an operator, and what follows it.
fn atom(text: &str) -> Option<(&str, &str)> {
    let text = skip_blanks(text);
    // Every operator in angle brackets begins with the operator `<`.
    if UNARY.iter().any(|(symbol, _)| text.starts_with(symbol)) {
        return None;
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn atoms(text: &str, limit: usize) -> Vec<&str> {
    let mut rest = text;
    let mut found = Vec::new();
    while found.len() < limit
        && let Some((word, after)) = atom(rest)
    {
        found.push(word);
        rest = after;
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text_matches(expression: &str, value: &str) -> Result<bool, HintError> {
        Expression::for_text(expression)?.matches_text(Some(value))
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
            assert!(matches!(error, HintError::Broken(_)), "{expression}");
        }
        // Its first character is an operator with the rest as operand.
        let error = text_matches("<or>", "5").unwrap_err();
        assert!(matches!(error, HintError::Invalid(_)), "{error:?}");
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
            assert!(matches!(error, HintError::Invalid(_)), "{expression}");
        }
        assert!(matches!(
            Expression::for_size(">="),
            Err(HintError::Broken(_))
        ));
        let part = Expression::for_size("<in> 10").unwrap();
        assert!(matches!(part.matches_size(10.0), Err(HintError::Broken(_))));
    }

    proptest! {
        #[test]
        fn any_expression_ends(expression in "\\PC{0,60}", value in "\\PC{0,30}", gib in 0.0f64..1e6) {
            if let Ok(expression) = Expression::for_text(&expression) {
                let _ = expression.matches_text(Some(&value));
            }
            if let Ok(expression) = Expression::for_size(&expression) {
                let _ = expression.matches_size(gib);
            }
        }

        #[test]
        fn a_text_matches_itself(value in "[a-zA-Z0-9][ -~]{0,30}[a-zA-Z0-9]") {
            prop_assume!(parse(&value.to_lowercase()).is_some_and(|p| p.operator.is_none()));
            prop_assert_eq!(text_matches(&value, &value), Ok(true));
            let quoted = format!("s== {value}");
            prop_assume!(!value.to_lowercase().contains("s=="));
            prop_assert_eq!(text_matches(&quoted, &value.to_uppercase()), Ok(true));
        }
    }
}
