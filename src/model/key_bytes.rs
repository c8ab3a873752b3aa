//! The bytes of values: for each value a type and its content. Lease ids contain keys in this form, and the embedded store
//! remembers the keys of requests in it. Both outlive a broker, so the form does not change.

use integer_encoding::{VarInt, VarIntWriter as _};
use lease_broker_value::Value;

use crate::key::Key;

/// Appends the values of a key.
pub(super) fn write_key(out: &mut Vec<u8>, key: &Key) {
    for value in &key.0 {
        write_value(out, value);
    }
}

/// Reads the values of a key from all of `bytes`. Returns `None` if they are malformed.
pub(super) fn read_key(mut bytes: &[u8]) -> Option<Key> {
    let mut values = Vec::with_capacity(1);
    while !bytes.is_empty() {
        values.push(read_value(&mut bytes)?);
    }
    Some(Key(values.into()))
}

/// Returns the bytes of a list of keys. Each key is preceded by its length.
pub fn write_keys(keys: &[Key]) -> Vec<u8> {
    let mut out = Vec::new();
    for key in keys {
        let mut bytes = Vec::new();
        write_key(&mut bytes, key);
        write_varint(&mut out, bytes.len());
        out.append(&mut bytes);
    }
    out
}

/// Reads the keys that [`write_keys`] wrote. Returns `None` if the bytes are malformed.
pub fn read_keys(mut bytes: &[u8]) -> Option<Vec<Key>> {
    let mut keys = Vec::new();
    while !bytes.is_empty() {
        keys.push(read_key(read_sized(&mut bytes)?)?);
    }
    Some(keys)
}

/// Returns the number of bytes that [`write_key`] appends for a value, or a few more.
pub(super) fn max_value_bytes(value: &Value) -> usize {
    const TYPE: usize = 1;
    match value {
        Value::Text(text) | Value::Decimal(text) => TYPE + text.len().required_space() + text.len(),
        Value::Bytes(bytes) => TYPE + bytes.len().required_space() + bytes.len(),
        // The longest are a timestamp and an integer.
        _ => TYPE + 12,
    }
}

/// Appends a value.
pub fn write_value(out: &mut Vec<u8>, value: &Value) {
    let mut write_sized = |kind: u8, bytes: &[u8]| {
        out.push(kind);
        write_varint(out, bytes.len());
        out.extend_from_slice(bytes);
    };
    match value {
        Value::Null => out.push(0),
        Value::Bool(bool) => out.extend_from_slice(&[1, u8::from(*bool)]),
        Value::Int(int) => {
            out.push(2);
            write_varint(out, *int);
        }
        Value::Double(double) => {
            out.push(3);
            out.extend_from_slice(&double.to_be_bytes());
        }
        Value::Text(text) => write_sized(4, text.as_bytes()),
        Value::Bytes(bytes) => write_sized(5, bytes),
        Value::Timestamp { seconds, nanos } => {
            out.push(6);
            out.extend_from_slice(&seconds.to_be_bytes());
            out.extend_from_slice(&nanos.to_be_bytes());
        }
        Value::Decimal(digits) => write_sized(7, digits.as_bytes()),
    }
}

fn read_value(bytes: &mut &[u8]) -> Option<Value> {
    let [kind] = read::<1>(bytes)?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    Some(match kind {
        0 => Value::Null,
        1 => Value::Bool(read::<1>(bytes)? != [0]),
        2 => Value::Int(read_varint(bytes)?),
        3 => Value::Double(f64::from_be_bytes(read(bytes)?)),
        4 => Value::Text(text(read_sized(bytes)?)?),
        5 => Value::Bytes(read_sized(bytes)?.to_vec()),
        6 => Value::Timestamp {
            seconds: i64::from_be_bytes(read(bytes)?),
            nanos: i32::from_be_bytes(read(bytes)?),
        },
        7 => Value::Decimal(text(read_sized(bytes)?)?),
        _ => return None,
    })
}

/// Appends an integer in as few bytes as it needs (LEB128). Signed integers are written in zigzag form.
pub fn write_varint(out: &mut Vec<u8>, integer: impl VarInt) {
    // Writing to a vector cannot fail.
    let _ = out.write_varint(integer);
}

pub(super) fn read_varint<I: VarInt>(bytes: &mut &[u8]) -> Option<I> {
    let (integer, length) = I::decode_var(bytes)?;
    *bytes = bytes.get(length..)?;
    Some(integer)
}

pub(super) fn read<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = bytes.split_first_chunk::<N>()?;
    *bytes = tail;
    Some(*head)
}

fn read_sized<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = read_varint(bytes)?;
    let (head, tail) = bytes.split_at_checked(length)?;
    *bytes = tail;
    Some(head)
}
