//! A connection that writes what many calls answer at once.
//!
//! One statement answers many calls. Each of them wakes its connection, which would run before the next call does and
//! write each answer by itself: a system call, and mostly a packet, for every answer. So a connection that wants to write
//! lets the calls that are ready now go first.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

/// A stream whose writes wait for one round of the scheduler.
pub(super) struct CoalescedIo<IO> {
    io: IO,
    /// Whether the round is over.
    gathered: bool,
}

impl<IO> CoalescedIo<IO> {
    pub(super) fn new(io: IO) -> Self {
        Self {
            io,
            gathered: false,
        }
    }

    /// Waits for its turn once before each burst of writes. A task that wakes itself goes behind all that are ready.
    fn turn(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.gathered {
            return Poll::Ready(());
        }
        self.gathered = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for CoalescedIo<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.turn(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => Pin::new(&mut self.io).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.turn(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => Pin::new(&mut self.io).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(context);
        if flushed.is_ready() {
            self.gathered = false;
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for CoalescedIo<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<IO: Connected> Connected for CoalescedIo<IO> {
    type ConnectInfo = IO::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.io.connect_info()
    }
}
