//! A stream that tells when the client has sent the HTTP/2 preface and the header of its first frame.
//!
//! hyper does not report the end of the handshake. A client that has not sent these bytes has no call.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The length of the preface, and of the header of the frame after it.
const GREETING_BYTES: usize = 24 + 9;

/// True when the client has sent its greeting.
pub(super) type Greeted = Arc<AtomicBool>;

/// Counts the bytes that are read until the greeting is complete.
pub(super) struct GreetedIo<IO> {
    io: IO,
    missing: usize,
    greeted: Greeted,
}

impl<IO> GreetedIo<IO> {
    pub(super) fn new(io: IO) -> (Self, Greeted) {
        let greeted = Greeted::default();
        let io = Self {
            io,
            missing: GREETING_BYTES,
            greeted: greeted.clone(),
        };
        (io, greeted)
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for GreetedIo<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(context, buffer);
        if self.missing > 0 {
            let received = buffer.filled().len() - before;
            self.missing = self.missing.saturating_sub(received);
            if self.missing == 0 {
                self.greeted.store(true, Ordering::Release);
            }
        }
        read
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for GreetedIo<IO> {
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn greeting_ends_with_its_last_byte() {
        let (mut client, server) = tokio::io::duplex(64);
        let (mut io, greeted) = GreetedIo::new(server);
        client
            .write_all(&[0; GREETING_BYTES - 1])
            .await
            .expect("sent");
        let mut received = [0; GREETING_BYTES - 1];
        io.read_exact(&mut received).await.expect("received");
        assert!(!greeted.load(Ordering::Acquire));
        client.write_all(&[0]).await.expect("sent");
        io.read_u8().await.expect("received");
        assert!(greeted.load(Ordering::Acquire));
    }
}
