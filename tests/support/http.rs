//! A small HTTP client for the admin port. Each request has its own connection.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use super::timeout::TEST_TIMEOUT;

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    /// The lines before the body, in lower case.
    pub(crate) head: String,
    /// The place to which a redirect leads.
    pub(crate) location: Option<String>,
    pub(crate) body: String,
}

impl HttpResponse {
    /// Parses the body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends a GET request.
pub(crate) fn get(address: SocketAddr, path: &str) -> HttpResponse {
    send(address, "GET", path, "")
}

/// Returns whether a broker answers that it is ready. It is not if the connection or the answer is lost.
pub(crate) fn is_ready(admin: SocketAddr) -> bool {
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
    let answer = TcpStream::connect(admin).and_then(|stream| exchange(stream, &request));
    answer.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 "))
}

/// Sends a request with a body.
pub(crate) fn send(address: SocketAddr, method: &str, path: &str, body: &str) -> HttpResponse {
    let host = format!("Host: {address}\r\n");
    send_with_headers(address, method, path, &host, body)
}

/// Sends a request with these headers, each of which ends with CR and LF.
pub(crate) fn send_with_headers(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> HttpResponse {
    let stream = TcpStream::connect(address).expect("the port accepts connections");
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let response = exchange(stream, &request).expect("the response is complete");
    let (head, body) = response.split_once("\r\n\r\n").expect("a response");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let location = head
        .lines()
        .find_map(|line| line.strip_prefix("location: "));
    HttpResponse {
        location: location.map(str::to_owned),
        status: status.unwrap_or_else(|| panic!("no status in {head}")),
        head: head.to_ascii_lowercase(),
        body: body.to_owned(),
    }
}

fn exchange(mut stream: TcpStream, request: &str) -> io::Result<String> {
    stream.set_read_timeout(Some(TEST_TIMEOUT))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
