//! The JSON Schema of the JSON that the agent writes for programs,
//! `docs/events.schema.json`.
//!
//! The schema permits fields that it does not name, because the agent may get new ones.
//! [`EventsSchema::fault`] is stricter: it reports fields that are missing in the
//! schema.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context as _, Result, anyhow};
use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

use crate::page::repository;

const FILE: &str = "docs/events.schema.json";
/// The name of the schema within the validator. Nothing is fetched from there.
const URL: &str = "https://landfall.invalid/events.schema.json";

/// A form of JSON that the agent writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Event,
    Status,
    Report,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Status => "status",
            Self::Report => "report",
        }
    }
}

pub struct EventsSchema {
    document: Value,
    validator: Schemas,
    event: SchemaIndex,
    status: SchemaIndex,
    report: SchemaIndex,
}

impl EventsSchema {
    /// Reads the schema of the repository.
    ///
    /// # Errors
    /// If the file is no JSON Schema.
    pub fn read() -> Result<Self> {
        let text = fs::read_to_string(repository().join(FILE)).context(FILE)?;
        let document: Value = serde_json::from_str(&text).context(FILE)?;
        let mut closed = document.clone();
        close(&mut closed);
        let mut compiler = Compiler::new();
        let mut validator = Schemas::new();
        let fault = |error: boon::CompileError| anyhow!("{FILE}: {error:#}");
        compiler.add_resource(URL, closed).map_err(fault)?;
        let mut compile = |form: Form| {
            let place = format!("{URL}#/$defs/{}", form.name());
            compiler.compile(&place, &mut validator).map_err(fault)
        };
        let (event, status, report) = (
            compile(Form::Event)?,
            compile(Form::Status)?,
            compile(Form::Report)?,
        );
        Ok(Self {
            document,
            validator,
            event,
            status,
            report,
        })
    }

    /// Why the value does not have this form, or which of its fields the schema does
    /// not name. `None` if the value fits.
    pub fn fault(&self, form: Form, value: &Value) -> Option<String> {
        let schema = match form {
            Form::Event => self.event,
            Form::Status => self.status,
            Form::Report => self.report,
        };
        let checked = self.validator.validate(value, schema);
        checked.err().map(|error| format!("{error}\n{value:#}"))
    }

    /// The fields of a form by their paths (`network.nics[].name`). If the schema lists
    /// the possible texts of a field, they are included. The fields of a status within
    /// a report and of the events within a status are left out.
    pub fn fields(&self, form: Form) -> BTreeMap<String, Vec<String>> {
        let mut fields = BTreeMap::new();
        self.collect(&self.document["$defs"][form.name()], "", &mut fields);
        fields
    }

    fn collect(&self, schema: &Value, path: &str, fields: &mut BTreeMap<String, Vec<String>>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = match path {
                "" => name.clone(),
                path => format!("{path}.{name}"),
            };
            let (property, is_form) = self.resolved(property);
            let values = property["enum"].as_array().into_iter().flatten();
            let texts = { values.filter_map(Value::as_str) }
                .filter(|text| !text.is_empty())
                .map(str::to_owned);
            fields.insert(path.clone(), texts.collect());
            if is_form {
                continue;
            }
            self.collect(property, &path, fields);
            let (items, is_form) = self.resolved(&property["items"]);
            if !is_form {
                self.collect(items, &format!("{path}[]"), fields);
            }
        }
    }

    /// The schema that the `$ref` of `schema` names, or `schema` itself; and whether it
    /// is that of a [`Form`].
    fn resolved<'a>(&'a self, schema: &'a Value) -> (&'a Value, bool) {
        match schema["$ref"].as_str() {
            Some(reference) => {
                let name = reference.trim_start_matches("#/$defs/");
                let is_form = ["event", "status", "report"].contains(&name);
                (&self.document["$defs"][name], is_form)
            }
            None => (schema, false),
        }
    }
}

/// Makes the schema reject all fields that it does not name.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            // A schema without `type` is a condition of a report: it names only one field
            // of many, so it stays open.
            let is_object = members.contains_key("type") && members.contains_key("properties");
            members.values_mut().for_each(close);
            if is_object {
                members.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
        }
        Value::Array(list) => list.iter_mut().for_each(close),
        _ => {}
    }
}

/// The paths of all fields of a value, as [`EventsSchema::fields`] names them.
pub fn paths(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect_paths(value, "", &mut found);
    found.sort();
    found.dedup();
    found
}

fn collect_paths(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let path = match path {
                    "" => name.clone(),
                    path => format!("{path}.{name}"),
                };
                collect_paths(member, &path, found);
                found.push(path);
            }
        }
        Value::Array(items) => {
            for item in items {
                collect_paths(item, &format!("{path}[]"), found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_with_a_wrong_missing_or_unknown_field_is_reported() {
        let schema = EventsSchema::read().unwrap();
        let good = json!({"v": 1, "sequence": 7, "time": 1.5, "stage": "disk", "level": "warn",
            "text": "x", "progress": {"done": 5, "total": null}});
        assert_eq!(schema.fault(Form::Event, &good), None);
        for (field, value) in [
            ("v", json!(2)),
            ("level", json!("WARN")),
            ("text", json!("\u{1b}[2J")),
            ("sequence", json!(0)),
            ("progress", json!({"done": 5, "total": null, "rate": 1})),
            ("other", json!(1)),
        ] {
            let mut bad = good.clone();
            bad[field] = value;
            assert!(schema.fault(Form::Event, &bad).is_some(), "{bad}");
        }
        for field in ["v", "time", "level"] {
            let mut bad = good.clone();
            bad.as_object_mut().unwrap().remove(field);
            assert!(schema.fault(Form::Event, &bad).is_some(), "{bad}");
        }
        assert!(schema.fault(Form::Status, &good).is_some());
        let fields = schema.fields(Form::Event);
        assert_eq!(fields["level"], ["error", "warn", "info", "debug"]);
        let known: Vec<&String> = fields.keys().collect();
        assert_eq!(paths(&good).iter().collect::<Vec<_>>(), known);
        assert!(
            schema
                .fields(Form::Status)
                .contains_key("network.nics[].way[].step")
        );
    }
}
