//! Response bodies whose bytes count in the budget of responses until they have been sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

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

/// Moves the entry of the extensions into the body. hyper drops the extensions before it sends the body.
pub(super) fn count_until_sent(mut response: http::Response<Body>) -> http::Response<Body> {
    match response.extensions_mut().remove::<Counted>() {
        None => response,
        Some(counted) => response.map(|inner| Body::new(CountedBody { inner, counted })),
    }
}

pin_project! {
    struct CountedBody {
        #[pin]
        inner: Body,
        counted: Counted,
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
        let frame = this.inner.poll_frame(context);
        let count = |bytes| {
            Bytes::from_owner(CountedBytes {
                bytes,
                _counted: this.counted.clone(),
            })
        };
        frame.map_ok(|frame| frame.map_data(count))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
