//! A stream that reads a bounded number of bytes in each turn of its connection, and nothing while its client does not read.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::streams::{NOT_YET, ReadAllowance};

/// Reads until the allowance is used up. The connection then wakes itself, which puts it behind all others that are ready.
///
/// While the socket takes no bytes, nothing is read: each call that is read would leave another answer in memory.
pub(super) struct TurnIo<IO> {
    io: IO,
    allowance: ReadAllowance,
    /// Whether the socket has taken no bytes when it was asked last.
    is_stuck: bool,
}

impl<IO> TurnIo<IO> {
    pub(super) fn new(io: IO, allowance: ReadAllowance) -> Self {
        Self {
            io,
            allowance,
            is_stuck: false,
        }
    }

    /// Notes whether the socket takes bytes.
    fn note<T>(&mut self, written: Poll<T>, context: &mut Context<'_>) -> Poll<T> {
        let was_stuck = std::mem::replace(&mut self.is_stuck, written.is_pending());
        if was_stuck && written.is_ready() {
            // Nobody waits for bytes to read.
            context.waker().wake_by_ref();
        }
        written
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for TurnIo<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let allowed = self.allowance.load(Ordering::Relaxed);
        if allowed == NOT_YET || self.is_stuck {
            return Poll::Pending;
        }
        if allowed == 0 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let length = allowed.min(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(length));
        ready!(Pin::new(&mut self.io).poll_read(context, &mut part))?;
        let read = part.filled().len();
        buffer.advance(read);
        self.allowance.store(allowed - read, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for TurnIo<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        self.note(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(context, slices);
        self.note(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Waker;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn nothing_is_read_while_the_client_reads_nothing() {
        let (mut client, server) = tokio::io::duplex(8);
        let allowance: ReadAllowance = Arc::new(AtomicUsize::new(100));
        let mut io = TurnIo::new(server, allowance);
        client.write_all(&[7; 3]).await.expect("sent");
        let mut context = Context::from_waker(Waker::noop());
        let mut write = |io: &mut TurnIo<_>| Pin::new(io).poll_write(&mut context, &[1; 8]);
        assert!(write(&mut io).is_ready());
        assert!(write(&mut io).is_pending());
        let mut received = [0; 8];
        let mut context = Context::from_waker(Waker::noop());
        let mut buffer = ReadBuf::new(&mut received);
        let read = Pin::new(&mut io).poll_read(&mut context, &mut buffer);
        assert!(read.is_pending());
        client.read_exact(&mut [0; 8]).await.expect("read");
        assert!(write(&mut io).is_ready());
        assert_eq!(io.read(&mut received).await.expect("bytes"), 3);
    }

    #[tokio::test]
    async fn connection_reads_its_allowance_in_a_turn() {
        let (mut client, server) = tokio::io::duplex(64);
        let allowance: ReadAllowance = Arc::new(AtomicUsize::new(10));
        let mut io = TurnIo::new(server, allowance.clone());
        client.write_all(&[7; 25]).await.expect("sent");
        let mut received = [0; 64];
        assert_eq!(io.read(&mut received).await.expect("bytes"), 10);
        let mut context = Context::from_waker(Waker::noop());
        let mut buffer = ReadBuf::new(&mut received);
        let read = Pin::new(&mut io).poll_read(&mut context, &mut buffer);
        assert!(read.is_pending());
        allowance.store(20, Ordering::Relaxed);
        assert_eq!(io.read(&mut received).await.expect("bytes"), 15);
        assert_eq!(allowance.load(Ordering::Relaxed), 5);
    }
}
