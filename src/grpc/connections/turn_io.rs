//! The stream of a connection, as HTTP/2 sees it during a turn of the connection.
//!
//! A turn reads a bounded number of bytes, and nothing while its client does not read. What it writes is sent at its end, in one
//! system call: HTTP/2 writes each frame by itself, and a call that passes a few bytes to the kernel costs more than its answer.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::streams::{NOT_YET, ReadAllowance};

/// The bytes that wait for the end of the turn. What is larger is sent at once, without a copy.
const MAX_UNSENT: usize = 16 << 10;
/// The capacity that an idle connection keeps.
const MAX_KEPT: usize = 1 << 10;
/// The bytes that are read at a time to be dropped.
const DROPPED: usize = 4 << 10;

/// Reads until the allowance is used up. The connection then wakes itself, which puts it behind all others that are ready.
///
/// While the socket takes no bytes, nothing is read: each call that is read would leave another answer in memory.
pub(super) struct TurnIo<IO>(Arc<Mutex<Shared<IO>>>);

/// Sends at the end of a turn what was written to the [`TurnIo`].
pub(super) struct TurnEnd<IO>(Arc<Mutex<Shared<IO>>>);

struct Shared<IO> {
    io: IO,
    allowance: ReadAllowance,
    unsent: Vec<u8>,
    /// Whether bytes were written that the socket may not have.
    is_unflushed: bool,
    /// The error of the end of a turn. The next write or flush returns it.
    failed: Option<io::Error>,
    /// Whether the socket has taken no bytes when it was asked last.
    is_stuck: bool,
}

impl<IO> TurnIo<IO> {
    pub(super) fn new(io: IO, allowance: ReadAllowance) -> (Self, TurnEnd<IO>) {
        let shared = Arc::new(Mutex::new(Shared {
            io,
            allowance,
            unsent: Vec::new(),
            is_unflushed: false,
            failed: None,
            is_stuck: false,
        }));
        (Self(shared.clone()), TurnEnd(shared))
    }
}

/// Only the task of the connection locks it.
fn lock<IO>(shared: &Mutex<Shared<IO>>) -> MutexGuard<'_, Shared<IO>> {
    shared.lock()
}

impl<IO: AsyncWrite + Unpin> TurnEnd<IO> {
    /// Sends what was written in this turn. If the socket takes no more bytes, the task is woken when it does.
    pub(super) fn send(&self, context: &mut Context<'_>) {
        let mut shared = lock(&self.0);
        if let Poll::Ready(Err(error)) = shared.poll_send(context) {
            shared.failed = Some(error);
            context.waker().wake_by_ref();
        }
    }
}

impl<IO: AsyncRead + Unpin> TurnEnd<IO> {
    /// Reads and drops the client's last bytes, until the client has closed the connection too. If a socket is closed with unread bytes,
    /// the kernel resets the connection, and a client that is reset can lose the last responses.
    pub(super) async fn read_to_the_end(&self) {
        let mut dropped = [0; DROPPED];
        poll_fn(|context| {
            let mut buffer = ReadBuf::new(&mut dropped);
            let read = Pin::new(&mut lock(&self.0).io).poll_read(context, &mut buffer);
            match ready!(read) {
                Ok(()) if !buffer.filled().is_empty() => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                _ => Poll::Ready(()),
            }
        })
        .await;
    }
}

