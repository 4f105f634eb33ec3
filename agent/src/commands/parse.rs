//! Turns the body of a POST into a `Command`, or into the error that Ironic
//! expects for this fault (ironic-python-agent, `api/app.py` and
//! `extensions/base.py`). The error texts were measured with Ironic's agent.

use landfall_report::failure::{Class, Failure};
use serde_json::{Map, Value};

use super::command::{Command, FlowTask, RescuePassword, StepKind};
use super::image_info::ImageInfo;
use super::node::Node;
use super::not_offered;

/// The HTTP status and text with which a request is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status: 400, 404 or 409.
    pub status: u16,
    /// The text, which becomes the `faultstring`.
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

/// The maximum number of values in a body, because each parsed value, even a digit, takes
/// some hundred bytes of memory. A complete node has a few thousand values. A large body
/// is large because of long texts, not because of many values.
const VALUES: usize = 1 << 18;

const NO_DOT: &str = "Invalid command: Command name must be of the form <extension>.<name>";

/// A request whose outer form is valid. The command itself is not checked yet, because
/// the dispatcher first checks whether another command is running.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    extension: String,
    name: String,
    parameters: Map<String, Value>,
}

/// The result of [`Request::command`].
#[derive(Debug)]
pub enum Parsed {
    Command(Box<Command>),
    /// The arguments are wrong. The agent lists the command as failed and returns HTTP
    /// status 200. The text is the command's name without its extension: `x` of
    /// `deploy.x`.
    Failed(String, Failure),
}

