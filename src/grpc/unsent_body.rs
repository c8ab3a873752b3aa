//! Response bodies with leases. Their bytes count in the budget of responses until they have been sent, and their leases are
//! released if the connection never takes the first byte.
//!
//! A body is handed to hyper in parts. hyper asks for the next part when it has given the last one to the connection, for which the
//! client must have room. Otherwise it would keep the whole body for a client that makes room for one byte, and the stream would have no task any more that a time limit could end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;
use tonic::Response;
use tonic::body::Body;

use crate::broker::{Delivery, ResponseBytes};

/// What the leases of a response need until it has been sent. It is an entry of the response's extensions first.
#[derive(Clone, Default)]
pub(super) struct Unsent {
    /// The bytes of the budget that the leases take. Dropping them returns them. `None`: they are not counted.
    counted: Option<Arc<ResponseBytes>>,
    /// Releases the leases if it is dropped before the first part leaves. `None`: they are kept.
    delivery: Option<Arc<Delivery>>,
}

impl Unsent {
    pub(super) fn new(counted: Option<ResponseBytes>, delivery: Option<Delivery>) -> Self {
        Self {
            counted: counted.map(Arc::new),
            delivery: delivery.map(Arc::new),
        }
    }

    /// Puts itself into the response.
    pub(super) fn in_response<T>(self, mut response: Response<T>) -> Response<T> {
        if self.counted.is_some() || self.delivery.is_some() {
            response.extensions_mut().insert(self);
        }
        response
    }
}

/// The largest part of a body.
const MAX_PART_BYTES: usize = 64 << 10;

/// Moves the entry of the extensions into the body. hyper drops the extensions before it sends the body.
pub(super) fn keep_until_sent(mut response: http::Response<Body>) -> http::Response<Body> {
    match response.extensions_mut().remove::<Unsent>() {
        None => response,
        Some(unsent) => response.map(|inner| {
            Body::new(UnsentBody {
                inner,
                unsent,
                has_parts: false,
                rest: Bytes::new(),
            })
        }),
    }
}

pin_project! {
    struct UnsentBody {
        #[pin]
        inner: Body,
        unsent: Unsent,
        // Whether hyper has taken a part. When it asks for another one, the first is with the connection.
        has_parts: bool,
        // The rest of the data of `inner`.
        rest: Bytes,
    }
}

/// A part of a body. hyper owns it until it has written the last byte to the connection, which can be long after it has
/// dropped the body.
struct CountedBytes {
    bytes: Bytes,
    _counted: Arc<ResponseBytes>,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl http_body::Body for UnsentBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        let this = self.project();
        if *this.has_parts
            && let Some(delivery) = this.unsent.delivery.take()
        {
            delivery.confirm();
        }
        if this.rest.is_empty() {
            let frame = match ready!(this.inner.poll_frame(context)) {
                Some(Ok(frame)) => frame,
                end => return Poll::Ready(end),
            };
            match frame.into_data() {
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                Ok(bytes) => {
                    *this.rest = match &this.unsent.counted {
                        None => bytes,
                        Some(counted) => Bytes::from_owner(CountedBytes {
                            bytes,
                            _counted: counted.clone(),
                        }),
                    };
                }
            }
        }
        *this.has_parts = true;
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
