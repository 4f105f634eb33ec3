//! Reads the body of a request, with limits on its size and on the time between its
//! parts.

use std::time::Duration;

use axum::body::Body;
use futures_util::StreamExt as _;

/// The maximum size of a body in bytes. Ironic sends a config drive in base64 twice, in
/// the step's arguments and in `image_info`. The limit allows a config drive of 20 MiB
/// (most have some kilobytes). A host with 512 MiB of memory can still parse and keep
/// such a body.
pub(super) const LIMIT: usize = 56 << 20;

/// The maximum pause between two parts of a body. The conductor itself gives up after 60
/// s.
const PAUSE: Duration = Duration::from_secs(30);

/// The reason why a body could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The body is larger than [`LIMIT`].
    TooLarge,
    /// The client stopped in the middle.
    TooSlow,
    /// The connection broke, or the chunked encoding is invalid.
    Broken,
}

/// # Errors
/// If the body is too large, too slow or broken.
pub(super) async fn read(body: Body) -> Result<Vec<u8>, Unreadable> {
    let mut parts = body.into_data_stream();
    let mut bytes = Vec::new();
    loop {
        let part = tokio::time::timeout(PAUSE, parts.next())
            .await
            .map_err(|_| Unreadable::TooSlow)?;
        let Some(part) = part else {
            return Ok(bytes);
        };
        let part = part.map_err(|_| Unreadable::Broken)?;
        if bytes.len() + part.len() > LIMIT {
            return Err(Unreadable::TooLarge);
        }
        bytes.extend_from_slice(&part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use futures_util::stream;
    use std::convert::Infallible;

    #[tokio::test]
    async fn the_limit_is_the_last_size_that_fits() {
        let of = |size| async move { read(Body::from(vec![b' '; size])).await.map(|b| b.len()) };
        assert_eq!(of(0).await, Ok(0));
        assert_eq!(of(LIMIT).await, Ok(LIMIT));
        assert_eq!(of(LIMIT + 1).await, Err(Unreadable::TooLarge));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stops_is_not_waited_for() {
        let first = stream::once(async { Ok::<_, Infallible>(Bytes::from_static(b"{")) });
        let stalled = Body::from_stream(first.chain(stream::pending()));
        assert_eq!(read(stalled).await, Err(Unreadable::TooSlow));
        let broken = stream::once(async { Err::<Bytes, _>(std::io::Error::other("reset")) });
        assert_eq!(
            read(Body::from_stream(broken)).await,
            Err(Unreadable::Broken)
        );
    }
}
