//! Entry points for fuzzing. Each takes any bytes, and panics if a property of the code does not hold.
//!
//! The targets of `fuzz/` call them under cargo-fuzz. The tests of this module call them with the files of `fuzz/corpus` and
//! with random changes of these files, on a stable compiler.

use std::io::Cursor;
use std::sync::LazyLock;
use std::time::Duration;

use lease_broker_model::key::Key;
use lease_broker_model::lease_id::{
    self, LeaseId, LeaseOrigin, LeaseOwner, LeaseRef, Secret, SigningSecrets,
};
use lease_broker_model::trace_context::TraceContext;
use lease_broker_proto as proto;
use lease_broker_value::Value;
use prost::Message as _;
use uuid::Uuid;

use crate::cli::item_file::{self, Items};
use crate::config::Sources;
use crate::security;

mod requests;

pub use self::requests::{grpc_timeout, message_counter, requests, split_requests};

static SECRETS: LazyLock<SigningSecrets> =
    LazyLock::new(|| SigningSecrets::only(Secret::new([7; 16])));
const QUEUE: &str = "queue";
/// The largest number of items that are read from one file.
const MAX_ITEMS: usize = 10_000;

/// Decodes a text as a lease id. An id that is accepted is encoded to the same text. The bytes are also the key of a lease,
/// whose id is decoded to the same lease.
pub fn lease_ids(data: &[u8]) {
    let owner = LeaseOwner::default();
    if let Ok(text) = str::from_utf8(data)
        && let Ok(LeaseId { lease, origin }) = lease_id::decode(&SECRETS, QUEUE, &owner, text)
    {
        let encoded = lease_id::encode(&SECRETS, QUEUE, &owner, &lease, &origin);
        assert_eq!(encoded.as_deref(), Some(text), "{lease:?}");
    }
    let (number, rest) = data.split_at(data.len().min(8));
    let number = number.iter().rev().zip([0, 8, 16, 24, 32, 40, 48, 56]);
    let number = number.fold(0, |sum, (byte, shift)| sum | (i64::from(*byte) << shift));
    let lease = LeaseRef {
        key: Key([Value::Int(number), Value::Bytes(rest.to_vec())].into()),
        token: Uuid::from_u128(1),
        fence: number,
        attempt: 1,
    };
    let origin = LeaseOrigin::new(number, Duration::from_secs(60), None);
    if let Some(id) = lease_id::encode(&SECRETS, QUEUE, &owner, &lease, &origin) {
        let decoded = lease_id::decode(&SECRETS, QUEUE, &owner, &id);
        assert_eq!(decoded, Ok(LeaseId { lease, origin }));
        assert!(lease_id::decode(&SECRETS, "other", &owner, &id).is_err());
    }
}

/// Reads a text as the configuration file. An error says what to do.
pub fn configuration(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    if let Err(error) = Sources::default().load_text(text) {
        assert!(!error.to_string().is_empty());
    }
}

/// Decodes a value of the API, and converts it for each kind of column of both stores.
pub fn values(data: &[u8]) {
    let Ok(message) = proto::ColumnValue::decode(data) else {
        return;
    };
    let Ok(value) = Value::try_from(message) else {
        return;
    };
    let again = Value::try_from(proto::ColumnValue::from(value.clone()));
    // NaN differs from itself.
    assert_eq!(format!("{again:?}"), format!("{:?}", Ok::<_, ()>(&value)));
    lease_broker_store::fuzzing::value(&value);
    assert!(!format!("{:?}", Key([value].into()).to_string()).is_empty());
}

/// Reads a file of JSON lines. The service accepts the values of each item.
pub fn json_import(data: &[u8]) {
    accept(item_file::jsonl(Cursor::new(data.to_vec()), "file"));
}

/// Reads a CSV file. The service accepts the values of each item.
pub fn csv_import(data: &[u8]) {
    if let Ok(items) = item_file::csv(Cursor::new(data.to_vec()), "file") {
        accept(items);
    }
}

fn accept(items: Items) {
    for item in items.take(MAX_ITEMS) {
        match item {
            Ok((_, item)) => crate::grpc::fuzzing::accepted_item(item),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// Parses a set of the keys of an issuer.
pub fn jwks(data: &[u8]) {
    if let Ok(text) = str::from_utf8(data) {
        security::fuzzing::key_set(text);
    }
}

/// Checks a JSON Web Token.
pub fn jwt(data: &[u8]) {
    security::fuzzing::token(data);
}

/// Parses a file of tokens.
pub fn tokens_file(data: &[u8]) {
    if let Ok(text) = str::from_utf8(data) {
        security::fuzzing::tokens_file(text);
    }
}

/// Reads a pattern for SPIFFE ids and a SPIFFE id, and a certificate.
pub fn spiffe_names(data: &[u8]) {
    security::fuzzing::spiffe_names(data);
}

/// Reads the header `traceparent`. A context that is accepted is written in a form that means the same.
pub fn traceparent(data: &[u8]) {
    if let Ok(text) = str::from_utf8(data)
        && let Some(context) = TraceContext::parse(text)
    {
        assert_eq!(TraceContext::parse(&context.to_string()), Some(context));
    }
}

/// Parses a connection string of SQL Server. An error does not show the password.
pub fn connection_string(data: &[u8]) {
    if let Ok(text) = str::from_utf8(data) {
        lease_broker_store::fuzzing::connection_string(text);
    }
}

#[cfg(test)]
mod tests;
