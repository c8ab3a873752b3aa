//! A stream that reads a bounded number of bytes in each turn of its connection.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::streams::{NOT_YET, ReadAllowance};

/// Reads until the allowance is used up. The connection then wakes itself, which puts it behind all others that are ready.
pub(super) struct TurnIo<IO> {
    io: IO,
    allowance: ReadAllowance,
}

impl<IO> TurnIo<IO> {
    pub(super) fn new(io: IO, allowance: ReadAllowance) -> Self {
        Self { io, allowance }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for TurnIo<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let allowed = self.allowance.load(Ordering::Relaxed);
        if allowed == NOT_YET {
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
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
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
