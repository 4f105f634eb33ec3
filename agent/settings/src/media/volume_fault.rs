//! What is wrong with the medium in a drive.

use std::path::PathBuf;

use landfall_media_formats::coreos_image::{DESCRIPTION, DescriptionError};

use super::confined_medium::MediumError;

/// A fault of a medium, which the operator finds by its drive.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", .node.display())]
pub(super) struct VolumeFault {
    pub(super) node: PathBuf,
    pub(super) reason: Reason,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Reason {
    #[error(transparent)]
    Medium(#[from] MediumError),
    #[error("{DESCRIPTION}: {0}")]
    Image(DescriptionError),
    /// The network document of the medium is not UTF-8 text. The agent ignores the
    /// document; write the medium again.
    #[error("{0}: expected UTF-8")]
    NotUtf8(&'static str),
    /// The directory on the medium has more files than the agent reads. Remove files that the
    /// agent does not need.
    #[error("{directory}: expected at most {limit} files, found {found}; the rest is ignored")]
    TooManyFiles {
        directory: String,
        limit: usize,
        found: usize,
    },
    /// Together, the configuration files on the medium are larger than the agent accepts.
    /// The agent ignores the files beyond the limit; make the files smaller.
    #[error(
        "{directory}: expected at most {limit} MiB of configuration files, found more at {name}; the rest is ignored"
    )]
    TooLarge {
        directory: String,
        limit: usize,
        name: String,
    },
    /// The name has characters that the agent does not accept in a file name, for example a
    /// slash. Rename the file on the medium.
    #[error("{directory}: {name:?} is not a valid file name; ignored")]
    FileName { directory: String, name: String },
    /// A file that the medium must have is missing. The copy may be incomplete: write the
    /// medium again.
    #[error("{0} is missing")]
    Missing(String),
    /// The label of the medium says that it has Ironic's parameters, but the file is missing.
    /// The agent continues without this medium; let Ironic make it again.
    #[error("parameters.txt is missing, although the label announces it")]
    NoParameters,
}