impl Request {
    /// Checks the outer form of a body.
    ///
    /// # Errors
    /// 400 if the body has too many values, is not JSON, has no name or no parameters, or
    /// if the name has no dot.
    pub fn parse(body: &[u8]) -> Result<Self, Refusal> {
        // In JSON, each element of an array and each member of an object follows one of
        // these bytes. Such bytes within texts are counted too, but a conductor sends no
        // texts with that many commas.
        let begins_value = |byte: &&u8| matches!(byte, b',' | b'[' | b'{');
        if body.iter().filter(begins_value).count() > VALUES {
            return Err(Refusal::bad_request(format!(
                "400 Bad Request: more than {VALUES} values"
            )));
        }
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
            return Err(Refusal::bad_request(NO_DOT));
        };
        Ok(Self {
            extension: extension.to_owned(),
            name: name.to_owned(),
            parameters,
        })
    }

    pub fn is(&self, extension: &str, name: &str) -> bool {
        self.extension == extension && self.name == name
    }

    /// Finds the command and reads its arguments. Unknown arguments are ignored,
    /// because newer conductors add some.
    ///
    /// # Errors
    /// 404 for an unknown extension. 400 for an unknown command, for an invalid
    /// `image_info` of `standby.prepare_image`, for a step or an image that this agent
    /// does not support, and for a flow with an unknown command.
    pub fn command(self) -> Result<Parsed, Refusal> {
        let full = format!("{}.{}", self.extension, self.name);
        if !is_extension(&self.extension) {
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
            "clean.get_clean_steps" => arguments.offered_steps(StepKind::Clean)?,
            "clean.execute_clean_step" => arguments.execute_step(StepKind::Clean),
            "deploy.get_deploy_steps" => arguments.offered_steps(StepKind::Deploy)?,
            "deploy.execute_deploy_step" => arguments.execute_step(StepKind::Deploy),
            "service.get_service_steps" => arguments.offered_steps(StepKind::Service)?,
            "service.execute_service_step" => arguments.execute_step(StepKind::Service),
            "standby.get_partition_uuids" => Ok(Command::GetPartitionUuids),
            "standby.execute_bootc_install" => {
                return Err(Refusal::bad_request(not_offered::bootc().in_words()));
            }
            "standby.sync" => Ok(Command::Sync),
            "standby.run_image" => Ok(Command::RunImage),
            "standby.power_off" => Ok(Command::PowerOff),
            "image.install_bootloader" => Ok(Command::InstallBootloader {
                root_uuid: arguments
                    .optional("root_uuid")
                    .and_then(|uuid| uuid.as_str().map(str::to_owned)),
                target_boot_mode: arguments
                    .optional("target_boot_mode")
                    .and_then(|mode| mode.as_str().map(str::to_owned))
                    .unwrap_or_else(|| "bios".to_owned()),
                ignore_failure: arguments.optional("ignore_bootloader_failure")
                    == Some(Value::Bool(true)),
            }),
            "standby.prepare_image" => {
                let info = arguments.optional("image_info").unwrap_or_default();
                return match ImageInfo::read(&info) {
                    Ok(image) => Ok(Parsed::Command(Box::new(Command::PrepareImage {
                        info: Box::new(image),
                        // Older conductors send the config drive only in `image_info`.
                        config_drive: arguments
                            .optional("configdrive")
                            .unwrap_or_else(|| info["configdrive"].clone()),
                    }))),
                    Err(failure) => Err(Refusal::bad_request(failure.in_words())),
                };
            }
            "log.collect_system_logs" => Ok(Command::CollectSystemLogs),
            "rescue.finalize_rescue" => arguments.rescue_password().map(Command::FinalizeRescue),
            "system.lockdown" => Ok(Command::Lockdown),
            "poll.get_hardware_info" => Ok(Command::GetHardwareInfo),
            "poll.set_node_info" => arguments.node_info(),
            "flow.start_flow" => match flow(arguments.optional("flow"))? {
                Ok(tasks) => Ok(Command::StartFlow { tasks }),
                Err(failure) => Err(failure),
            },
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

fn is_extension(name: &str) -> bool {
    let mut extensions = Command::NAMES
        .iter()
        .filter_map(|known| known.split_once('.'));
    extensions.any(|(extension, _)| extension == name)
}

/// The tasks of a flow: a list of objects with commands as keys and parameters as values.
/// Only a wrong name prevents the start of the flow. A command with wrong parameters
/// fails when the flow reaches it.
///
/// # Errors
/// The outer error rejects the request: for an unknown command or a name without a dot.
/// The inner error lists the command as failed: for an unknown extension or a value that
/// is not a flow.
fn flow(given: Option<Value>) -> Result<Result<Vec<FlowTask>, Failure>, Refusal> {
    let no_flow = || {
        Failure::new(
            Class::TypeError,
            "flow.start_flow: flow must be a list of objects",
        )
    };
    let Some(Value::Array(steps)) = given else {
        return Ok(Err(no_flow()));
    };
    let mut tasks = Vec::new();
    for step in steps {
        let Value::Object(commands) = step else {
            return Ok(Err(no_flow()));
        };
        for (full, parameters) in commands {
            let Some((extension, name)) = full.split_once('.') else {
                return Err(Refusal::bad_request(NO_DOT));
            };
            if !is_extension(extension) {
                return Ok(Err(Failure::new(
                    Class::RequestedObjectNotFoundError,
                    format!("Extension with id {extension} not found."),
                )));
            }
            if !Command::NAMES.contains(&full.as_str()) {
                return Err(Refusal::bad_request(format!(
                    "Invalid command parameters: Extension {extension} doesn't provide {name} method"
                )));
            }
            let command = task(extension, name, parameters);
            tasks.push(FlowTask {
                name: full,
                command,
            });
        }
    }
    Ok(Ok(tasks))
}

fn task(extension: &str, name: &str, parameters: Value) -> Result<Command, Failure> {
    let Value::Object(parameters) = parameters else {
        let details = format!("{extension}.{name}: parameters must be an object");
        return Err(Failure::new(Class::TypeError, details));
    };
    if extension == "flow" {
        // A flow within a flow fails, because the outer flow is still running. Ironic's
        // agent returns the same error.
        return Err(Failure::new(
            Class::AgentIsBusy,
            "executing command start_flow",
        ));
    }
    let request = Request {
        extension: extension.to_owned(),
        name: name.to_owned(),
        parameters,
    };
    match request.command() {
        Ok(Parsed::Command(command)) => Ok(*command),
        Ok(Parsed::Failed(_, failure)) => Err(failure),
        Err(refusal) => Err(Failure::new(Class::InvalidCommandError, refusal.text)),
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

    /// A missing argument is a `TypeError`, because this is the only class to which a
    /// conductor reacts: it then tries the older form of the command.
    fn required(&mut self, key: &str) -> Result<Value, Failure> {
        self.optional(key).ok_or_else(|| {
            Failure::new(
                Class::TypeError,
                format!("{} lacks the required argument {key}", self.command),
            )
        })
    }

    fn node(&mut self) -> Result<Node, Failure> {
        self.object("node").map(Node)
    }

    /// Requires the argument `ports`, as Ironic's agent does, although this agent does
    /// not use it.
    fn ports(&mut self) -> Result<(), Failure> {
        self.required("ports").map(drop)
    }

    fn get_steps(mut self, kind: StepKind) -> Result<Command, Failure> {
        let node = self.node()?;
        self.ports()?;
        Ok(Command::GetSteps { kind, node })
    }

    /// Like [`Self::get_steps`], but rejects the request (outer error) if Ironic plans a
    /// step or an image that this agent does not support. For a request with status 400
    /// Ironic shows the text. For a failed command Ironic would only say that the list of
    /// steps is missing.
    fn offered_steps(self, kind: StepKind) -> Result<Result<Command, Failure>, Refusal> {
        let command = self.get_steps(kind);
        if let Ok(Command::GetSteps { node, .. }) = &command {
            not_offered::refuse_in(kind, node)
                .map_err(|failure| Refusal::bad_request(failure.in_words()))?;
        }
        Ok(command)
    }

    /// The remaining parameters belong to the step. The step's own `args` override
    /// them.
    fn execute_step(mut self, kind: StepKind) -> Result<Command, Failure> {
        let step = self.object("step")?;
        let node = self.node()?;
        let version = self.optional(&format!("{}_version", kind.word()));
        self.ports()?;
        let mut arguments = self.values;
        match step.get("args") {
            None | Some(Value::Null) => {}
            Some(Value::Object(own)) => {
                arguments.extend(own.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            Some(other) => {
                return Err(Failure::invalid_params(format!(
                    "{}: args of the step: expected an object, found {other}",
                    self.command
                )));
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

    /// Must not return a `TypeError`, because a conductor would then send the password
    /// again in plain text.
    fn rescue_password(&mut self) -> Result<RescuePassword, Failure> {
        let password = match self.optional("rescue_password") {
            None => String::new(),
            Some(Value::String(password)) => password,
            Some(_) => {
                return Err(Failure::invalid_params(
                    "rescue.finalize_rescue: rescue_password must be a text",
                ));
            }
        };
        Ok(match self.optional("hashed") {
            Some(Value::Bool(true)) => RescuePassword::Hash(password),
            _ => RescuePassword::Plain(password),
        })
    }

    /// Takes the answer of a lookup that the client made for this agent.
    fn node_info(&mut self) -> Result<Command, Failure> {
        let mut info = self.object("node_info")?;
        let node = info["node"].take();
        if node["uuid"].as_str().is_none() {
            return Err(Failure::invalid_params(
                "poll.set_node_info: expected the answer of a lookup, found no node with a uuid",
            ));
        }
        Ok(Command::SetNodeInfo { node: Node(node) })
    }

    fn object(&mut self, key: &str) -> Result<Value, Failure> {
        let value = self.required(key)?;
        if !value.is_object() {
            return Err(Failure::invalid_params(format!(
                "{}: argument {key} must be an object",
                self.command
            )));
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests;
