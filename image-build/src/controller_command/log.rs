//! Writes the controller's events to standard error, one line each, where Kubernetes
//! reads them.

use tracing::level_filters::LevelFilter;

pub(super) fn install() {
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::INFO)
        .with_ansi(false)
        .with_target(false)
        .with_writer(std::io::stderr)
        .finish();
    // An error means that there is one, which writes the events already.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
