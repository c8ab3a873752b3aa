//! A connection wrapper that sends the responses of several calls in one write.
//!
//! One statement can serve many calls. When it ends, each call wakes its connection. Without this wrapper the
//! connection would run before the next call, and would write each response by itself: one system call, and mostly one
//! packet, per response. The wrapper therefore delays the first write by one round of the scheduler. The calls that are
//! ready run in that round, and the connection then writes all their responses together.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that delays each series of writes by one round of the scheduler. A flush ends a series.
pub(super) struct CoalescedIo<IO> {
    io: IO,
    /// True from the first write of a series until it is flushed.
    has_yielded: bool,
}

impl<IO> CoalescedIo<IO> {
    pub(super) fn new(io: IO) -> Self {
        Self {
            io,
            has_yielded: false,
        }
    }

    /// Returns `Pending` once per series of writes. The task wakes itself, which puts it behind all tasks that are
    /// ready.
    fn poll_yield(&mut self, context: &Context<'_>) -> Poll<()> {
        if self.has_yielded {
            return Poll::Ready(());
        }
        self.has_yielded = true;
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
        match self.poll_yield(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => Pin::new(&mut self.io).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.poll_yield(context) {
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
            self.has_yielded = false;
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
