//! What goes wrong, told to whom it concerns.
//!
//! One failure has three readers: the operator at the console wants to know
//! what to do, Ironic wants its error JSON, a developer wants the cause. A
//! [`Failure`] carries all three, so that no layer has to guess from text.

use std::fmt;

use landfall_boot_params::without_secrets;
use serde_json::{Value, json};

/// The error classes that Ironic knows by name.
///
/// The conductor shows `details`, else `message`; it acts on the type only for
/// `TypeError` and for version mismatches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    BlockDeviceError,
    CommandExecutionError,
    DeploymentError,
    DeviceNotFound,
    HardwareManagerMethodNotFound,
    ImageChecksumError,
    ImageDownloadError,
    ImageWriteError,
    InvalidCommandError,
    InvalidCommandParamsError,
    InvalidImage,
    TypeError,
    VersionMismatch,
}

impl Class {
    /// The `type` in the error JSON: written out, so that renaming a variant
    /// does not change the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::BlockDeviceError => "BlockDeviceError",
            Self::CommandExecutionError => "CommandExecutionError",
            Self::DeploymentError => "DeploymentError",
            Self::DeviceNotFound => "DeviceNotFound",
            Self::HardwareManagerMethodNotFound => "HardwareManagerMethodNotFound",
            Self::ImageChecksumError => "ImageChecksumError",
            Self::ImageDownloadError => "ImageDownloadError",
            Self::ImageWriteError => "ImageWriteError",
            Self::InvalidCommandError => "InvalidCommandError",
            Self::InvalidCommandParamsError => "InvalidCommandParamsError",
            Self::InvalidImage => "InvalidImage",
            Self::TypeError => "TypeError",
            Self::VersionMismatch => "VersionMismatch",
        }
    }

    /// The `code` in the error JSON, an HTTP status.
    pub fn code(self) -> u16 {
        match self {
            Self::InvalidCommandError | Self::InvalidCommandParamsError => 400,
            Self::DeviceNotFound => 404,
            Self::VersionMismatch => 409,
            _ => 500,
        }
    }

    /// The `message` in the error JSON: the class in words.
    pub fn message(self) -> &'static str {
        match self {
            Self::BlockDeviceError => "Block device error",
            Self::CommandExecutionError | Self::TypeError => "Command execution failed",
            Self::DeploymentError => "Deploy step failed",
            Self::DeviceNotFound => "Device not found",
            Self::HardwareManagerMethodNotFound => "No HardwareManager found to handle method",
            Self::ImageChecksumError => "Error verifying image checksum",
            Self::ImageDownloadError => "Error downloading image",
            Self::ImageWriteError => "Error writing image to device",
            Self::InvalidCommandError => "Invalid command",
            Self::InvalidCommandParamsError => "Invalid command parameters",
            Self::InvalidImage => "Invalid image",
            Self::VersionMismatch => "Hardware manager version mismatch",
        }
    }
}

/// A failure with its audience: class for Ironic, details for everyone, a hint
/// for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What Ironic calls it.
    pub class: Class,
    /// What happened: object named, expected and found, lower case, no full stop.
    pub details: String,
    /// What the operator can do about it, if anything is known.
    pub hint: Option<String>,
}

/// The result of everything that can fail for a reason someone must be told.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure of this class with these details.
    pub fn new(class: Class, details: impl Into<String>) -> Self {
        Self {
            class,
            details: details.into(),
            hint: None,
        }
    }

    /// The same failure with advice for the operator.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Ironic's error JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "type": self.class.name(),
            "code": self.class.code(),
            "message": self.class.message(),
            "details": without_secrets(&self.to_string()),
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.details)?;
        match &self.hint {
            Some(hint) => write!(f, " -- {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

/// An error with all its causes in one line, each cause once.
///
/// A DNS failure comes as a chain of five nested messages; a console line has
/// room for one, and libraries tend to repeat the cause in their own text.
pub fn one_line(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_ironic_the_class_and_everyone_the_details() {
        let failure = Failure::new(Class::DeviceNotFound, "no disk on this machine")
            .hint("check the storage controller");
        let json = failure.to_json();
        assert_eq!(json["type"], "DeviceNotFound");
        assert_eq!(json["code"], 404);
        assert_eq!(
            json["details"],
            "no disk on this machine -- check the storage controller"
        );
    }

    #[test]
    fn chain_of_causes_is_one_line_without_repeats() {
        #[derive(Debug, thiserror::Error)]
        #[error("opening /dev/vda: {0}")]
        struct Outer(#[source] std::io::Error);
        let inner = std::io::Error::other("device gone");
        assert_eq!(one_line(&Outer(inner)), "opening /dev/vda: device gone");
    }
}
