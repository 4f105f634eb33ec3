//! URLs that contain fields of the node. Ironic's agent fills them with
//! Python's `str.format`: `http://host/{node[uuid]}/{node[properties][rack]}`.
//! No I/O.

use serde_json::Value;

/// Why a template cannot be filled in.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Write a brace that belongs to the URL twice.
    #[error("a single brace in {0:?}")]
    SingleBrace(String),
    /// The text within the braces does not lead to a field of the node.
    #[error("expected a field like {{node[uuid]}}, found {{{0}}}")]
    Syntax(String),
    /// The URL has a field in braces that Ironic's node does not have. Correct the URL, or add
    /// the field to the node.
    #[error("the node has no {{{0}}}")]
    NoField(String),
    /// The URL has a field in braces whose value is a list or an object. Name one value
    /// inside the list or object.
    #[error("{{{field}}} is no text: {value}")]
    NoText { field: String, value: String },
}

/// Fills in the fields. `{{` and `}}` stand for single braces.
///
/// # Errors
/// If a brace stands alone, if a field is malformed or is not in the node, or if its
/// value is null, a list or an object. The error names the template or the field.
pub fn fill(template: &str, node: &Value) -> Result<String, TemplateError> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some(place) = rest.find(['{', '}']) {
        filled.push_str(&rest[..place]);
        let brace = &rest[place..=place];
        rest = &rest[place + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            filled.push_str(brace);
            rest = after;
            continue;
        }
        let end = rest.find('}').filter(|_| brace == "{");
        let end = end.ok_or_else(|| TemplateError::SingleBrace(template.to_owned()))?;
        filled.push_str(&field(&rest[..end], node)?);
        rest = &rest[end + 1..];
    }
    filled.push_str(rest);
    Ok(filled)
}

fn field(field: &str, node: &Value) -> Result<String, TemplateError> {
    let unknown = || TemplateError::Syntax(field.to_owned());
    let mut keys = field.strip_prefix("node").ok_or_else(unknown)?;
    let mut value = node;
    while let Some(rest) = keys.strip_prefix('[') {
        let (key, after) = rest.split_once(']').ok_or_else(unknown)?;
        value = match key.parse::<usize>() {
            Ok(index) if value.is_array() => value.get(index),
            _ => value.get(key),
        }
        .ok_or_else(|| TemplateError::NoField(field.to_owned()))?;
        keys = after;
    }
    match value {
        _ if !keys.is_empty() => Err(unknown()),
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(true) => Ok("True".into()),
        Value::Bool(false) => Ok("False".into()),
        _ => Err(TemplateError::NoText {
            field: field.to_owned(),
            value: value.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_those_of_the_node() {
        let node = json!({"uuid": "u-1", "properties": {"n": 5, "list": ["a"]}, "none": null});
        for (template, expected) in [
            ("http://h/x", "http://h/x"),
            ("http://h/{node[uuid]}.cfg", "http://h/u-1.cfg"),
            ("{node[properties][n]}/{node[properties][list][0]}", "5/a"),
            ("{{{node[uuid]}}}", "{u-1}"),
        ] {
            assert_eq!(fill(template, &node).as_deref(), Ok(expected), "{template}");
        }
        for bad in [
            "{",
            "}",
            "{node[x]}",
            "{node}",
            "{node[none]}",
            "{x}",
            "{node[uuid}",
            "{node.uuid}",
        ] {
            assert!(fill(bad, &node).is_err(), "{bad}");
        }
    }
}
