//! The body of a request: read whole, within its time and size, once there is room for it; its media type.

use crate::limits::BODY_MAX;
use crate::patience::Punctual;
use crate::refusal::Refusal;
use axum::body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};
use hyper::{HeaderMap, StatusCode};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The whole body, within its time and size, once there is room for it.
pub async fn read<'a>(
    bodies: &'a Semaphore,
    headers: &HeaderMap,
    body: Body,
    patience: Duration,
) -> Result<(Body, Option<SemaphorePermit<'a>>), Refusal> {
    if hyper::body::Body::is_end_stream(&body) {
        return Ok((Body::empty(), None));
    }
    if media_type(headers).eq_ignore_ascii_case(NDJSON) {
        // Read line by line by its handler, which bounds it; only silence is bounded here.
        return Ok((Body::new(Punctual::new(body, patience)), None));
    }
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let length: usize = length.unwrap_or(BODY_MAX);
    if length > BODY_MAX {
        return Err(too_large());
    }
    let read = async {
        let kib = u32::try_from(length / 1_024 + 1).unwrap_or(u32::MAX);
        let room = bodies.acquire_many(kib).await.ok();
        let bytes =
            Limited::new(body, BODY_MAX).collect().await.map_err(|error| match error
                .is::<LengthLimitError>(
            ) {
                true => too_large(),
                false => Refusal::new(StatusCode::BAD_REQUEST, "broken_off", "the body broke off"),
            })?;
        Ok((Body::from(bytes.to_bytes()), room))
    };
    let slow = |_| {
        let detail = "the body did not come in time; send it faster or in parts";
        Refusal::new(StatusCode::REQUEST_TIMEOUT, "too_slow", detail)
    };
    tokio::time::timeout(patience, read).await.map_err(slow)?
}

pub fn too_large() -> Refusal {
    let detail = "a request has at most 16 MiB; send the jobs in several batches";
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
}

pub fn is_json(headers: &HeaderMap) -> bool {
    // Lists of jobs may come line by line, and a patch may say what kind of patch it is.
    let kind = media_type(headers);
    ["application/json", NDJSON, "application/merge-patch+json"]
        .iter()
        .any(|json| kind.eq_ignore_ascii_case(json))
}

const NDJSON: &str = "application/x-ndjson";

fn media_type(headers: &HeaderMap) -> &str {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Bytes;
    use hyper::body::Frame;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    /// So many parts, and then silence.
    struct Parts(usize);

    impl hyper::body::Body for Parts {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if self.0 == 0 {
                return Poll::Pending;
            }
            self.0 -= 1;
            Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b' '; 1024 * 1024])))))
        }
    }

    fn told(bodies: &Semaphore, length: Option<&str>, body: Body) -> Result<usize, u16> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let mut headers = HeaderMap::new();
        if let Some(length) = length {
            headers.insert(CONTENT_LENGTH, length.parse().expect("a header"));
        }
        runtime.block_on(async {
            let read = read(bodies, &headers, body, Duration::from_millis(20)).await;
            let (body, room) = read.map_err(|refusal| refusal.status.as_u16())?;
            assert!(room.is_some());
            Ok(body.collect().await.expect("in memory").to_bytes().len())
        })
    }

    #[test]
    fn a_body_has_its_time_its_size_and_its_room() {
        let room = Semaphore::new(64 * 1024);
        assert_eq!(told(&room, Some("3"), Body::from("abc")), Ok(3));
        assert_eq!(told(&room, None, Body::from("abc")), Ok(3));
        assert_eq!(told(&room, Some("3"), Body::new(Parts(0))), Err(408), "silence");
        assert_eq!(told(&room, Some("99"), Body::new(Parts(1))), Err(408), "silence after a part");
        assert_eq!(told(&room, Some("99999999999"), Body::new(Parts(0))), Err(413), "it says so");
        assert_eq!(told(&room, None, Body::new(Parts(17))), Err(413), "it comes");
        assert_eq!(told(&room, Some("x"), Body::from("abc")), Ok(3));
        let none = Semaphore::new(0);
        assert_eq!(told(&none, Some("3"), Body::from("abc")), Err(408), "no room in time");
        assert_eq!(room.available_permits(), 64 * 1024, "all room is given back");
    }
}
