//! Errors with separate parts for the operator, for Ironic and for developers.
//!
//! One failure has three readers: the operator at the console wants to know what to
//! do, Ironic wants its error JSON, and a developer wants the cause. A [`Failure`]
//! carries all three, so that no layer has to derive them from text.

use std::fmt;

use landfall_boot_params::without_secrets;
use serde_json::{Value, json};

/// Ironic's error classes that this agent uses. docs/messages.md lists them with these
/// comments.
///
/// The conductor shows `details`, or `message` if there are no details. It acts on
/// the type only for `TypeError` and for version mismatches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Another command is being executed. Ironic asks again later.
    AgentIsBusy,
    /// A disk was not erased, or not completely. Its data may still be readable: clean
    /// the node again, or replace the disk.
    BlockDeviceEraseError,
    /// The kernel reported an error of a disk. Look at the kernel's lines in the log;
    /// cable, controller or disk may be broken.
    BlockDeviceError,
    /// A clean step failed. The text that follows is the cause.
    CleaningError,
    /// Something failed that no other class describes. The text says what.
    CommandExecutionError,
    /// A step of the installation failed, apart from the download and the write of the
    /// image. The disk may be incomplete: deploy the node again.
    DeploymentError,
    /// No disk matches the root device hints or the given name. No disk was changed.
    /// Compare the hints with the disks that the message lists.
    DeviceNotFound,
    /// Ironic asked for a step that this agent does not have. Remove it from the node's
    /// clean or deploy steps.
    HardwareManagerMethodNotFound,
    /// The downloaded file does not match its checksum or signature. The disk does not
    /// boot. Compare the checksum with the file on the image server.
    ImageChecksumError,
    /// The image server refused the download, or the network failed until the retries
    /// ended. Test the URL from a machine in the same network.
    ImageDownloadError,
    /// The download timed out. Use a faster connection to the image server, or raise the
    /// timeout.
    ImageDownloadTimeoutError,
    /// The disk rejected a write, or a read returned other data than were written. The
    /// disk does not boot. Look at the kernel's lines in the log: disk, cable or
    /// controller may be broken.
    ImageWriteError,
    /// Ironic sent a command that this agent does not have.
    InvalidCommandError,
    /// A command or an argument has an unusable value. The text names the value and says
    /// what was expected.
    InvalidCommandParamsError,
    /// The file is not a disk image that can be written to this disk. Check that the URL
    /// leads to an image, and check the image's format and sector size.
    InvalidImage,
    /// A disk to erase holds a file system that other machines may use, so the agent did
    /// not erase it.
    ProtectedDeviceError,
    /// Ironic sent a flow with a command of an extension that this agent does not have.
    RequestedObjectNotFoundError,
    /// A service step failed. The text that follows is the cause.
    ServicingError,
    /// A software RAID was not created or not deleted.
    SoftwareRaidError,
    /// A value in a command has another type than expected, for example a text where a
    /// number belongs.
    TypeError,
    /// The agent was restarted in another version while the node was being cleaned. Ironic
    /// begins with the first step again.
    VersionMismatch,
}

impl Class {
    /// The `type` in the error JSON. It is written out, so that renaming a variant
    /// does not change the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::AgentIsBusy => "AgentIsBusy",
            Self::BlockDeviceEraseError => "BlockDeviceEraseError",
            Self::BlockDeviceError => "BlockDeviceError",
            Self::CleaningError => "CleaningError",
            Self::CommandExecutionError => "CommandExecutionError",
            Self::DeploymentError => "DeploymentError",
            Self::DeviceNotFound => "DeviceNotFound",
            Self::HardwareManagerMethodNotFound => "HardwareManagerMethodNotFound",
            Self::ImageChecksumError => "ImageChecksumError",
            Self::ImageDownloadError => "ImageDownloadError",
            Self::ImageDownloadTimeoutError => "ImageDownloadTimeoutError",
            Self::ImageWriteError => "ImageWriteError",
            Self::InvalidCommandError => "InvalidCommandError",
            Self::InvalidCommandParamsError => "InvalidCommandParamsError",
            Self::InvalidImage => "InvalidImage",
            Self::ProtectedDeviceError => "ProtectedDeviceError",
            Self::RequestedObjectNotFoundError => "RequestedObjectNotFoundError",
            Self::ServicingError => "ServicingError",
            Self::SoftwareRaidError => "SoftwareRAIDError",
            Self::TypeError => "TypeError",
            Self::VersionMismatch => "VersionMismatch",
        }
    }

    /// The `code` in the error JSON, an HTTP status.
    pub fn code(self) -> u16 {
        match self {
            Self::InvalidCommandError | Self::InvalidCommandParamsError => 400,
            Self::DeviceNotFound | Self::RequestedObjectNotFoundError => 404,
            Self::ImageDownloadTimeoutError => 408,
            Self::AgentIsBusy | Self::VersionMismatch => 409,
            _ => 500,
        }
    }

    /// The `message` in the error JSON, which describes the class.
    pub fn message(self) -> &'static str {
        match self {
            Self::AgentIsBusy => "Agent is busy",
            Self::BlockDeviceEraseError => "Error erasing block device",
            Self::BlockDeviceError => "Block device caused unknown error",
            Self::CleaningError => "Clean step failed",
            Self::CommandExecutionError | Self::TypeError => "Command execution failed",
            Self::DeploymentError => "Deploy step failed",
            Self::DeviceNotFound => "Device not found",
            Self::HardwareManagerMethodNotFound => "No HardwareManager found to handle method",
            Self::ImageChecksumError => "Error verifying image checksum",
            Self::ImageDownloadError => "Error downloading image",
            Self::ImageDownloadTimeoutError => "Image download timeout",
            Self::ImageWriteError => "Error writing image to device",
            Self::InvalidCommandError => "Invalid command",
            Self::InvalidCommandParamsError => "Invalid command parameters",
            Self::InvalidImage => "The provided image is not valid for use",
            Self::ProtectedDeviceError => "Protected device found, cleaning aborted",
            Self::RequestedObjectNotFoundError => "Not found",
            Self::ServicingError => "Service step failed",
            Self::SoftwareRaidError => "Software RAID caused unknown error",
            Self::VersionMismatch => {
                "Hardware managers version mismatch, reload agent with correct version"
            }
        }
    }
}

