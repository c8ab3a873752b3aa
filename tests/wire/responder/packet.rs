//! TDS packets and messages (MS-TDS 2.2.3). A message consists of one or more packets.

use std::io::{Error, ErrorKind, Result};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

pub(super) const BATCH: u8 = 1;
pub(super) const RPC: u8 = 3;
pub(super) const ANSWER: u8 = 4;
pub(super) const ATTENTION: u8 = 6;
pub(super) const LOGIN: u8 = 16;
pub(super) const PRELOGIN: u8 = 18;

pub(super) const HEADER: usize = 8;
const LAST: u8 = 1;
/// Maximum packet size. A session starts with this size, and the scripted server does not change it.
const PACKET: usize = 4_096;

/// The joined payloads of the packets of a message.
pub(super) struct Message {
    pub(super) kind: u8,
    pub(super) payload: Vec<u8>,
}

/// Whether the last written packet is marked as the end of the message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Last,
    /// The packet is not marked as the last one, so the reader waits for more.
    MoreToCome,
}

/// Reads a message. `None`: the other side closed the connection.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Option<Message>> {
    let mut payload = Vec::new();
    loop {
        let mut header = [0; HEADER];
        match stream.read_exact(&mut header).await {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            outcome => outcome?,
        };
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let start = payload.len();
        let body = length.checked_sub(HEADER);
        payload.resize(start + body.ok_or(ErrorKind::InvalidData)?, 0);
        stream.read_exact(&mut payload[start..]).await?;
        if header[1] & LAST != 0 {
            let kind = header[0];
            return Ok(Some(Message { kind, payload }));
        }
    }
}

/// Writes a message.
pub(super) async fn write(
    stream: &mut (impl AsyncWrite + Unpin),
    kind: u8,
    payload: &[u8],
    end: End,
) -> Result<()> {
    let mut packets = payload.chunks(PACKET - HEADER).peekable();
    while let Some(body) = packets.next() {
        let last = packets.peek().is_none() && end == End::Last;
        stream.write_all(&header(kind, last, body.len())?).await?;
        stream.write_all(body).await?;
    }
    stream.flush().await
}

pub(super) fn header(kind: u8, last: bool, body: usize) -> Result<[u8; HEADER]> {
    let length = u16::try_from(body + HEADER).map_err(Error::other)?;
    let [high, low] = length.to_be_bytes();
    Ok([kind, u8::from(last), high, low, 0, 0, 1, 0])
}
