//! Receives the reports that `landfall.webhook` sends.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::journal::Source;
use crate::lab::{HOST_V4, Lab};

const PORT: u16 = 8099;

type Reports = Arc<Mutex<Vec<Value>>>;

/// Listens until it is dropped.
pub struct WebhookReceiver {
    reports: Reports,
    _tasks: JoinSet<()>,
}

impl WebhookReceiver {
    /// The URL for `landfall.webhook`.
    #[must_use]
    pub fn url() -> String {
        format!("http://{HOST_V4}:{PORT}/hook")
    }

    pub async fn start(lab: &Lab) -> Result<Self> {
        let listener = TcpListener::bind((HOST_V4, PORT)).await;
        let listener = listener.context("port of the webhook")?;
        let reports = Reports::default();
        let journal = lab.journal.clone();
        let take = move |State(reports): State<Reports>, body: Bytes| async move {
            let Ok(report) = serde_json::from_slice::<Value>(&body) else {
                return (StatusCode::BAD_REQUEST, Json(Value::Null));
            };
            journal.record(Source::Images, format!("webhook: {}", report["event"]));
            let mut reports = reports.lock().unwrap_or_else(PoisonError::into_inner);
            reports.push(report);
            (StatusCode::OK, Json(Value::Null))
        };
        let routes = Router::new()
            .route("/hook", post(take))
            .with_state(Arc::clone(&reports));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // The task ends when the receiver is dropped.
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self {
            reports,
            _tasks: tasks,
        })
    }

    /// All reports so far.
    #[must_use]
    pub fn reports(&self) -> Vec<Value> {
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports.clone()
    }
}
