//! The body of every response. It bounds what clients that do not read make the broker keep.
//!
//! - **Parts.** hyper gets at most 64 KiB at a time, and asks for the next part when the client has room for the last one.
//!   Otherwise it would keep the whole body for a client that makes room for one byte.
//! - **Bytes.** A response of more than 16 KiB is charged to the budget of responses with its encoded size, and so is a smaller
//!   one if its connection holds much already. If the budget has no room, the data is dropped, and the trailers say so.
//! - **The last byte.** What the response holds is returned when the last part has been written to the connection, which can be
//!   long after hyper has dropped the body. The trailers of a response that is charged come after that, so the task of the
//!   stream, and with it the time limit, lasts as long as the bytes.
//! - **Leases.** They are released if the connection never takes the first byte.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body as _, Frame};
use tokio::sync::oneshot;
use tonic::body::Body;
use tonic::{Response, Status};

use super::connections::{Connection, OpenStream};
use super::status;
use crate::broker::{Delivery, Error, Held, Importance};

/// The largest part of a body.
const MAX_PART_BYTES: usize = 64 << 10;
/// The largest response that is not charged, if its connection holds few bytes.
const UNCHARGED_BYTES: usize = 16 << 10;

/// What the leases of a response need until it has been sent. It is an entry of the response's extensions first.
#[derive(Clone, Default)]
pub(super) struct Unsent {
    /// The bytes of the budget that the leases take. Dropping them returns them. `None`: they are not counted.
    counted: Option<Arc<Held>>,
    /// Releases the leases if it is dropped before the first part leaves. `None`: they are kept.
    delivery: Option<Arc<Delivery>>,
}

