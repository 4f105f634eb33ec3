//! Writes the controller's events to standard error, one line each, in the form of
//! [`crate::report`]: the program has one log, which Kubernetes reads.

use std::fmt;
use std::time::Instant;

use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

pub(super) fn install() {
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::INFO)
        .with_ansi(false)
        .event_format(Lines {
            start: Instant::now(),
        })
        .with_writer(std::io::stderr)
        .finish();
    // An error means that a subscriber is already installed, which writes the events.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

struct Lines {
    start: Instant,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        match *event.metadata().level() {
            Level::ERROR => write!(writer, "error: ")?,
            Level::WARN => write!(writer, "warning: ")?,
            _ => write!(writer, "[{:5.1}s] ", self.start.elapsed().as_secs_f64())?,
        }
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
