//! The paths of the status pages.

/// One of the status pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    /// `/`, for a browser
    Html,
    /// `/status.json`
    Json,
    /// `/metrics`, for Prometheus
    Metrics,
    /// `/log.txt`: all log lines that the agent keeps
    Log,
    /// [`LOGS_PATH`]
    Logs,
}

/// The path of the archive with the logs of the last fatal error.
pub const LOGS_PATH: &str = "/logs.tar.gz";

impl Page {
    /// The page at this path, except `/`, which is also an address of the API.
    pub(super) fn at(path: &str) -> Option<Self> {
        Some(match path {
            "/status.json" => Self::Json,
            "/metrics" => Self::Metrics,
            "/log.txt" => Self::Log,
            LOGS_PATH => Self::Logs,
            _ => return None,
        })
    }
}
