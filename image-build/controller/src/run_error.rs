//! Why a run for one resource fails.

use std::time::Duration;

/// The maximum number of steps of one run. No run needs more than ten.
pub(crate) const MOST_STEPS: usize = 16;
/// The time limit of one run. It includes the client's own retries when the API server
/// is busy.
pub(crate) const LONGEST_RUN: Duration = Duration::from_secs(60);

/// Why a run has failed. The controller repeats the run later.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("cannot {what}")]
    Request {
        what: &'static str,
        #[source]
        source: Box<kube::Error>,
    },
    #[error("timed out after {} s", LONGEST_RUN.as_secs())]
    TimedOut,
    /// A fault of this program.
    #[error("no end after {MOST_STEPS} steps")]
    TooManySteps,
}

impl RunError {
    /// Whether the API server has not answered, or not in time.
    pub(crate) fn is_unreachable(&self) -> bool {
        match self {
            Self::Request { source, .. } => !matches!(**source, kube::Error::Api(_)),
            Self::TimedOut => true,
            Self::TooManySteps => false,
        }
    }

    /// Whether someone has changed the object since it was read. The event of that change
    /// has not arrived yet.
    pub(crate) fn is_conflict(&self) -> bool {
        self.api_status()
            .is_some_and(kube::core::Status::is_conflict)
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.api_status()
            .is_some_and(kube::core::Status::is_not_found)
    }

    fn api_status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Request { source, .. } => match &**source {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Converts the error of a request. `what` completes the text "cannot ...".
pub(crate) fn failed(what: &'static str) -> impl Fn(kube::Error) -> RunError {
    move |source| RunError::Request {
        what,
        source: Box::new(source),
    }
}
