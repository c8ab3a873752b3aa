//! Arguments whose values are the words of an enum of the API.

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::grpc::Words;

/// Returns the parser of an argument whose value is a word.
pub(super) fn word<T: Words>() -> impl TypedValueParser<Value = T> {
    let words = T::WORDS.iter().map(|(_, word)| *word);
    PossibleValuesParser::new(words).try_map(|word| T::of_word(&word).ok_or("is not known"))
}
