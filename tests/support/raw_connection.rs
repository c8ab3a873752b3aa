//! A raw connection to a broker. It sends any bytes, and reads the frames of the broker in a thread.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use super::frames::{
    END_STREAM, GOAWAY, HEADERS, HEARTBEAT, PREFACE, SETTINGS, call_headers, message, settings,
};
use super::timeout::{TEST_TIMEOUT, wait_until_blocking, with_timeout};

/// The time after which a broker that reads nothing counts as one that has stopped reading.
const STALL: Duration = Duration::from_secs(2);

/// A connection. Dropping it closes the socket.
pub(crate) struct RawConnection {
    stream: TcpStream,
    seen: Arc<Seen>,
    sent: u64,
}

/// The frames that the broker has sent.
#[derive(Default)]
struct Seen {
    state: Mutex<Received>,
    changed: Condvar,
}

/// A summary of the frames that the broker has sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Received {
    /// The number of frames by type.
    pub(crate) frames: BTreeMap<u8, usize>,
    /// The number of streams that the broker has ended with an answer.
    pub(crate) answers: usize,
    /// The payload of the first SETTINGS frame, which is the broker's first frame.
    pub(crate) settings: Option<Vec<u8>>,
    /// Error code and text of the last GOAWAY frame.
    pub(crate) goaway: Option<(u32, String)>,
    /// True if the broker has closed the connection.
    pub(crate) closed: bool,
}

impl Received {
    /// Returns the number of frames of a type.
    pub(crate) fn count(&self, kind: u8) -> usize {
        self.frames.get(&kind).copied().unwrap_or(0)
    }
}

impl RawConnection {
    /// Connects, sends the preface and empty SETTINGS, and reads all frames of the broker.
    pub(crate) fn open(address: SocketAddr) -> Self {
        Self::with_settings(address, &[])
    }

    /// Does the same as [`Self::open`] with these settings, as pairs of identifier and value.
    pub(crate) fn with_settings(address: SocketAddr, pairs: &[(u16, u32)]) -> Self {
        let mut connection = Self::silent(address);
        let hello = [PREFACE, &settings(pairs)].concat();
        connection.send(&hello).expect("the preface is sent");
        connection
    }

    /// Connects and sends nothing.
    pub(crate) fn silent(address: SocketAddr) -> Self {
        let connection = Self::unread(address);
        let stream = connection.stream.try_clone().expect("a second handle");
        let seen = connection.seen.clone();
        std::thread::spawn(move || seen.read_all(BufReader::with_capacity(65_536, stream)));
        connection
    }

    /// Connects, sends nothing, and never reads.
    pub(crate) fn unread(address: SocketAddr) -> Self {
        Self::unread_from(Ipv4Addr::LOCALHOST, address)
    }

