//! Checks the shape of an encoded message before it is decoded.
//!
//! Two bytes of a message can become a structure of several hundred bytes. The check walks once over the encoded message
//! and allocates nothing. It counts list entries and map entries, refuses names that are too long, and adds up the memory
//! of the decoded message. A message that it accepts can be decoded.

mod messages;

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use tonic::Status;

pub(in crate::grpc) use self::messages::decodes;
pub(super) use self::messages::message_of;
use self::messages::{Kind, Schema};
use crate::broker::Error;
use crate::grpc::status;

/// The largest number of entries of each list of a message.
const MAX_LIST_ENTRIES: u32 = 1_000;
/// The largest number of entries of a map, and of all maps of a message.
const MAX_MAP_ENTRIES: u32 = 1_024;
const MAX_ALL_MAP_ENTRIES: u32 = 65_536;
/// The largest number of fields of a message that the API does not have, and of those that repeat one that is not a list.
const MAX_UNKNOWN_FIELDS: u32 = 1_024;
const MAX_REPEATED_FIELDS: u32 = 1_024;
/// The longest name of a queue, a worker, a column or a request, in bytes.
const MAX_NAME_BYTES: usize = 512;

/// Checks an encoded message. Returns an upper bound of the memory that the decoded message takes, in bytes.
///
/// # Errors
/// The status for the caller: the message cannot be decoded, or has too many or too long parts.
pub(super) fn check(schema: &Schema, message: &[u8]) -> Result<usize, Status> {
    let mut totals = Totals::default();
    totals
        .walk(schema, message, false)
        .map_err(|problem| match problem {
            Problem::Malformed(text) => status::malformed(format!(
                "the request cannot be decoded as a message of the API: {text}"
            )),
            Problem::Limit { field, text, max } => Error::LimitExceeded {
                field: field.to_owned(),
                problem: text,
                value: None,
                max: max.to_string(),
            }
            .into(),
        })?;
    Ok(totals.decoded_bytes)
}

/// The numbers of parts of a message, and the memory that they take when they are decoded.
#[derive(Default)]
struct Totals {
    decoded_bytes: usize,
    map_entries: u32,
    unknown_fields: u32,
    repeated_fields: u32,
    /// The number of entries of each list, by its index.
    list_entries: [u32; messages::LISTS],
}

enum Problem {
    Malformed(&'static str),
    Limit {
        field: &'static str,
        text: String,
        max: usize,
    },
}

impl Problem {
    /// Names the field of a map instead of a part of its entry.
    fn in_field(self, field: &'static str) -> Self {
        match self {
            Self::Limit { text, max, .. } => Self::Limit { field, text, max },
            Self::Malformed(text) => Self::Malformed(text),
        }
    }
}

const TRUNCATED: Problem =
    Problem::Malformed("a field is longer than the message that contains it");
const WRONG_TYPE: Problem = Problem::Malformed("a field has the wrong type");

impl Totals {
    /// Walks over a message. `continues`: it continues an earlier one, whose field appeared before.
    fn walk(
        &mut self,
        schema: &Schema,
        mut message: &[u8],
        continues: bool,
    ) -> Result<(), Problem> {
        let mut map_entries = 0;
        // The fields that have appeared, one bit for each number. The API has no higher numbers.
        let mut seen = 0_u64;
        while !message.is_empty() {
            let (number, wire_type) = decode_key(&mut message)
                .map_err(|_| Problem::Malformed("a field has an invalid number or type"))?;
            let Some(field) = schema.field(number) else {
                self.skip_unknown(number, wire_type, &mut message)?;
                continue;
            };
            if wire_type != field.kind.wire_type() {
                return Err(WRONG_TYPE);
            }
            let bit = 1_u64.checked_shl(number).unwrap_or(0);
            let is_repeated = seen & bit != 0;
            if is_repeated && !field.kind.is_list() {
                self.count_repeated()?;
            }
            let continues = continues || is_repeated;
            seen |= bit;
            match field.kind {
                Kind::Number => {
                    decode_varint(&mut message)
                        .map_err(|_| Problem::Malformed("a number is invalid"))?;
                }
                Kind::Double => {
                    message = message.get(8..).ok_or(TRUNCATED)?;
                }
                Kind::Name => {
                    let name = take_name(&mut message, field.name)?;
                    self.decoded_bytes += text_bytes(name.len(), continues);
                }
                Kind::Text => {
                    self.decoded_bytes += text_bytes(take_text(&mut message)?.len(), continues);
                }
                Kind::Bytes => {
                    self.decoded_bytes += text_bytes(take(&mut message)?.len(), continues);
                }
                Kind::Message(inner) => {
                    let part = take(&mut message)?;
                    self.decoded_bytes += inner.decoded_bytes;
                    self.walk(inner, part, continues)?;
                }
                Kind::Names(list) | Kind::Texts(list) => {
                    self.count_entry(list, field.name)?;
                    let text = match field.kind {
                        Kind::Names(_) => take_name(&mut message, field.name)?,
                        _ => take_text(&mut message)?,
                    };
                    self.decoded_bytes += 4 * size_of::<String>() + text_bytes(text.len(), false);
                }
                Kind::List(list, inner) => {
                    self.count_entry(list, field.name)?;
                    let part = take(&mut message)?;
                    // A vector has room for four entries at first, and grows by doubling.
                    self.decoded_bytes += 4 * inner.decoded_bytes;
                    self.walk(inner, part, false)?;
                }
                Kind::Map(inner) => {
                    map_entries += 1;
                    self.map_entries += 1;
                    check_map(field.name, map_entries, self.map_entries)?;
                    let part = take(&mut message)?;
                    self.decoded_bytes += map_bytes(inner.decoded_bytes, map_entries == 1);
                    self.walk(inner, part, false)
                        .map_err(|problem| problem.in_field(field.name))?;
                }
            }
        }
        Ok(())
    }

