//! The syslog server of the day.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use landfall_tests::lab::HOST_V4;
use tokio::net::UdpSocket;

use crate::endurance::clock::year;
use crate::endurance::room::SYSLOG_PORT;

/// Counts the messages that arrive.
pub(super) struct Syslog {
    pub(super) messages: Arc<AtomicU64>,
    /// The years in them.
    years: Arc<Mutex<BTreeSet<u16>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Syslog {
    pub(super) async fn start() -> Result<Self> {
        let socket = UdpSocket::bind((HOST_V4, SYSLOG_PORT))
            .await
            .context("listening for syslog")?;
        let messages = Arc::<AtomicU64>::default();
        let counter = Arc::clone(&messages);
        let years = Arc::<Mutex<BTreeSet<u16>>>::default();
        let seen = Arc::clone(&years);
        let task = tokio::spawn(async move {
            let mut message = vec![0; 65_536];
            while let Ok(length) = socket.recv(&mut message).await {
                counter.fetch_add(1, Ordering::Relaxed);
                let text = String::from_utf8_lossy(&message[..length]);
                lock(&seen).extend(year(&text));
            }
        });
        Ok(Self {
            messages,
            years,
            task,
        })
    }
}

impl Syslog {
    pub(super) fn years(&self) -> BTreeSet<u16> {
        lock(&self.years).clone()
    }
}

fn lock(years: &Mutex<BTreeSet<u16>>) -> MutexGuard<'_, BTreeSet<u16>> {
    years.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Syslog {
    fn drop(&mut self) {
        self.task.abort();
    }
}