    /// Does the same from this address of this host, such as 127.0.0.2.
    pub(crate) fn unread_from(own: Ipv4Addr, address: SocketAddr) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let own = SocketAddr::from((own, 0));
        socket.bind(&own.into()).expect("an address of this host");
        let connected = socket.connect(&address.into());
        connected.expect("the broker accepts the connection");
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true).expect("an option");
        Self {
            stream,
            seen: Arc::default(),
            sent: 0,
        }
    }

    /// Returns whether the broker has sent something that was not read.
    pub(crate) fn has_unread_bytes(&self) -> bool {
        self.stream.set_nonblocking(true).expect("an option");
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).expect("an option");
        peeked.is_ok_and(|bytes| bytes > 0)
    }

    /// Sends bytes that the broker reads. Returns an error if it has closed the connection.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes, TEST_TIMEOUT)
    }

    /// Sends bytes that the broker may leave unread. Returns an error if it has closed the connection, or has not read for
    /// 2 seconds.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes, STALL)
    }

    fn write(&mut self, bytes: &[u8], limit: Duration) -> io::Result<()> {
        self.stream.set_write_timeout(Some(limit))?;
        self.stream.write_all(bytes)?;
        self.sent += bytes.len() as u64;
        Ok(())
    }

    /// Sends the same bytes again and again until the time is over or sending fails.
    pub(crate) fn flood(&mut self, bytes: &[u8], time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && self.try_send(bytes).is_ok() {}
    }

    /// Returns the number of bytes sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns a summary of the frames received so far.
    pub(crate) fn received(&self) -> Received {
        self.seen.lock().clone()
    }

    /// Waits until the summary meets a condition. Returns the last summary and whether it meets the condition.
    pub(crate) fn wait(
        &self,
        time: Duration,
        condition: impl Fn(&Received) -> bool,
    ) -> (Received, bool) {
        let end = Instant::now() + time;
        let mut state = self.seen.lock();
        while !condition(&state) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return (state.clone(), false);
            }
            let woken = self.seen.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        (state.clone(), true)
    }

    /// Sends a call that is refused immediately, and waits for the answer. The broker has then read all earlier frames.
    pub(crate) fn sync(&mut self, stream: u32) {
        let answers = self.received().count(HEADERS);
        let call = [
            call_headers(stream, HEARTBEAT, 0),
            message(stream, &[], END_STREAM),
        ];
        self.send(&call.concat()).expect("the connection is open");
        let answered = |received: &Received| received.count(HEADERS) > answers;
        let (received, is_answered) = self.wait(TEST_TIMEOUT, answered);
        assert!(is_answered, "no answer: {received:?}");
    }

    /// Ends the direction from the client to the broker.
    pub(crate) fn shut_down_writing(&self) {
        self.stream
            .shutdown(Shutdown::Write)
            .expect("an open connection");
    }

    /// Waits until the broker has closed the connection.
    pub(crate) fn wait_until_closed(&self) {
        let (received, closed) = self.wait(TEST_TIMEOUT, |received| received.closed);
        assert!(closed, "the connection is open: {received:?}");
    }

    /// Waits for a GOAWAY frame, and returns its error code and text.
    pub(crate) fn goaway(&self) -> (u32, String) {
        let (received, _) = self.wait(TEST_TIMEOUT, |received| received.goaway.is_some());
        match received.goaway {
            Some(goaway) => goaway,
            None => panic!("the broker sent no GOAWAY: {received:?}"),
        }
    }
}

/// Waits until the broker has closed all connections.
pub(crate) fn wait_until_all_closed(connections: &[RawConnection]) {
    wait_until_blocking("the broker closes all connections", || {
        let mut open = connections
            .iter()
            .filter(|connection| !connection.received().closed);
        open.next().is_none()
    });
}

impl Drop for RawConnection {
    fn drop(&mut self) {
        // Closing the handle alone sends nothing while the reading thread holds its own.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Seen {
    fn lock(&self) -> std::sync::MutexGuard<'_, Received> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads frames until the connection ends.
    fn read_all(&self, mut stream: impl Read) {
        while self.read_frame(&mut stream).is_ok() {}
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn read_frame(&self, stream: &mut impl Read) -> io::Result<()> {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let [a, b, c, kind, flags, ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut payload)?;
        let number = |bytes: &[u8]| bytes.try_into().map_or(u32::MAX, u32::from_be_bytes);
        let mut state = self.lock();
        *state.frames.entry(kind).or_default() += 1;
        if kind == HEADERS && flags & END_STREAM != 0 {
            state.answers += 1;
        }
        if kind == GOAWAY && payload.len() >= 8 {
            let text = String::from_utf8_lossy(&payload[8..]).into_owned();
            state.goaway = Some((number(&payload[4..8]), text));
        }
        if kind == SETTINGS {
            state.settings.get_or_insert(payload);
        }
        drop(state);
        self.changed.notify_all();
        Ok(())
    }
}

/// Runs blocking code while the server runs.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let done = with_timeout(tokio::task::spawn_blocking(work)).await;
    done.expect("the work does not panic")
}
