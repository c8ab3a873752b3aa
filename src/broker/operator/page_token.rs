//! The token of the next page of a list. It holds the end of the page before, and a hash of the list that it belongs to.

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::broker::error::Error;

/// The number of bytes of the hash. It finds mistakes. A forged token shows nothing that its caller could not list.
const HASH_BYTES: usize = 8;

#[derive(Serialize, Deserialize)]
struct Token {
    hash: [u8; HASH_BYTES],
    end: String,
}

/// Returns the token of the page that follows `end`. `list`: everything that decides which list it is.
pub(super) fn write(list: &str, end: String) -> String {
    let token = Token {
        hash: hash(list),
        end,
    };
    BASE64URL_NOPAD.encode(&serde_json::to_vec(&token).unwrap_or_default())
}

/// Returns the end of the page before. `None`: the text is empty, which asks for the first page.
///
/// # Errors
/// [`Error::InvalidField`] if the token is not one of this list.
pub(super) fn read(list: &str, text: &str) -> Result<Option<String>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    let invalid = |problem| Error::invalid("page_token", problem);
    let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok();
    let token: Option<Token> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let token = token.ok_or_else(|| invalid("is no next_page_token of this service"))?;
    if token.hash != hash(list) {
        return Err(invalid(
            "belongs to a list with other fields; send the fields of the first page again",
        ));
    }
    Ok(Some(token.end))
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
        let token = write("a", "end".to_owned());
        assert_eq!(read("a", &token), Ok(Some("end".to_owned())));
        assert_eq!(read("a", ""), Ok(None));
        for (list, text) in [("b", token.as_str()), ("a", "!"), ("a", "AAAA")] {
            let refused = read(list, text).expect_err(text);
            assert!(matches!(refused, Error::InvalidField { field, .. } if field == "page_token"));
        }
    }
}
