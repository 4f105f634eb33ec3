//! What a run of the controller writes into a resource's status: the reasons and
//! messages of baremetal-operator's controller.

use k8s_openapi::jiff::Timestamp;

use crate::host::Format;
use crate::images::ImageUrls;
use crate::status::{ERROR, NetworkData, READY, State, Status};

const SUCCESS: &str = "ImageSuccess";

/// The input of an image. If the status names the same input, the image in the status is
/// current.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) format: Format,
    pub(crate) architecture: String,
    pub(crate) network_data: NetworkData,
}

impl Wanted {
    fn write(&self, status: &mut Status) {
        status.format = Some(self.format);
        status.architecture.clone_from(&self.architecture);
        status.network_data.clone_from(&self.network_data);
    }
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// There is no base for the architecture, or no format is accepted.
    ConfigurationError(&'static str),
    MissingNetworkData,
    /// The next image has another URL. The old image may disappear only after the
    /// status has stopped reporting it as ready.
    ConfigChanged,
    /// No image can be made, for this reason.
    Refused {
        wanted: Wanted,
        reason: String,
    },
    Ready {
        wanted: Wanted,
        urls: ImageUrls,
        /// For [`Format::Initrd`] only.
        extra_kernel_params: String,
    },
}

impl Outcome {
    /// The status after this result.
    pub(crate) fn apply(&self, old: &Status, generation: i64, now: Timestamp) -> Status {
        let mut status = old.clone();
        let mut set = |kind, is_true, reason, message: &str| {
            let message = message.to_owned();
            let state = State {
                is_true,
                reason,
                message,
            };
            status.set(kind, &state, generation, now);
        };
        match self {
            Self::ConfigurationError(message) => {
                set(READY, false, "ConfigurationError", "");
                set(ERROR, true, "ConfigurationError", message);
                status.image_url.clear();
            }
            Self::MissingNetworkData => {
                set(READY, false, "MissingNetworkData", "");
                set(
                    ERROR,
                    true,
                    "MissingNetworkData",
                    "NetworkData secret not found",
                );
                status.image_url.clear();
            }
            Self::ConfigChanged => set(READY, false, SUCCESS, "Config changed"),
            Self::Refused { wanted, reason } => {
                let message = format!("Cannot generate image: {reason}");
                set(READY, false, "ImageBuildInvalid", "");
                set(ERROR, true, "ImageBuildInvalid", &message);
                status.image_url.clear();
                status.kernel_url.clear();
                status.extra_kernel_params.clear();
                wanted.write(&mut status);
            }
            Self::Ready {
                wanted,
                urls,
                extra_kernel_params,
            } => {
                set(READY, true, SUCCESS, "Generated image");
                set(ERROR, false, SUCCESS, "");
                status.image_url.clone_from(&urls.image);
                status.kernel_url = urls.kernel.clone().unwrap_or_default();
                status.extra_kernel_params.clone_from(extra_kernel_params);
                wanted.write(&mut status);
            }
        }
        status
    }
}
