//! Deserializes durations that are written as text: "500ms", "15s", "1h 30m".

use std::time::Duration;

use serde::{Deserialize as _, Deserializer, de::Error as _};

pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(input)?;
    humantime::parse_duration(&text).map_err(|error| {
        D::Error::custom(format!(
            "{text:?} is not a duration such as \"500ms\" or \"1h 30m\": {error}"
        ))
    })
}
