//! Formats JSON values like Python's `str`, because Ironic's agent compares hints with
//! that text and parses a size from it.

use serde_json::Value;

/// Returns a text unchanged, and everything else as Python prints it.
pub fn python_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => representation(other),
    }
}

/// Formats a value as an element of a list, where texts are quoted.
fn representation(value: &Value) -> String {
    match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(representation).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{}: {}", quoted(name), representation(value)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
    }
}

/// Uses single quotes, unless the text has a single quote and no double quote.
fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut out = String::from(quote);
    for character in text.chars() {
        match character {
            '\\' => out += "\\\\",
            '\n' => out += "\\n",
            '\r' => out += "\\r",
            '\t' => out += "\\t",
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

pub fn python_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_written_as_python_does() {
        for (value, text, kind) in [
            (json!("a'b"), "a'b", "str"),
            (json!(null), "None", "NoneType"),
            (json!(true), "True", "bool"),
            (json!(5), "5", "int"),
            (json!(5.0), "5.0", "float"),
            (
                json!(["a", "it's", "'\"", 1, null]),
                r#"['a', "it's", '\'"', 1, None]"#,
                "list",
            ),
            (json!({"a": [false]}), "{'a': [False]}", "dict"),
        ] {
            assert_eq!(python_text(&value), text);
            assert_eq!(python_type(&value), kind);
        }
    }
}