impl<IO: AsyncWrite + Unpin> Shared<IO> {
    /// Ready when the socket has all bytes that were written.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_unflushed {
            return Poll::Ready(Ok(()));
        }
        let mut sent = 0;
        let written = loop {
            if sent == self.unsent.len() {
                break Poll::Ready(Ok(()));
            }
            match Pin::new(&mut self.io).poll_write(context, &self.unsent[sent..]) {
                Poll::Ready(Ok(0)) => break Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => sent += count,
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                Poll::Pending => break Poll::Pending,
            }
        };
        self.unsent.drain(..sent);
        if self.unsent.is_empty() && self.unsent.capacity() > MAX_KEPT {
            self.unsent = Vec::new();
        }
        let flushed = match written {
            Poll::Ready(Ok(())) => Pin::new(&mut self.io).poll_flush(context),
            unwritten => unwritten,
        };
        self.is_unflushed = flushed.is_pending();
        self.note(flushed, context)
    }

    /// Makes room for this number of bytes. Returns false if they are too many to wait for the end of the turn.
    fn poll_room(&mut self, count: usize, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        self.check()?;
        let is_full = self.is_stuck || self.unsent.len() + count > MAX_UNSENT;
        if is_full && !self.unsent.is_empty() {
            ready!(self.poll_send(context))?;
        }
        self.is_unflushed = true;
        Poll::Ready(Ok(count <= MAX_UNSENT))
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

    fn check(&mut self) -> io::Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for TurnIo<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let shared = &mut *lock(&self.0);
        let allowed = shared.allowance.load(Ordering::Relaxed);
        if allowed == NOT_YET || shared.is_stuck {
            return Poll::Pending;
        }
        if allowed == 0 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let length = allowed.min(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(length));
        ready!(Pin::new(&mut shared.io).poll_read(context, &mut part))?;
        let read = part.filled().len();
        buffer.advance(read);
        shared.allowance.store(allowed - read, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for TurnIo<IO> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let shared = &mut *lock(&self.0);
        if ready!(shared.poll_room(bytes.len(), context))? {
            shared.unsent.extend_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut shared.io).poll_write(context, bytes);
        shared.note(written, context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let shared = &mut *lock(&self.0);
        let count = slices.iter().map(|slice| slice.len()).sum();
        if ready!(shared.poll_room(count, context))? {
            for slice in slices {
                shared.unsent.extend_from_slice(slice);
            }
            return Poll::Ready(Ok(count));
        }
        let written = Pin::new(&mut shared.io).poll_write_vectored(context, slices);
        shared.note(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        lock(&self.0).io.is_write_vectored()
    }

    /// Ready at once: the end of the turn sends the bytes.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(lock(&self.0).check())
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shared = &mut *lock(&self.0);
        shared.check()?;
        ready!(shared.poll_send(context))?;
        Pin::new(&mut shared.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::task::Waker;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    fn io(server: DuplexStream, allowed: usize) -> (TurnIo<DuplexStream>, TurnEnd<DuplexStream>) {
        TurnIo::new(server, Arc::new(AtomicUsize::new(allowed)))
    }

    fn write(io: &mut TurnIo<DuplexStream>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(io).poll_write(&mut Context::from_waker(Waker::noop()), bytes)
    }

    fn end_turn(end: &TurnEnd<DuplexStream>) {
        end.send(&mut Context::from_waker(Waker::noop()));
    }

    fn read(io: &mut TurnIo<DuplexStream>) -> Poll<usize> {
        let mut received = [0; 64];
        let mut buffer = ReadBuf::new(&mut received);
        let read = Pin::new(io).poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer);
        read.map(|read| {
            read.expect("read");
            buffer.filled().len()
        })
    }

    #[tokio::test]
    async fn writes_of_a_turn_are_sent_together_at_its_end() {
        let (mut client, server) = tokio::io::duplex(64);
        let (mut io, end) = io(server, 100);
        for part in [[1; 3], [2; 3]] {
            assert!(write(&mut io, &part).is_ready());
            io.flush().await.expect("flushed");
        }
        let mut received = [0; 6];
        let early = tokio::time::timeout(std::time::Duration::ZERO, client.read(&mut received));
        early.await.expect_err("nothing is sent before the end");
        end_turn(&end);
        assert_eq!(client.read(&mut received).await.expect("read"), 6);
        assert_eq!(received, [1, 1, 1, 2, 2, 2]);
    }

    #[tokio::test]
    async fn large_write_follows_what_was_written_before_it() {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let (mut io, end) = io(server, 100);
        assert!(write(&mut io, &[1; 3]).is_ready());
        let large = vec![2; MAX_UNSENT + 1];
        assert!(matches!(write(&mut io, &large), Poll::Ready(Ok(count)) if count == large.len()));
        let mut received = vec![0; large.len() + 3];
        client.read_exact(&mut received).await.expect("read");
        assert_eq!(received[..4], [1, 1, 1, 2]);
        end_turn(&end);
    }

    #[tokio::test]
    async fn shutdown_sends_the_last_bytes() {
        let (mut client, server) = tokio::io::duplex(64);
        let (mut io, _end) = io(server, 100);
        assert!(write(&mut io, &[7; 3]).is_ready());
        io.shutdown().await.expect("shut down");
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.expect("read");
        assert_eq!(received, [7; 3]);
    }

    #[tokio::test]
    async fn write_after_a_failed_end_fails() {
        let (client, server) = tokio::io::duplex(64);
        let (mut io, end) = io(server, 100);
        drop(client);
        assert!(write(&mut io, &[7; 3]).is_ready());
        end_turn(&end);
        assert!(matches!(write(&mut io, &[7; 3]), Poll::Ready(Err(_))));
    }

    #[tokio::test]
    async fn nothing_is_read_while_the_client_reads_nothing() {
        let (mut client, server) = tokio::io::duplex(8);
        let (mut io, end) = io(server, 100);
        client.write_all(&[7; 3]).await.expect("sent");
        assert!(write(&mut io, &[1; 12]).is_ready());
        end_turn(&end);
        assert!(write(&mut io, &[1; 8]).is_pending());
        assert!(read(&mut io).is_pending());
        client.read_exact(&mut [0; 8]).await.expect("read");
        end_turn(&end);
        client.read_exact(&mut [0; 4]).await.expect("read");
        assert!(write(&mut io, &[1; 8]).is_ready());
        assert_eq!(read(&mut io), Poll::Ready(3));
    }

    #[tokio::test]
    async fn connection_reads_its_allowance_in_a_turn() {
        let (mut client, server) = tokio::io::duplex(64);
        let allowance: ReadAllowance = Arc::new(AtomicUsize::new(10));
        let (mut io, _end) = TurnIo::new(server, allowance.clone());
        client.write_all(&[7; 25]).await.expect("sent");
        assert_eq!(read(&mut io), Poll::Ready(10));
        assert!(read(&mut io).is_pending());
        allowance.store(20, Ordering::Relaxed);
        assert_eq!(read(&mut io), Poll::Ready(15));
        assert_eq!(allowance.load(Ordering::Relaxed), 5);
    }
}
