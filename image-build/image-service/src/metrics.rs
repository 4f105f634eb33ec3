//! The metrics for Prometheus.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The content type of the text that [`Metrics::text`] returns.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels<const N: usize> = [(&'static str, String); N];

/// All metrics of the service. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    requests: Family<Labels<2>, Counter>,
    bytes: Family<Labels<1>, Counter>,
    pub(crate) connections: Gauge,
    pub(crate) closed: Family<Labels<1>, Counter>,
    hosts: Gauge,
    base_bytes: Gauge,
    reloads: Family<Labels<1>, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("landfall_image_service");
        let requests = Family::<Labels<2>, Counter>::default();
        let bytes = Family::<Labels<1>, Counter>::default();
        let closed = Family::<Labels<1>, Counter>::default();
        let reloads = Family::<Labels<1>, Counter>::default();
        let connections = Gauge::<i64>::default();
        let hosts = Gauge::<i64>::default();
        let base_bytes = Gauge::<i64>::default();
        registry.register(
            "requests",
            "Answered requests, by file and status",
            requests.clone(),
        );
        registry.register("sent_bytes", "Bytes of answers, by file", bytes.clone());
        registry.register("connections", "Open connections", connections.clone());
        registry.register(
            "closed_connections",
            "Connections that the service closed, by reason",
            closed.clone(),
        );
        registry.register("hosts", "Hosts that are served", hosts.clone());
        registry.register(
            "base_bytes",
            "Bytes of the base files in memory",
            base_bytes.clone(),
        );
        registry.register(
            "reloads",
            "Reloads of the hosts, by result",
            reloads.clone(),
        );
        Self {
            registry: Arc::new(registry),
            requests,
            bytes,
            connections,
            closed,
            hosts,
            base_bytes,
            reloads,
        }
    }
}

impl Metrics {
    pub(crate) fn answered(&self, file: &str, status: u16) {
        let labels = [("file", file.to_owned()), ("status", status.to_string())];
        self.requests.get_or_create(&labels).inc();
    }

    /// The counter of the bytes of one kind of file.
    pub(crate) fn bytes_of(&self, file: &str) -> Counter {
        self.bytes
            .get_or_create(&[("file", file.to_owned())])
            .clone()
    }

    pub(crate) fn closed(&self, reason: &str) {
        self.closed
            .get_or_create(&[("reason", reason.to_owned())])
            .inc();
    }

    /// Counts a reload, by whether it took effect.
    pub fn reloaded(&self, took_effect: bool) {
        let result = if took_effect { "ok" } else { "refused" };
        self.reloads
            .get_or_create(&[("result", result.to_owned())])
            .inc();
    }

    pub(crate) fn set_content(&self, hosts: usize, base_bytes: u64) {
        self.hosts.set(i64::try_from(hosts).unwrap_or(i64::MAX));
        self.base_bytes
            .set(i64::try_from(base_bytes).unwrap_or(i64::MAX));
    }

    /// The text for Prometheus.
    ///
    /// # Errors
    /// If a metric cannot be written as text.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_gets_text() {
        let metrics = Metrics::default();
        metrics.answered("iso", 206);
        metrics.bytes_of("iso").inc_by(5);
        metrics.closed("slow");
        metrics.reloaded(false);
        metrics.set_content(3, 1000);
        let text = metrics.text().unwrap();
        for line in [
            "landfall_image_service_requests_total{file=\"iso\",status=\"206\"} 1",
            "landfall_image_service_sent_bytes_total{file=\"iso\"} 5",
            "landfall_image_service_closed_connections_total{reason=\"slow\"} 1",
            "landfall_image_service_reloads_total{result=\"refused\"} 1",
            "landfall_image_service_hosts 3",
            "landfall_image_service_base_bytes 1000",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