/// Stands between an error and its remedy in a text.
const BEFORE_REMEDY: &str = " -- ";

/// A failure with a part for each reader: a class for Ironic, details for everyone,
/// a hint for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub class: Class,
    /// What happened: names the object, what was expected and what was found. Lower
    /// case, no full stop.
    pub details: String,
    /// What the operator can do about it, if anything.
    pub hint: Option<String>,
    /// Whether a retry would fail in the same way. The class does not show this,
    /// because errors of the same class are often temporary.
    pub permanent: bool,
}

/// The result of an operation whose failure is reported to an operator or to Ironic.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn new(class: Class, details: impl Into<String>) -> Self {
        Self {
            class,
            details: details.into(),
            hint: None,
            permanent: false,
        }
    }

    /// A failure that no other class describes.
    pub fn other(details: impl Into<String>) -> Self {
        Self::new(Class::CommandExecutionError, details)
    }

    /// A failure for invalid input from Ironic, an operator or a boot argument.
    pub fn invalid_params(details: impl Into<String>) -> Self {
        Self::new(Class::InvalidCommandParamsError, details)
    }

    /// A failure of the installation, except for the download and the write.
    pub fn deployment(details: impl Into<String>) -> Self {
        Self::new(Class::DeploymentError, details)
    }

    pub fn device_not_found(details: impl Into<String>) -> Self {
        Self::new(Class::DeviceNotFound, details)
    }

    /// A failure of a disk. For writes see [`Failure::image_write`] and
    /// [`Failure::erasure`].
    pub fn block_device(details: impl Into<String>) -> Self {
        Self::new(Class::BlockDeviceError, details)
    }

    pub fn erasure(details: impl Into<String>) -> Self {
        Self::new(Class::BlockDeviceEraseError, details)
    }

    pub fn image_download(details: impl Into<String>) -> Self {
        Self::new(Class::ImageDownloadError, details)
    }

    pub fn invalid_image(details: impl Into<String>) -> Self {
        Self::new(Class::InvalidImage, details)
    }

    pub fn image_write(details: impl Into<String>) -> Self {
        Self::new(Class::ImageWriteError, details)
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// If the details end with a remedy, as the details of TLS errors do, moves the
    /// remedy to the hint. Otherwise a caller could add a second remedy.
    #[must_use]
    pub fn hint_from_details(self) -> Self {
        match with_remedy(&self.details) {
            (details, Some(remedy)) => Self {
                details: details.to_owned(),
                hint: Some(remedy.to_owned()),
                ..self
            },
            (_, None) => self,
        }
    }

    /// Marks the failure as permanent: a retry would not help.
    #[must_use]
    pub fn permanently(mut self) -> Self {
        self.permanent = true;
        self
    }

    /// The message of the class, the details and the hint in one line, with secrets
    /// removed, for the answer to a rejected request.
    pub fn in_words(&self) -> String {
        format!(
            "{}: {}",
            self.class.message(),
            without_secrets(&self.to_string())
        )
    }

    /// The error as Ironic's JSON. The `details` also contain the hint; secrets are
    /// removed.
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
            Some(hint) => write!(f, "{BEFORE_REMEDY}{hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

/// Splits the text of an error before its remedy, ` -- REMEDY`. The second part is empty
/// if there is no remedy. A caller that adds a consequence puts it between the two parts,
/// because the operator looks for the remedy at the end of the line.
pub fn split_remedy(text: &str) -> (&str, &str) {
    text.split_at(text.rfind(BEFORE_REMEDY).unwrap_or(text.len()))
}

/// Separates an error from its remedy, if there is one.
pub fn with_remedy(text: &str) -> (&str, Option<&str>) {
    let (text, remedy) = split_remedy(text);
    (text, remedy.strip_prefix(BEFORE_REMEDY))
}

/// An error with all its causes in one line, each cause once.
///
/// A DNS failure comes as a chain of five nested messages, but a console has room
/// for one line. Many libraries also repeat the cause in their own text.
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
    fn the_json_has_the_class_and_the_details() {
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
    fn a_remedy_in_the_details_becomes_the_hint() {
        for (text, details, hint) in [
            ("no CA -- add it", "no CA", Some("add it")),
            ("no answer", "no answer", None),
        ] {
            let failure = Failure::other(text).hint_from_details();
            assert_eq!(failure.details, details);
            assert_eq!(failure.hint.as_deref(), hint);
            assert_eq!(failure.to_string(), text);
        }
    }

    #[test]
    fn the_remedy_stays_at_the_end() {
        for (text, expected) in [
            ("no answer in time", "no answer in time; again"),
            (
                "clock is wrong -- set it",
                "clock is wrong; again -- set it",
            ),
            (
                "\"a -- b\" is unknown -- add it",
                "\"a -- b\" is unknown; again -- add it",
            ),
        ] {
            let (fault, remedy) = split_remedy(text);
            assert_eq!(format!("{fault}; again{remedy}"), expected);
        }
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
