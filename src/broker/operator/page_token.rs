//! The token of the next page of a list. It holds the end of the page before, and a hash of the list that it belongs to.

use data_encoding::BASE64URL_NOPAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::broker::error::Error;

/// The number of bytes of the hash. It finds mistakes. A forged token shows nothing that its caller could not list.
const HASH_BYTES: usize = 8;

#[derive(Serialize, Deserialize)]
struct Token {
    hash: [u8; HASH_BYTES],
    /// As JSON.
    end: String,
}

/// Returns the token of the page that follows `end`. `list`: everything that decides which list it is.
pub(super) fn write(list: &str, end: &impl Serialize) -> String {
    let token = Token {
        hash: hash(list),
        end: serde_json::to_string(end).unwrap_or_default(),
    };
    BASE64URL_NOPAD.encode(&serde_json::to_vec(&token).unwrap_or_default())
}

/// Returns the end of the page before, as `check` accepts it. `None`: the text is empty, which asks for the first page.
///
/// # Errors
/// [`Error::InvalidField`] if the token is not one of this list.
pub(super) fn read<T: DeserializeOwned, U>(
    list: &str,
    text: &str,
    check: impl FnOnce(T) -> Option<U>,
) -> Result<Option<U>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    let invalid = |problem| Error::invalid("page_token", problem);
    let foreign = || invalid("is no next_page_token of this service");
    let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok();
    let token: Option<Token> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let token = token.ok_or_else(foreign)?;
    if token.hash != hash(list) {
        return Err(invalid(
            "belongs to a list with other fields; send the fields of the first page again",
        ));
    }
    let end = serde_json::from_str(&token.end).ok().and_then(check);
    end.map(Some).ok_or_else(foreign)
}

fn hash(list: &str) -> [u8; HASH_BYTES] {
    let digest = Sha256::digest(list.as_bytes());
    std::array::from_fn(|index| digest[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_belongs_to_its_list() {
        let token = write("a", &7);
        let read = |list, text| read(list, text, |end: u8| (end != 8).then_some(end));
        assert_eq!(read("a", &token), Ok(Some(7)));
        assert_eq!(read("a", ""), Ok(None));
        let refused = [write("a", &8), write("a", &"7")];
        for (list, text) in [("b", &*token), ("a", "!"), ("a", "AAAA")]
            .into_iter()
            .chain(refused.iter().map(|token| ("a", &**token)))
        {
            let refused = read(list, text).expect_err(text);
            assert!(matches!(refused, Error::InvalidField { field, .. } if field == "page_token"));
        }
    }
}
