//! Parses an expression into an operator and its operands.

use std::cmp::Ordering;

use super::{ErrorClass, HintError};

/// `s==`
pub(super) const EQUAL: Operator = Operator::Text(&[Ordering::Equal]);
/// `s!=`
pub(super) const NOT_EQUAL: Operator = Operator::Text(&[Ordering::Less, Ordering::Greater]);
/// Operators with one operand, in the order in which the grammar tries them.
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
    ("s==", EQUAL),
    ("s!=", NOT_EQUAL),
    ("s<=", Operator::Text(&[Ordering::Less, Ordering::Equal])),
    ("s<", Operator::Text(&[Ordering::Less])),
    ("s>=", Operator::Text(&[Ordering::Greater, Ordering::Equal])),
    ("s>", Operator::Text(&[Ordering::Greater])),
];
const OR: &str = "<or>";
const ALL_IN: &str = "<all-in>";
const RANGE_IN: &str = "<range-in>";

/// How to compare a device's value with the operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    /// Compares numbers. Matches if the result is one of these.
    Number(&'static [Ordering]),
    /// A separate variant, because it also matches NaN, and no [`Ordering`] describes
    /// NaN.
    NumberNotEqual,
    /// Compares texts. Matches if the result is one of these.
    Text(&'static [Ordering]),
    /// Matches if the operand is a part of the value.
    In,
    Or,
    /// For values that are lists. No property of a disk is a list.
    AllIn,
    /// For values that are numbers. No hint is evaluated with this operator: in a text
    /// hint the bounds are first percent-encoded into one word, and a size hint must be a
    /// number.
    RangeIn,
}

/// The parsed beginning of a text. The grammar ignores the rest.
#[derive(Debug)]
pub(super) struct Parsed<'a> {
    /// The operator as written, and its meaning. `None` if the text is a plain value.
    pub operator: Option<(&'static str, Operator)>,
    /// Has at least one element.
    pub operands: Vec<&'a str>,
}

/// Parses a text.
///
/// # Errors
/// If the text is empty, or if it begins with an operator that has no operand.
pub(super) fn parse(text: &str) -> Result<Parsed<'_>, HintError> {
    let operation = |symbol, operator, operands| {
        Ok(Parsed {
            operator: Some((symbol, operator)),
            operands,
        })
    };
    let no_operand = || {
        HintError::new(
            ErrorClass::ParseException,
            format!("an operator without operand in \"{text}\""),
        )
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
    // The first matching operator is used. If it has no operand, the whole text is
    // invalid, although a shorter operator could match.
    let unary = UNARY
        .iter()
        .find_map(|&(symbol, operator)| Some((symbol, operator, literal(text, symbol)?)));
    if let Some((symbol, operator, rest)) = unary {
        let (operand, _) = atom(rest).ok_or_else(no_operand)?;
        return operation(symbol, operator, vec![operand]);
    }
    let (word, _) = atom(text).ok_or_else(no_operand)?;
    Ok(Parsed {
        operator: None,
        operands: vec![word],
    })
}

/// Skips the white space of the grammar, which has fewer characters than Python's.
fn skip_blanks(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', '\r', '\n'])
}

fn literal<'a>(text: &'a str, symbol: &str) -> Option<&'a str> {
    skip_blanks(text).strip_prefix(symbol)
}

/// A word that does not begin with an operator, and the rest of the text.
fn atom(text: &str) -> Option<(&str, &str)> {
    let text = skip_blanks(text);
    // All operators in angle brackets are covered, because `<` is an operator too.
    if UNARY.iter().any(|(symbol, _)| text.starts_with(symbol)) {
        return None;
    }
    let end = text.find(super::is_python_space).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn atoms(text: &str, limit: usize) -> Vec<&str> {
    let mut rest = text;
    let mut atoms = Vec::new();
    while atoms.len() < limit
        && let Some((word, after)) = atom(rest)
    {
        atoms.push(word);
        rest = after;
    }
    atoms
}
