//! TLS as TDS uses it: the handshake is sent in prelogin packets, and everything after it without packets (MS-TDS 3.2.5.1).

use std::io::{Error, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

use super::packet::{HEADER, PRELOGIN, header};

/// Performs the TLS handshake.
pub(super) async fn accept(
    stream: TcpStream,
    config: Arc<ServerConfig>,
) -> Result<TlsStream<Framed>> {
    let framed = Framed {
        stream,
        in_handshake: true,
        header: Vec::new(),
        body: 0,
        unsent: Vec::new(),
    };
    let mut tls = TlsAcceptor::from(config).accept(framed).await?;
    tls.get_mut().0.in_handshake = false;
    Ok(tls)
}

/// Shakes hands before anything else, as TDS 8.0 does. The client must ask for that protocol.
pub(super) async fn accept_strict(
    stream: TcpStream,
    config: Arc<ServerConfig>,
) -> Result<TlsStream<TcpStream>> {
    const PROTOCOL: &[u8] = b"tds/8.0";

    let mut config = ServerConfig::clone(&config);
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    let tls = TlsAcceptor::from(Arc::new(config)).accept(stream).await?;
    if tls.get_ref().1.alpn_protocol() != Some(PROTOCOL) {
        return Err(Error::other("the client does not ask for TDS 8.0"));
    }
    Ok(tls)
}

/// A stream that wraps its bytes in prelogin packets during the handshake.
pub(super) struct Framed {
    stream: TcpStream,
    in_handshake: bool,
    /// The header bytes of the packet that is being read, as far as they have arrived.
    header: Vec<u8>,
    /// Number of bytes of that packet that are still to be read.
    body: usize,
    /// Unsent bytes of the packet that is being written. A packet is sent as a whole.
    unsent: Vec<u8>,
}

impl AsyncRead for Framed {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let this = self.get_mut();
        if !this.in_handshake {
            return Pin::new(&mut this.stream).poll_read(context, buffer);
        }
        while this.body == 0 {
            let mut rest = [0; HEADER];
            let mut rest = ReadBuf::new(&mut rest[this.header.len()..]);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut rest))?;
            if rest.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.header.extend_from_slice(rest.filled());
            if let [_, _, high, low, ..] = *this.header
                && this.header.len() == HEADER
            {
                let length = usize::from(u16::from_be_bytes([high, low]));
                this.body = length.saturating_sub(HEADER);
                this.header.clear();
            }
        }
        let mut part = vec![0; this.body.min(buffer.remaining())];
        let mut part = ReadBuf::new(&mut part);
        ready!(Pin::new(&mut this.stream).poll_read(context, &mut part))?;
        buffer.put_slice(part.filled());
        this.body -= part.filled().len();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Framed {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let this = self.get_mut();
        if !this.in_handshake {
            return Pin::new(&mut this.stream).poll_write(context, bytes);
        }
        if this.unsent.is_empty() {
            this.unsent.extend(header(PRELOGIN, true, bytes.len())?);
            this.unsent.extend_from_slice(bytes);
        }
        while !this.unsent.is_empty() {
            let sent = ready!(Pin::new(&mut this.stream).poll_write(context, &this.unsent))?;
            this.unsent.drain(..sent);
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
