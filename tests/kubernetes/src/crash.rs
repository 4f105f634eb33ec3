//! A client that crashes: from a certain write on, it sends nothing and answers
//! nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use axum::http::{Method, Request};
use futures_util::future::BoxFuture;
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;

use crate::api_server::ApiServer;
use crate::intercept::{self, Intercept};

/// When the client crashes, relative to the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The API server has not seen the request.
    Before,
    /// The API server has executed the request, but the client never gets the answer.
    After,
}

/// Counts the writes of a client and ends it at one of them.
#[derive(Clone)]
pub struct Crash {
    at: usize,
    when: When,
    writes: Arc<AtomicUsize>,
    crashed: watch::Sender<bool>,
}

impl Crash {
    /// A crash at the write number `at`, counted from 1. Every request other than GET
    /// is a write.
    #[must_use]
    pub fn at(at: usize, when: When) -> Self {
        Self {
            at,
            when,
            writes: Arc::default(),
            crashed: watch::Sender::new(false),
        }
    }

    /// A client with the controller's user that crashes at this write.
    ///
    /// # Errors
    /// If there is no API server.
    pub async fn client(&self, server: &ApiServer) -> Result<Client> {
        intercept::client(self, server).await
    }

    #[must_use]
    pub fn has_crashed(&self) -> bool {
        *self.crashed.borrow()
    }

    #[must_use]
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }
}

impl Intercept for Crash {
    fn call<T: Send + 'static>(
        &self,
        request: Request<Body>,
        send: impl FnOnce(Request<Body>) -> BoxFuture<'static, T>,
    ) -> BoxFuture<'static, T> {
        let crash = self.clone();
        let number = match *request.method() {
            Method::GET => 0,
            _ => crash.writes.fetch_add(1, Ordering::Relaxed) + 1,
        };
        let is_last = number == crash.at;
        if crash.has_crashed() || (is_last && crash.when == When::Before) {
            crash.crashed.send_replace(true);
            return Box::pin(std::future::pending());
        }
        let answer = send(request);
        Box::pin(async move {
            let answer = answer.await;
            if is_last || crash.has_crashed() {
                crash.crashed.send_replace(true);
                std::future::pending::<()>().await;
            }
            answer
        })
    }
}
