//! The settings of the controller.

use crate::leadership::LeaseSettings;
use crate::retry::RetryLimits;

/// What an operator can set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace whose resources the controller handles; `None`: all namespaces.
    pub namespace: Option<String>,
    /// Leader election. `None` if there is only one copy.
    pub lease: Option<LeaseSettings>,
    /// The value of `status.extraKernelParams` for ramdisks. Ironic appends these
    /// arguments to its own.
    pub extra_kernel_params: String,
    /// How many resources have a run at the same time. The API server may limit the
    /// requests of one user.
    pub concurrency: u16,
    pub retry: RetryLimits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: None,
            lease: None,
            extra_kernel_params: String::new(),
            concurrency: 32,
            retry: RetryLimits::default(),
        }
    }
}
