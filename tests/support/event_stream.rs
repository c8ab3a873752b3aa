//! A client of the server-sent events of the admin port.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};

use super::timeout::TEST_TIMEOUT;

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) data: String,
}

/// A connection that receives events.
pub(crate) struct EventStream {
    reader: BufReader<TcpStream>,
    pub(crate) status: u16,
    /// The lines before the body, in lower case.
    pub(crate) head: String,
}

impl EventStream {
    /// Asks for events, and reads the head of the answer.
    pub(crate) fn open(address: SocketAddr, path: &str, headers: &str) -> Self {
        let stream = TcpStream::connect(address).expect("the port accepts connections");
        Self::over(stream, address, path, headers)
    }

    /// Does the same on a socket that takes little before its owner reads.
    pub(crate) fn narrow(address: SocketAddr, path: &str) -> Self {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None);
        let socket = socket.expect("a socket");
        socket.set_recv_buffer_size(4_096).expect("a size");
        socket
            .connect(&address.into())
            .expect("the port accepts connections");
        Self::over(socket.into(), address, path, "")
    }

    fn over(mut stream: TcpStream, address: SocketAddr, path: &str, headers: &str) -> Self {
        let timeout = Some(TEST_TIMEOUT);
        stream.set_read_timeout(timeout).expect("a timeout");
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).expect("it is sent");
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = reader.read_line(&mut head).expect("a line");
            assert_ne!(read, 0, "the answer ends with its head: {head}");
        }
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Self {
            reader,
            status: status.expect("a status"),
            head: head.to_ascii_lowercase(),
        }
    }

    /// Reads a line that begins with one of these, without its end. `None`: the answer has ended. Other lines are the sizes of chunks.
    fn line(&mut self, starts: &[&str]) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            if starts.iter().any(|start| line.starts_with(start)) {
                return Some(line.trim_end_matches(['\r', '\n']).to_owned());
            }
        }
    }

    /// Reads the pause after which a browser connects again.
    pub(crate) fn retry(&mut self) -> Option<String> {
        self.line(&["retry: "])
    }

    /// Reads the next event. `None`: the answer has ended.
    pub(crate) fn next(&mut self) -> Option<Event> {
        let mut event = Event::default();
        loop {
            let line = self.line(&["id: ", "event: ", "data: ", "\n"])?;
            match line.split_once(": ") {
                Some(("id", id)) => event.id = id.parse().expect("a number"),
                Some(("event", name)) => name.clone_into(&mut event.name),
                Some((_, data)) => event.data.push_str(data),
                None if event.id > 0 => return Some(event),
                None => {}
            }
        }
    }
}
