//! Starts the task that sends the log to a syslog server.

use std::sync::Arc;

use landfall_boot_params::syslog_server::SyslogTransport;
use landfall_report::failure::Result;

use super::Boot;
use crate::http_options::http_options;

impl Boot {
    /// Sends the log to the syslog server of the settings, if there is one.
    pub(super) fn forward_log(&self) -> Result<()> {
        let Some(server) = self.settings.params.syslog.value.clone() else {
            return Ok(());
        };
        let tls = match server.transport {
            SyslogTransport::Tls => Some(Arc::new(http_options(&self.settings)?.tls()?)),
            SyslogTransport::Udp | SyslogTransport::Tcp => None,
        };
        let network = self.network.clone();
        tokio::spawn(landfall_syslog::forward(server, tls, network, self.state));
        Ok(())
    }
}
