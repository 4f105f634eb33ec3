//! A client whose requests pass through code of a test.

use std::task::{Context, Poll};

use anyhow::Result;
use axum::http::{Request, Response};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use kube::Client;
use kube::client::{Body, ClientBuilder};
use tower::{Layer, Service};

use crate::api_server::ApiServer;

/// Stands between a client and the API server.
pub(crate) trait Intercept: Clone + Send + Sync + 'static {
    /// The answer to a request. `send` returns a future for the API server's answer.
    /// The future sends the request only when somebody polls it.
    fn call<T: Send + 'static>(
        &self,
        request: Request<Body>,
        send: impl FnOnce(Request<Body>) -> BoxFuture<'static, T>,
    ) -> BoxFuture<'static, T>;
}

/// A client of the controller's user behind `by`.
pub(crate) async fn client(by: &impl Intercept, server: &ApiServer) -> Result<Client> {
    let config = server.config("controller").await?;
    let layer = InterceptLayer(by.clone());
    Ok(ClientBuilder::try_from(config)?.with_layer(&layer).build())
}

struct InterceptLayer<I>(I);

impl<S, I: Intercept> Layer<S> for InterceptLayer<I> {
    type Service = Intercepted<S, I>;

    fn layer(&self, inner: S) -> Intercepted<S, I> {
        Intercepted {
            inner,
            by: self.0.clone(),
        }
    }
}

struct Intercepted<S, I> {
    inner: S,
    by: I,
}

impl<S, I, B> Service<Request<Body>> for Intercepted<S, I>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    I: Intercept,
    B: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let inner = &mut self.inner;
        self.by.call(request, |request| inner.call(request).boxed())
    }
}
