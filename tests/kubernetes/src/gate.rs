//! A client whose requests a test can see and hold back.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use axum::http::{Request, header};
use futures_util::future::BoxFuture;
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;

use crate::api_server::ApiServer;
use crate::intercept::{self, Intercept};

/// Stands between a client and the API server. Records requests, and holds some of them
/// back.
#[derive(Clone)]
pub struct Gate {
    /// Requests whose path and query contain this text wait.
    held: watch::Sender<Option<String>>,
    /// How many requests have had to wait.
    waits: watch::Sender<usize>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Path and query.
    pub target: String,
    /// The header `Accept`.
    pub accept: String,
}

impl Gate {
    /// A gate that holds no request back.
    #[must_use]
    pub fn open() -> Self {
        Self {
            held: watch::Sender::new(None),
            waits: watch::Sender::new(0),
            seen: Arc::default(),
        }
    }

    /// A client of the controller's user behind the gate.
    ///
    /// # Errors
    /// If there is no API server.
    pub async fn client(&self, server: &ApiServer) -> Result<Client> {
        intercept::client(self, server).await
    }

    /// From now on, requests whose path and query contain this text wait.
    pub fn hold(&self, part: &str) {
        self.held.send_replace(Some(part.to_owned()));
    }

    /// Lets all requests pass.
    pub fn release(&self) {
        self.held.send_replace(None);
    }

    /// Waits until `count` requests have had to wait.
    ///
    /// # Errors
    /// Never: the gate is there as long as its client.
    pub async fn until_held(&self, count: usize) -> Result<()> {
        let mut waits = self.waits.subscribe();
        waits.wait_for(|found| *found >= count).await?;
        Ok(())
    }

    /// All requests until now.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clone()
    }

    fn note(&self, request: &Request<Body>) -> String {
        let target = request.uri().path_and_query();
        let target = target.map(ToString::to_string).unwrap_or_default();
        let accept = request.headers().get(header::ACCEPT);
        let accept = accept.and_then(|value| value.to_str().ok());
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push(Seen {
            target: target.clone(),
            accept: accept.unwrap_or_default().to_owned(),
        });
        target
    }
}

impl Intercept for Gate {
    fn call<T: Send + 'static>(
        &self,
        request: Request<Body>,
        send: impl FnOnce(Request<Body>) -> BoxFuture<'static, T>,
    ) -> BoxFuture<'static, T> {
        let target = self.note(&request);
        let gate = self.clone();
        let answer = send(request);
        Box::pin(async move {
            let is_held = |part: &Option<String>| {
                let part = part.as_deref();
                part.is_some_and(|part| target.contains(part))
            };
            let mut held = gate.held.subscribe();
            if is_held(&held.borrow_and_update()) {
                gate.waits.send_modify(|count| *count += 1);
            }
            // The wait fails only if the gate has been dropped, and `gate` is a clone
            // of it.
            let _ = held.wait_for(|part| !is_held(part)).await;
            answer.await
        })
    }
}
