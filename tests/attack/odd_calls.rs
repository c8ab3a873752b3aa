//! Calls with odd headers, encodings and bodies, sent with a plain HTTP/2 client.

use std::future::poll_fn;
use std::pin::pin;

use axum::body::Body as Full;
use http_body::Body as _;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use lease_broker_proto::{EnqueueRequest, HeartbeatRequest, NewItem};
use prost::Message as _;
use tokio::net::TcpStream;
use tonic::Code;

use super::arena::{Arena, QUEUE};
use crate::support::frames::{ENQUEUE, HEARTBEAT, grpc_message};
use crate::support::timeout::with_timeout;

/// The answer to a call.
#[derive(Debug)]
struct Answer {
    http_status: u16,
    /// From the headers or the trailers. `None`: no gRPC answer.
    grpc_status: Option<Code>,
    grpc_message: String,
}

/// Calls of one test on one connection.
struct Calls {
    arena: Arena,
    runtime: tokio::runtime::Runtime,
    sender: SendRequest<Full>,
    sent: u64,
}

impl Calls {
    fn start() -> Self {
        let arena = Arena::start();
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let address = arena.address();
        let sender = runtime.block_on(async {
            let stream = TcpStream::connect(address).await.expect("accepted");
            let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .expect("a connection");
            tokio::spawn(connection);
            sender
        });
        Self {
            arena,
            runtime,
            sender,
            sent: 0,
        }
    }

    /// Sends a POST with these headers and this body. Returns `None` if the broker resets the call.
    fn call(&mut self, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Option<Answer> {
        self.send("POST", path, headers, body)
    }

    fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Option<Answer> {
        self.sent += body.len() as u64;
        let uri = format!("http://attack{path}");
        let request = hyper::Request::builder().method(method).uri(uri);
        let mut request = request.header("te", "trailers");
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/grpc");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from(body)).expect("a request");
        let answer = async {
            let response = self.sender.send_request(request).await.ok()?;
            let (head, body) = response.into_parts();
            let mut fields = head.headers;
            let mut body = pin!(body);
            while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
                if let Ok(trailers) = frame.ok()?.into_trailers() {
                    fields.extend(trailers);
                }
            }
            let field = |name| fields.get(name).map(http::HeaderValue::as_bytes);
            Some(Answer {
                http_status: head.status.as_u16(),
                grpc_status: field("grpc-status").map(Code::from_bytes),
                grpc_message: String::from_utf8_lossy(field("grpc-message").unwrap_or_default())
                    .into_owned(),
            })
        };
        self.runtime.block_on(with_timeout(answer))
    }

    /// Sends a heartbeat without leases.
    fn heartbeat(&mut self, headers: &[(&str, &str)]) -> Option<Answer> {
        let request = HeartbeatRequest {
            queue: QUEUE.to_owned(),
            ..HeartbeatRequest::default()
        };
        self.call(HEARTBEAT, headers, grpc_message(&request.encode_to_vec()))
    }

    /// Checks that the connection still works, and ends the attack.
    fn end(mut self, name: &str, max_growth: u64) {
        let answer = self.heartbeat(&[]).expect("an answer");
        assert_eq!(answer.grpc_status, Some(Code::Ok), "{answer:?}");
        let effect = self.arena.end(name, self.sent);
        effect.bystander_unharmed().memory_below(max_growth);
    }
}

#[test]
fn compressed_requests_are_refused_unread() {
    let mut calls = Calls::start();
    // A compressed message whose length says 100 MB.
    let mut bomb = vec![1, 0x05, 0xf5, 0xe1, 0x00];
    bomb.resize(bomb.len() + 100_000, 0x1f);
    for encoding in ["gzip", "deflate", "zstd", "br"] {
        let answer = calls.call(HEARTBEAT, &[("grpc-encoding", encoding)], bomb.clone());
        let answer = answer.expect("an answer");
        assert_eq!(answer.grpc_status, Some(Code::Unimplemented), "{answer:?}");
    }
    let answer = calls.call(HEARTBEAT, &[], vec![1, 0, 0, 0, 1, 7]);
    let status = answer.and_then(|answer| answer.grpc_status);
    let refused = [Code::InvalidArgument, Code::Unimplemented];
    assert!(
        status.is_some_and(|status| refused.contains(&status)),
        "{status:?}"
    );
    calls.end("compressed bombs", 20);
}