impl Unsent {
    pub(super) fn new(counted: Option<Held>, delivery: Option<Delivery>) -> Self {
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

/// The body of a response.
pub(super) struct ResponseBody {
    inner: Body,
    importance: Importance,
    delivery: Option<Arc<Delivery>>,
    /// What the response holds. It goes with the last part.
    holding: Option<Holding>,
    /// The data that `inner` has given.
    rest: Bytes,
    /// What `inner` gives after `rest`, if that is known.
    next: Option<Next>,
    /// Whether hyper has taken a part. When it asks for another one, the first is with the connection.
    has_parts: bool,
    /// Ends when the last part has been written. `None`: the trailers do not wait for it.
    left: Option<oneshot::Receiver<()>>,
}

/// The next frame of a body. `None`: it has ended.
type Next = Option<Result<Frame<Bytes>, Status>>;

/// What a response holds until its last byte is with the connection.
struct Holding {
    connection: Arc<Connection>,
    bytes: usize,
    /// What the broker has counted for leases.
    counted: Option<Arc<Held>>,
    charge: Option<Held>,
    stream: Option<OpenStream>,
    /// A place in the budget of open streams, or of health checks.
    place: Option<Held>,
    /// Dropping it tells the body that the last part has been written.
    left: Option<oneshot::Sender<()>>,
}

/// A part of a body.
pub(super) struct Part {
    bytes: Bytes,
    _holding: Option<Holding>,
}

impl ResponseBody {
    /// Wraps the body of a response, and takes the [`Unsent`] from its extensions. hyper would drop it before it sends the body.
    pub(super) fn wrap(
        mut response: http::Response<Body>,
        connection: Arc<Connection>,
        importance: Importance,
    ) -> http::Response<Self> {
        let unsent = response.extensions_mut().remove::<Unsent>();
        let Unsent { counted, delivery } = unsent.unwrap_or_default();
        response.map(|inner| Self {
            inner,
            importance,
            delivery,
            holding: Some(Holding {
                connection,
                bytes: 0,
                counted,
                charge: None,
                stream: None,
                place: None,
                left: None,
            }),
            rest: Bytes::new(),
            next: None,
            has_parts: false,
            left: None,
        })
    }

    /// Counts the stream until the response has left.
    pub(super) fn keep_stream(&mut self, stream: OpenStream) {
        if let Some(holding) = &mut self.holding {
            holding.stream = Some(stream);
        }
    }

    /// Keeps a place in a budget until the response has left.
    pub(super) fn keep_place(&mut self, place: Held) {
        if let Some(holding) = &mut self.holding {
            holding.place = Some(place);
        }
    }

    /// Takes data of `inner`, and looks whether it is the last.
    fn take_data(&mut self, data: Bytes, context: &mut Context<'_>) {
        let charged = match &mut self.holding {
            Some(holding) => holding.charge(data.len(), self.importance),
            None => Ok(false),
        };
        match charged {
            Ok(waits) => {
                if waits && self.left.is_none() {
                    let (sender, receiver) = oneshot::channel();
                    self.left = Some(receiver);
                    if let Some(holding) = &mut self.holding {
                        holding.left = Some(sender);
                    }
                }
                self.rest = data;
                if let Poll::Ready(next) = Pin::new(&mut self.inner).poll_frame(context) {
                    self.next = Some(next);
                }
            }
            Err(error) => {
                let status = Status::from(Error::Partly(Box::new(error)));
                let can_be_repeated = self.importance == Importance::Settlement;
                let status = status::unless_repeatable(status, can_be_repeated);
                let mut trailers = HeaderMap::new();
                // It fails only if the text of the status cannot be a header, and then there are no trailers.
                let _ = status.add_header(&mut trailers);
                self.inner = Body::empty();
                self.holding = None;
                self.next = Some(Some(Ok(Frame::trailers(trailers))));
            }
        }
    }

    /// Takes the next part of `rest`. The last one takes what the response holds with it.
    fn next_part(&mut self) -> Part {
        self.has_parts = true;
        let length = self.rest.len().min(MAX_PART_BYTES);
        let bytes = self.rest.split_to(length);
        let is_end = |next: &Next| !matches!(next, Some(Ok(frame)) if frame.is_data());
        let is_last = self.rest.is_empty() && self.next.as_ref().is_some_and(is_end);
        Part {
            bytes,
            _holding: if is_last { self.holding.take() } else { None },
        }
    }
}

impl http_body::Body for ResponseBody {
    type Data = Part;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Part>, Status>>> {
        let this = &mut *self;
        if this.has_parts
            && let Some(delivery) = this.delivery.take()
        {
            delivery.confirm();
        }
        loop {
            if !this.rest.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(this.next_part()))));
            }
            let next = match this.next.take() {
                Some(next) => next,
                None => ready!(Pin::new(&mut this.inner).poll_frame(context)),
            };
            match next {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.take_data(data, context),
                    Err(end) => {
                        if this.holding.is_none()
                            && let Some(left) = &mut this.left
                            && Pin::new(left).poll(context).is_pending()
                        {
                            this.next = Some(Some(Ok(end)));
                            return Poll::Pending;
                        }
                        let trailers = end.into_trailers().ok().map(Frame::trailers);
                        return Poll::Ready(trailers.map(Ok));
                    }
                },
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                None => return Poll::Ready(None),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.next.is_none() && self.inner.is_end_stream()
    }
}

impl Holding {
    /// Counts more bytes. Returns whether they are charged.
    ///
    /// # Errors
    /// The budget of responses has no room for them.
    fn charge(&mut self, bytes: usize, importance: Importance) -> Result<bool, Error> {
        self.bytes += bytes;
        let is_much = self.connection.account.add_response(bytes);
        if self.counted.is_some() {
            return Ok(true);
        }
        if self.bytes <= UNCHARGED_BYTES && !is_much {
            return Ok(false);
        }
        let budget = &self.connection.budgets.response_bytes;
        let caller = || {
            let source = self.place.as_ref().and_then(Held::source);
            source.unwrap_or_else(|| self.connection.account.source.clone())
        };
        let nothing = || budget.hold_nothing(Some(caller()));
        let charge = self.charge.get_or_insert_with(nothing);
        if charge.raise_to(self.bytes, importance) {
            return Ok(true);
        }
        Err(self.connection.budgets.refuse(budget.kind().name()))
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.connection.account.remove_response(self.bytes);
    }
}

impl Buf for Part {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}
