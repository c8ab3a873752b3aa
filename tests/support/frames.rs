//! HTTP/2 frames as bytes (RFC 9113), and header blocks of literals without indexing (RFC 7541).

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;

/// Error codes.
pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const CANCEL: u32 = 8;

/// The first bytes of every HTTP/2 connection.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Paths of the API's methods, and of the standard services.
pub(crate) const HEARTBEAT: &str = "/leasebroker.v1.LeaseService/Heartbeat";
pub(crate) const CLAIM_BATCH: &str = "/leasebroker.v1.LeaseService/ClaimBatch";
pub(crate) const COMPLETE: &str = "/leasebroker.v1.LeaseService/Complete";
pub(crate) const ENQUEUE: &str = "/leasebroker.v1.LeaseService/Enqueue";

/// Builds a frame. The payload must be shorter than 2^24 bytes.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short payload");
    let mut bytes = length.to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Builds a SETTINGS frame of pairs of identifier and value.
pub(crate) fn settings(pairs: &[(u16, u32)]) -> Vec<u8> {
    let pair = |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    let payload: Vec<u8> = pairs.iter().flat_map(pair).collect();
    frame(SETTINGS, 0, 0, &payload)
}

/// Builds the HEADERS frame of a gRPC call.
pub(crate) fn call_headers(stream: u32, path: &str, flags: u8) -> Vec<u8> {
    frame(HEADERS, flags | END_HEADERS, stream, &call_block(path, &[]))
}

/// Builds the header block of a gRPC call with more headers.
pub(crate) fn call_block(path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let fixed = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "attack"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let headers = fixed.iter().chain(more);
    headers
        .flat_map(|(name, value)| literal(name.as_bytes(), value.as_bytes()))
        .collect()
}

/// Builds a header field: a literal without indexing, with a new name.
pub(crate) fn literal(name: &[u8], value: &[u8]) -> Vec<u8> {
    [vec![0], string(name), string(value)].concat()
}

/// Builds a header field that the receiver adds to its table: a literal with incremental indexing.
pub(crate) fn indexed_literal(name: &[u8], value: &[u8]) -> Vec<u8> {
    [vec![0x40], string(name), string(value)].concat()
}

fn string(text: &[u8]) -> Vec<u8> {
    let mut bytes = integer(text.len());
    bytes.extend(text);
    bytes
}

/// Encodes an integer with a prefix of 7 bits, of which the first bit is 0: no Huffman code.
fn integer(mut value: usize) -> Vec<u8> {
    let byte = |value: usize| u8::try_from(value).expect("a byte");
    if value < 127 {
        return vec![byte(value)];
    }
    value -= 127;
    let mut bytes = vec![127];
    while value >= 128 {
        bytes.push(byte(value % 128) | 128);
        value /= 128;
    }
    bytes.push(byte(value));
    bytes
}

/// Builds the DATA frame of a whole gRPC message.
pub(crate) fn message(stream: u32, message: &[u8], flags: u8) -> Vec<u8> {
    frame(DATA, flags, stream, &grpc_message(message))
}

/// Puts the prefix of gRPC before a message: a flag and the length.
pub(crate) fn grpc_message(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("a short message");
    [&[0], &length.to_be_bytes()[..], message].concat()
}

/// Builds a `RST_STREAM` frame with this error code.
pub(crate) fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

/// Builds a `RST_STREAM` frame with the code CANCEL.
pub(crate) fn cancel(stream: u32) -> Vec<u8> {
    reset(stream, CANCEL)
}

pub(crate) fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}