#[test]
fn odd_deadlines_are_answered() {
    let mut calls = Calls::start();
    for deadline in [
        "99999999H",
        "99999999999999999999H",
        "0n",
        "-1S",
        "1",
        "S",
        "",
        "1.5S",
        "1x",
        "\u{fc}",
    ] {
        let answer = calls.heartbeat(&[("grpc-timeout", deadline)]);
        let answer = answer.expect("an answer");
        assert!(answer.grpc_status.is_some(), "{deadline:?}: {answer:?}");
    }
    calls.end("odd deadlines", 30);
}

#[test]
fn call_without_time_for_an_answer_never_begins() {
    let mut calls = Calls::start();
    let request = EnqueueRequest {
        queue: QUEUE.to_owned(),
        items: vec![NewItem::default()],
        ..EnqueueRequest::default()
    };
    let request = grpc_message(&request.encode_to_vec());
    // The answer has a millisecond at least to reach the caller.
    for deadline in ["0n", "1n", "900u", "1m"] {
        let answer = calls.call(ENQUEUE, &[("grpc-timeout", deadline)], request.clone());
        let answer = answer.expect("an answer");
        assert_eq!(answer.grpc_status, Some(Code::DeadlineExceeded));
        let text = answer.grpc_message;
        assert!(
            text.contains("was%20not%20applied") || text.contains("was not applied"),
            "{deadline}: {text}"
        );
    }
    calls.end("deadlines that have passed", 30);
}

#[test]
fn odd_headers_are_answered() {
    let mut calls = Calls::start();
    let long = "x".repeat(10_000);
    for header in [
        ("odd-bin", "!!! no base64"),
        ("traceparent", "00-zz-zz-zz"),
        ("traceparent", &long),
        ("tracestate", &long),
        ("grpc-accept-encoding", &long),
        ("authorization", "Bearer x"),
        ("user-agent", &long),
        ("content-type", "application/grpc+proto"),
    ] {
        let answer = calls.heartbeat(&[header]).expect("an answer");
        assert_eq!(answer.grpc_status, Some(Code::Ok), "{header:?}: {answer:?}");
    }
    let path = format!("/{}", "x".repeat(12_000));
    let answer = calls.call(&path, &[], Vec::new()).expect("an answer");
    assert_eq!(answer.grpc_status, Some(Code::Unimplemented), "{answer:?}");
    calls.end("odd headers", 30);
}

#[test]
fn requests_of_other_protocols_are_refused() {
    let mut calls = Calls::start();
    for (method, content_type, status) in [
        ("GET", "application/grpc", 405),
        ("PUT", "application/grpc", 405),
        ("POST", "application/json", 415),
        ("POST", "application/grpc+json", 415),
        ("POST", "application/grpc-web", 415),
        ("POST", "application/grpc-web+proto", 415),
        ("POST", "application/grpc-web-text", 415),
        ("POST", "", 415),
    ] {
        let headers = [("content-type", content_type)];
        let answer = calls.send(method, HEARTBEAT, &headers, Vec::new());
        assert_eq!(answer.expect("an answer").http_status, status, "{method}");
    }
    calls.end("requests of other protocols", 30);
}

/// Sends requests of several megabytes, and expects that each is refused without being decoded.
fn expect_refused(name: &str, path: &str, requests: usize, message: &[u8]) {
    let mut calls = Calls::start();
    let body = grpc_message(message);
    for _ in 0..requests {
        let answer = calls.call(path, &[], body.clone()).expect("an answer");
        assert_eq!(
            answer.grpc_status,
            Some(Code::InvalidArgument),
            "{answer:?}"
        );
    }
    calls.end(name, 60);
}