    fn count_entry(&mut self, list: usize, field: &'static str) -> Result<(), Problem> {
        let count = &mut self.list_entries[list];
        *count += 1;
        if *count > MAX_LIST_ENTRIES {
            return Err(Problem::Limit {
                field,
                text: format!("more than the limit of {MAX_LIST_ENTRIES} items per call"),
                max: MAX_LIST_ENTRIES as usize,
            });
        }
        Ok(())
    }

    /// Counts a field that the message has had before. A client of the API sends each once.
    fn count_repeated(&mut self) -> Result<(), Problem> {
        self.repeated_fields += 1;
        if self.repeated_fields > MAX_REPEATED_FIELDS {
            return Err(Problem::Malformed("too many repetitions of a field"));
        }
        Ok(())
    }

    fn skip_unknown(
        &mut self,
        number: u32,
        wire_type: WireType,
        message: &mut &[u8],
    ) -> Result<(), Problem> {
        self.unknown_fields += 1;
        if self.unknown_fields > MAX_UNKNOWN_FIELDS {
            return Err(Problem::Malformed("too many unknown fields"));
        }
        match wire_type {
            WireType::StartGroup | WireType::EndGroup => {
                Err(Problem::Malformed("groups are not supported"))
            }
            WireType::LengthDelimited => take(message).map(|_| ()),
            _ => skip_field(wire_type, number, message, DecodeContext::default())
                .map_err(|_| TRUNCATED),
        }
    }
}

/// Checks the number of entries of the map `field`, and of all maps.
fn check_map(field: &'static str, entries: u32, all_entries: u32) -> Result<(), Problem> {
    let (max, of) = if entries > MAX_MAP_ENTRIES {
        (MAX_MAP_ENTRIES, "columns")
    } else if all_entries > MAX_ALL_MAP_ENTRIES {
        (
            MAX_ALL_MAP_ENTRIES,
            "columns of all items; send fewer items per call",
        )
    } else {
        return Ok(());
    };
    Err(Problem::Limit {
        field,
        text: format!("more than {max} {of}"),
        max: max as usize,
    })
}

/// Returns the bytes that a text of this length takes at most. `continues`: it replaces an earlier one, whose memory grows by
/// doubling.
fn text_bytes(length: usize, continues: bool) -> usize {
    const SMALLEST: usize = 8;
    let bytes = length.max(SMALLEST);
    if continues { 2 * bytes } else { bytes }
}

/// Returns the bytes that an entry adds to a map at most.
fn map_bytes(entry: usize, is_first: bool) -> usize {
    // A B-tree has nodes with room for 11 entries. The first is allocated for one entry. Later ones have at least 5, and one in
    // six leads to others, by 12 pointers.
    const ROOM: usize = 11;
    const NODE: usize = 16;
    const POINTERS: usize = 12 * size_of::<usize>();
    if is_first {
        ROOM * entry + NODE + POINTERS
    } else {
        3 * entry + 8
    }
}

/// Takes the content of a field with a length.
fn take<'a>(message: &mut &'a [u8]) -> Result<&'a [u8], Problem> {
    let length = decode_varint(message).map_err(|_| TRUNCATED)?;
    let length = usize::try_from(length).map_err(|_| TRUNCATED)?;
    let (content, rest) = message.split_at_checked(length).ok_or(TRUNCATED)?;
    *message = rest;
    Ok(content)
}

/// Takes the name in the field `field`.
fn take_name<'a>(message: &mut &'a [u8], field: &'static str) -> Result<&'a str, Problem> {
    let name = take_text(message)?;
    let length = name.len();
    if length > MAX_NAME_BYTES {
        return Err(Problem::Limit {
            field,
            text: format!("{length} bytes exceed the limit of {MAX_NAME_BYTES} bytes"),
            max: MAX_NAME_BYTES,
        });
    }
    Ok(name)
}

fn take_text<'a>(message: &mut &'a [u8]) -> Result<&'a str, Problem> {
    str::from_utf8(take(message)?).map_err(|_| Problem::Malformed("a text is not UTF-8"))
}

#[cfg(test)]
mod tests;
