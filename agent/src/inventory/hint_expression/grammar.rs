//! What the grammar makes of an expression: an operator and its operands.

use std::cmp::Ordering;

use super::{ErrorClass, HintError};

/// `s==`
pub(super) const EQUAL: Operator = Operator::Text(&[Ordering::Equal]);
/// `s!=`
pub(super) const NOT_EQUAL: Operator = Operator::Text(&[Ordering::Less, Ordering::Greater]);
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

/// How a device's value is compared with the operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
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
    /// For values that are numbers. Hints never get here: a text's bounds are
    /// percent-encoded into one word before, and a size must be a number.
    RangeIn,
}

/// The head of a text as the grammar reads it; whatever follows is ignored.
#[derive(Debug)]
pub(super) struct Parsed<'a> {
    /// As written, and what it does. `None`: the text is a value.
    pub operator: Option<(&'static str, Operator)>,
    /// At least one.
    pub operands: Vec<&'a str>,
}

/// Reads a text.
///
/// # Errors
/// If it begins with an operator that lacks its operand, or is empty.
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
    // The first operator that fits is the one: without an operand the whole
    // text is broken, and no shorter operator is tried.
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

/// White space of the grammar, which is less than Python's.
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
    let end = text.find(super::is_python_space).unwrap_or(text.len());
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