#[test]
fn empty_items_are_not_decoded() {
    let items = [0x12, 0].repeat(2_000_000);
    expect_refused("4 x 4 MB of empty items", ENQUEUE, 4, &items);
}

#[test]
fn unknown_fields_are_not_decoded() {
    // Field 15, a number.
    let fields = [0x78, 1].repeat(1_400_000);
    expect_refused("16 x 1.4 M unknown fields", HEARTBEAT, 16, &fields);
}

#[test]
fn nested_groups_are_not_decoded() {
    let groups = [0x7b].repeat(100_000);
    expect_refused("16 x 100,000 nested groups", HEARTBEAT, 16, &groups);
}

#[test]
fn long_names_are_refused() {
    let request = HeartbeatRequest {
        queue: "\u{200b}".repeat(1_300_000),
        ..HeartbeatRequest::default()
    };
    let request = request.encode_to_vec();
    expect_refused("16 x queue name of 3.9 MB", HEARTBEAT, 16, &request);
}

#[test]
fn bodies_that_are_no_single_message_are_refused() {
    let mut calls = Calls::start();
    let whole = grpc_message(&[]);
    for (body, name) in [
        (Vec::new(), "no message"),
        (vec![0, 0], "half a prefix"),
        (vec![0, 0, 0, 0, 9, 1], "half a message"),
        (grpc_message(&[0xff; 64]), "no protobuf"),
        (grpc_message(&[0x0b; 64]), "groups that do not end"),
        (vec![9, 0, 0, 0, 0], "an unknown flag"),
        (vec![0, 0xff, 0xff, 0xff, 0xff, 0], "4 GiB announced"),
        (
            [whole.clone(), vec![0; 3]].concat(),
            "bytes behind the message",
        ),
    ] {
        let status = calls
            .call(HEARTBEAT, &[], body)
            .and_then(|answer| answer.grpc_status);
        let ok = [Some(Code::Ok), Some(Code::Unknown), Some(Code::Unavailable)];
        assert!(!ok.contains(&status), "{name}: {status:?}");
    }
    calls.end("bodies that are no single message", 30);
}

#[test]
fn hostile_names_come_back_escaped_and_short() {
    let mut calls = Calls::start();
    for name in ["\u{1b}[2J\r\n\u{202e}", &"\u{200b}".repeat(100_000)] {
        let heartbeat = HeartbeatRequest {
            queue: name.to_owned(),
            ..HeartbeatRequest::default()
        };
        let column = NewItem {
            columns: [(
                name.to_owned(),
                lease_broker_proto::ColumnValue { kind: None },
            )]
            .into(),
            ..NewItem::default()
        };
        let enqueue = EnqueueRequest {
            queue: QUEUE.to_owned(),
            items: vec![column],
            request_id: String::new(),
        };
        for (path, body) in [
            (HEARTBEAT, heartbeat.encode_to_vec()),
            (ENQUEUE, enqueue.encode_to_vec()),
        ] {
            let answer = calls.call(path, &[], grpc_message(&body));
            let answer = answer.expect("an answer");
            let refused = [Some(Code::NotFound), Some(Code::InvalidArgument)];
            assert!(refused.contains(&answer.grpc_status), "{answer:?}");
            assert_eq!(answer.http_status, 200, "{answer:?}");
            // The message is percent-encoded: %1B is an ESC, and %E2%80%8B a character without width.
            let text = &answer.grpc_message;
            assert!(
                !text.contains("%1B") && !text.contains("%E2%80%8B"),
                "{text}"
            );
            assert!(text.len() < 8_000, "{} bytes", text.len());
        }
    }
    calls.end("hostile names", 30);
}
