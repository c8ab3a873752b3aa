//! Response bodies whose bytes count in the budget of responses until they have been sent.
//!
//! A body is handed to hyper in parts. hyper takes the next part when the client has room. Otherwise it would keep the whole
//! body for a client that makes room for one byte, and the stream would have no task any more that a time limit could end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;
use tonic::body::Body;

use crate::broker::ResponseBytes;

/// The entry of a response's extensions that says how many bytes its leases take.
#[derive(Clone)]
pub(super) struct Counted(
    #[expect(dead_code, reason = "dropping it returns the bytes")] pub(super) Arc<ResponseBytes>,
);

/// The largest part of a body.
const MAX_PART_BYTES: usize = 64 << 10;

/// Moves the entry of the extensions into the body. hyper drops the extensions before it sends the body.
pub(super) fn count_until_sent(mut response: http::Response<Body>) -> http::Response<Body> {
    match response.extensions_mut().remove::<Counted>() {
        None => response,
        Some(counted) => response.map(|inner| {
            Body::new(CountedBody {
                inner,
                counted,
                rest: Bytes::new(),
            })
        }),
    }
}

pin_project! {
    struct CountedBody {
        #[pin]
        inner: Body,
        counted: Counted,
        // The rest of the data of `inner`.
        rest: Bytes,
    }
}

/// A part of a body. hyper owns it until it has written the last byte to the connection, which can be long after it has
/// dropped the body.
struct CountedBytes {
    bytes: Bytes,
    _counted: Counted,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        let this = self.project();
        if this.rest.is_empty() {
            let frame = match ready!(this.inner.poll_frame(context)) {
                Some(Ok(frame)) => frame,
                end => return Poll::Ready(end),
            };
            match frame.into_data() {
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                Ok(bytes) => {
                    *this.rest = Bytes::from_owner(CountedBytes {
                        bytes,
                        _counted: this.counted.clone(),
                    });
                }
            }
        }
        let length = this.rest.len().min(MAX_PART_BYTES);
        let part = this.rest.split_to(length);
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.inner.size_hint();
        let rest = self.rest.len() as u64;
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}
