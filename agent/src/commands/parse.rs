//! From the body of a POST to a [`Command`], or to the refusal that Ironic
//! expects for exactly that fault (ironic-python-agent, `api/app.py` and
//! `extensions/base.py`; the texts were measured on it).

use serde_json::{Map, Value};

use super::command::{Command, Node, StepKind};
use crate::failure::{Class, Failure};

/// Why a request gets no command: an HTTP status and a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// 400, 404 or 409.
    pub status: u16,
    /// The `faultstring`.
    pub text: String,
}

impl Refusal {
    fn bad_request(text: impl Into<String>) -> Self {
        Self {
            status: 400,
            text: text.into(),
        }
    }
}

/// A request with its outer form checked; the busy rule stands between this
/// and the look at the command itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    extension: String,
    name: String,
    parameters: Map<String, Value>,
}

/// What [`Request::command`] makes of it.
#[derive(Debug)]
pub enum Parsed {
    /// To be executed.
    Command(Box<Command>),
    /// To be listed as failed at once, status 200: wrong arguments. The name is
    /// the command's own, without the extension.
    Failed(String, Failure),
}

impl Request {
    /// Checks the outer form of a body.
    ///
    /// # Errors
    /// Not JSON, no name, no parameters, no dot in the name: 400 each.
    pub fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let mut body: Value = serde_json::from_slice(body).map_err(|error| {
            Refusal::bad_request(format!(
                "400 Bad Request: Failed to decode JSON object: {error}"
            ))
        })?;
        let mut take = |key| body.get_mut(key).map(Value::take);
        let (Some(Value::String(name)), Some(Value::Object(parameters))) =
            (take("name"), take("params"))
        else {
            return Err(Refusal::bad_request(
                "400 Bad Request: Missing or invalid name or params",
            ));
        };
        let Some((extension, name)) = name.split_once('.') else {
            return Err(Refusal::bad_request(
                "Invalid command: Command name must be of the form <extension>.<name>",
            ));
        };
        Ok(Self {
            extension: extension.to_owned(),
            name: name.to_owned(),
            parameters,
        })
    }

    /// Finds the command and reads its arguments. Unknown arguments are
    /// ignored: newer conductors add some.
    ///
    /// # Errors
    /// Unknown extension: 404; unknown command: 400.
    pub fn command(self) -> Result<Parsed, Refusal> {
        let full = format!("{}.{}", self.extension, self.name);
        if !Command::NAMES
            .iter()
            .any(|known| known.starts_with(&format!("{}.", self.extension)))
        {
            return Err(Refusal {
                status: 404,
                text: format!("Not found: Extension with id {} not found.", self.extension),
            });
        }
        let mut arguments = Arguments {
            command: &full,
            values: self.parameters,
        };
        let command = match full.as_str() {
            "clean.get_clean_steps" => arguments.get_steps(StepKind::Clean),
            "clean.execute_clean_step" => arguments.execute_step(StepKind::Clean),
            "deploy.get_deploy_steps" => arguments.get_steps(StepKind::Deploy),
            "deploy.execute_deploy_step" => arguments.execute_step(StepKind::Deploy),
            "service.get_service_steps" => arguments.get_steps(StepKind::Service),
            "service.execute_service_step" => arguments.execute_step(StepKind::Service),
            "standby.get_partition_uuids" => Ok(Command::GetPartitionUuids),
            "standby.sync" => Ok(Command::Sync),
            "standby.run_image" => Ok(Command::RunImage),
            "standby.power_off" => Ok(Command::PowerOff),
            "image.install_bootloader" => Ok(Command::InstallBootloader {
                target_boot_mode: arguments
                    .optional("target_boot_mode")
                    .and_then(|mode| mode.as_str().map(str::to_owned))
                    .unwrap_or_else(|| "bios".to_owned()),
                ignore_failure: arguments.optional("ignore_bootloader_failure")
                    == Some(Value::Bool(true)),
            }),
            _ => {
                return Err(Refusal::bad_request(format!(
                    "Invalid command: Unknown command: {}",
                    self.name
                )));
            }
        };
        Ok(match command {
            Ok(command) => Parsed::Command(Box::new(command)),
            Err(failure) => Parsed::Failed(self.name, failure),
        })
    }
}

struct Arguments<'a> {
    command: &'a str,
    values: Map<String, Value>,
}

