//! A JSON object whose names are unique.
//!
//! RFC 7515 and RFC 7519 demand this of the header and the claims of a token. A parser that takes the first of two equal names,
//! behind one that takes the last, would let a token mean two things. In an item, one of the two values would be lost.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

/// The members of the object.
#[derive(Debug, PartialEq)]
pub(crate) struct UniqueObject(pub(crate) Map<String, Value>);

impl<'de> Deserialize<'de> for UniqueObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = UniqueObject;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<UniqueObject, A::Error> {
        let mut members = Map::new();
        while let Some((name, value)) = access.next_entry::<String, Value>()? {
            if members.contains_key(&name) {
                return Err(A::Error::custom(format!("the name {name:?} appears twice")));
            }
            members.insert(name, value);
        }
        Ok(UniqueObject(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_with_a_name_twice_is_refused() {
        let parse = |text| serde_json::from_str::<UniqueObject>(text);
        assert_eq!(
            parse(r#"{"a":1,"b":{"a":2}}"#).expect("an object").0.len(),
            2
        );
        for text in [r#"{"a":1,"a":1}"#, r#"{"a":1,"\u0061":2}"#, "[]", "1", ""] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
