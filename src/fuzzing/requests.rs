//! Requests: their frames, their messages, and the headers that every call can have.

use crate::security::Rpc;

/// Checks a request of the method that the first byte selects, and one of the same message with a correct length. A request
/// that the check accepts can be decoded. The decoded message takes no more memory than the check says. `peak`: runs a function,
/// and returns the largest number of bytes that it had allocated at a time.
pub fn requests(data: &[u8], peak: impl Fn(&mut dyn FnMut()) -> usize) {
    let Some((method, message)) = data.split_first() else {
        return;
    };
    let rpc = rpc(*method);
    crate::grpc::fuzzing::request(rpc, message, &peak);
    if let Ok(length) = u32::try_from(message.len()) {
        let whole = [&[0], &length.to_be_bytes()[..], message].concat();
        crate::grpc::fuzzing::request(rpc, &whole, &peak);
    }
}

/// Checks a request of the method that the first byte selects, in parts of the length that the second byte says. The parts do
/// not change the result.
pub fn split_requests(data: &[u8]) {
    if let [method, part, request @ ..] = data {
        crate::grpc::fuzzing::split_request(rpc(*method), request, usize::from(*part) + 1);
    }
}

/// Counts the messages of a stream, in parts of the length that the first byte says. The parts do not change the result.
pub fn message_counter(data: &[u8]) {
    if let [part, most, stream @ ..] = data {
        crate::grpc::fuzzing::message_counter(stream, usize::from(*part) + 1, u32::from(*most));
    }
}

/// Reads the header `grpc-timeout`.
pub fn grpc_timeout(data: &[u8]) {
    if let Ok(text) = str::from_utf8(data) {
        crate::grpc::fuzzing::timeout(text);
    }
}

fn rpc(byte: u8) -> Rpc {
    Rpc::ALL[usize::from(byte) % Rpc::ALL.len()]
}