impl Arguments<'_> {
    fn optional(&mut self, key: &str) -> Option<Value> {
        self.values.remove(key).filter(|value| !value.is_null())
    }

    /// Wrong arguments are a `TypeError`, the one class on which a conductor
    /// changes its course (it then tries the command's older form).
    fn required(&mut self, key: &str) -> Result<Value, Failure> {
        self.optional(key).ok_or_else(|| {
            Failure::new(
                Class::TypeError,
                format!("{}: missing required argument {key}", self.command),
            )
        })
    }

    fn node(&mut self) -> Result<Node, Failure> {
        self.object("node").map(Node)
    }

    fn get_steps(mut self, kind: StepKind) -> Result<Command, Failure> {
        let node = self.node()?;
        Ok(Command::GetSteps { kind, node })
    }

    /// What is left of the parameters is the step's; its own `args` win.
    fn execute_step(mut self, kind: StepKind) -> Result<Command, Failure> {
        let step = self.object("step")?;
        let node = self.node()?;
        let version = self.optional(&format!("{}_version", kind.word()));
        self.values.remove("ports");
        let mut arguments = self.values;
        match step.get("args") {
            None | Some(Value::Null) => {}
            Some(Value::Object(own)) => {
                arguments.extend(own.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            Some(other) => {
                return Err(Failure::new(
                    Class::InvalidCommandParamsError,
                    format!(
                        "{}: args of the step: expected an object, found {other}",
                        self.command
                    ),
                ));
            }
        }
        Ok(Command::ExecuteStep {
            kind,
            node,
            step,
            arguments,
            version,
        })
    }

    fn object(&mut self, key: &str) -> Result<Value, Failure> {
        let value = self.required(key)?;
        if !value.is_object() {
            return Err(Failure::new(
                Class::InvalidCommandParamsError,
                format!("{}: argument {key} must be an object", self.command),
            ));
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &str) -> (u16, String) {
        let refusal = Request::parse(body.as_bytes())
            .and_then(Request::command)
            .expect_err("should be refused");
        (refusal.status, refusal.text)
    }

    #[test]
    fn refusals_are_the_originals() {
        for (body, status, begin) in [
            ("{", 400, "400 Bad Request: Failed to decode JSON object"),
            (
                "[]",
                400,
                "400 Bad Request: Missing or invalid name or params",
            ),
            (
                r#"{"name":"standby.sync"}"#,
                400,
                "400 Bad Request: Missing or invalid name or params",
            ),
            (
                r#"{"name":"standby.sync","params":[]}"#,
                400,
                "400 Bad Request: Missing or invalid name or params",
            ),
            (
                r#"{"name":"sync","params":{}}"#,
                400,
                "Invalid command: Command name must be of the form <extension>.<name>",
            ),
            (
                r#"{"name":"nosuch.sync","params":{}}"#,
                404,
                "Not found: Extension with id nosuch not found.",
            ),
            (
                r#"{"name":"standby.nosuch","params":{}}"#,
                400,
                "Invalid command: Unknown command: nosuch",
            ),
        ] {
            let (found_status, text) = refusal(body);
            assert_eq!(found_status, status, "{body}");
            assert!(text.starts_with(begin), "{body}: {text}");
        }
    }

    #[test]
    fn every_name_of_the_table_is_parsed() {
        for name in Command::NAMES {
            let body = serde_json::json!({
                "name": name,
                "params": {"node": {}, "ports": [], "step": {"step": "x"}, "unknown": 1},
            });
            let parsed = Request::parse(body.to_string().as_bytes())
                .and_then(Request::command)
                .unwrap();
            match parsed {
                Parsed::Command(command) => {
                    assert_eq!(Some(command.name()), name.split('.').nth(1));
                }
                Parsed::Failed(..) => panic!("{name} refused its arguments"),
            }
        }
    }

    #[test]
    fn missing_arguments_fail_the_command_with_type_error() {
        let body = br#"{"name":"deploy.execute_deploy_step","params":{"node":{}}}"#;
        match Request::parse(body).and_then(Request::command).unwrap() {
            Parsed::Failed(name, failure) => {
                assert_eq!(name, "execute_deploy_step");
                assert_eq!(failure.class, Class::TypeError);
            }
            Parsed::Command(_) => panic!("accepted without a step"),
        }
    }

    #[test]
    fn arguments_of_a_step_are_the_commands_under_its_own() {
        let body = br#"{"name":"clean.execute_clean_step","params":{
            "node":{}, "ports":[], "clean_version":{"a":"1"}, "x":1, "y":2,
            "step":{"step":"s", "args":{"y":3}}}}"#;
        let parsed = Request::parse(body).and_then(Request::command).unwrap();
        let Parsed::Command(command) = parsed else {
            panic!("{parsed:?}");
        };
        let Command::ExecuteStep {
            kind,
            arguments,
            version,
            ..
        } = *command
        else {
            panic!("{command:?}");
        };
        assert_eq!(kind, StepKind::Clean);
        assert_eq!(Value::from(arguments), serde_json::json!({"x": 1, "y": 3}));
        assert_eq!(version, Some(serde_json::json!({"a": "1"})));
    }

    proptest::proptest! {
        #[test]
        fn never_panics(body: Vec<u8>) {
            let _ = Request::parse(&body).and_then(Request::command);
        }
    }
}
