//! Static tokens: random texts that the broker knows by their SHA-256 hash.
//!
//! A token has 256 random bits, so a plain hash is enough: a token cannot be found by trying. The file of tokens has one
//! line per token: `name:hash`, or `name:hash:time` for a token that ends at a time.

use std::time::SystemTime;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use data_encoding::HEXLOWER;
use rand::RngExt as _;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The start of each token. It tells tokens from other credentials, also to programs that search for leaked ones.
pub(super) const PREFIX: &str = "lb_";

/// Creates a token: `lb_` and 43 characters.
pub fn new_token() -> String {
    let random: [u8; 32] = rand::rng().random();
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random))
}

/// Returns the hash of a token as the file has it: 64 hexadecimal digits.
pub fn hash_of_token(token: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(token))
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The name of the token. Several tokens can have one name: while a token is replaced, both work.
    pub name: String,
    /// The time after which the token is refused. `None`: never.
    pub not_after: Option<SystemTime>,
    hash: [u8; 32],
}

impl Token {
    /// Returns whether this is the line of a token.
    pub fn is_of(&self, presented: &[u8]) -> bool {
        self.hash.ct_eq(&Sha256::digest(presented)).into()
    }
}

/// The tokens of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tokens(Vec<Token>);

impl Tokens {
    /// Parses a file. Empty lines and lines that start with `#` are ignored.
    ///
    /// # Errors
    /// The number of the first line that cannot be used, and the reason. The text does not contain the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().map(trim).enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let tokens = lines.map(|(index, line)| {
            let token = parse_line(line);
            token.map_err(|reason| format!("line {}: {reason}", index + 1))
        });
        tokens.collect::<Result<_, _>>().map(Self)
    }

    /// Returns the token that a caller presents.
    ///
    /// It is compared with all tokens, in a time that does not depend on any of them.
    pub fn find(&self, presented: &[u8]) -> Option<&Token> {
        let presented = Sha256::digest(presented);
        let mut found = None;
        for token in &self.0 {
            if bool::from(token.hash.ct_eq(&presented)) {
                found = Some(token);
            }
        }
        found
    }

    /// Removes the lines of tokens from the text of a file. Returns the text without them, and their number.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn remove(
        text: &str,
        is_removed: impl Fn(&Token) -> bool,
    ) -> Result<(String, usize), String> {
        Self::parse(text)?;
        let lines = || text.split_inclusive('\n');
        let stays = |line: &&str| !parse_line(trim(line)).is_ok_and(|token| is_removed(&token));
        let left: String = lines().filter(stays).collect();
        let removed = lines().count() - left.split_inclusive('\n').count();
        Ok((left, removed))
    }

    /// Returns all tokens.
    pub fn iter(&self) -> impl Iterator<Item = &Token> {
        self.0.iter()
    }
}

/// Removes the blanks around a line, and the byte order mark that some editors write at the start of a file.
fn trim(line: &str) -> &str {
    line.trim_start_matches('\u{feff}').trim()
}

fn parse_line(line: &str) -> Result<Token, &'static str> {
    let mut parts = line.splitn(3, ':');
    let (name, hash) = (parts.next().unwrap_or_default().trim_end(), parts.next());
    let hash = hash.ok_or("expected name:sha256 or name:sha256:time")?;
    if name.is_empty() {
        return Err("the name is empty");
    }
    let hash = HEXLOWER.decode(hash.to_ascii_lowercase().as_bytes());
    let hash = hash.ok().and_then(|hash| hash.try_into().ok());
    let not_after = parts
        .next()
        .map(|time| OffsetDateTime::parse(time, &Rfc3339));
    let not_after = not_after.transpose();
    Ok(Token {
        name: name.to_owned(),
        hash: hash.ok_or("the hash must have 64 hexadecimal digits; is this a token itself?")?,
        not_after: not_after
            .map_err(|_| "the time must be as 2027-01-31T00:00:00Z")?
            .map(SystemTime::from),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_tokens_are_found_by_their_hash() {
        let (token, other) = (new_token(), new_token());
        assert_eq!(token.len(), 46);
        assert_ne!(token, other);
        let text = format!(
            "# tokens\n\nloader:{}\n loader :{}:2027-01-31T00:00:00Z\n",
            hash_of_token(&token),
            hash_of_token(&other).to_uppercase()
        );
        let tokens = Tokens::parse(&text).expect("a file");
        let found = |token: &str| tokens.find(token.as_bytes());
        assert_eq!(found(&token).expect("known").not_after, None);
        assert!(found(&other).expect("known").not_after.is_some());
        assert_eq!(found(&other).expect("known").name, "loader");
        assert_eq!(found(&token[..45]), None);
        assert_eq!(found(""), None);
    }

    #[test]
    fn byte_order_mark_is_no_part_of_the_first_name() {
        let token = new_token();
        let text = format!("\u{feff}loader:{}\r\n", hash_of_token(&token));
        let tokens = Tokens::parse(&text).expect("a file");
        assert_eq!(tokens.find(token.as_bytes()).expect("known").name, "loader");
        let removed = Tokens::remove(&text, |line| line.name == "loader");
        assert_eq!(removed, Ok((String::new(), 1)));
    }

    #[test]
    fn removed_tokens_leave_the_other_lines_as_they_are() {
        let (token, other) = (new_token(), new_token());
        let line = |token: &str| format!("loader:{}\n", hash_of_token(token));
        let text = format!("# loader:\n\n{}  {}", line(&token), line(&other));
        let removed = Tokens::remove(&text, |line| line.is_of(token.as_bytes()));
        let left = format!("# loader:\n\n  {}", line(&other));
        assert_eq!(removed, Ok((left, 1)));
        let removed = Tokens::remove(&text, |line| line.name == "loader");
        assert_eq!(removed, Ok(("# loader:\n\n".to_owned(), 2)));
        assert!(Tokens::remove("loader:abc", |_| true).is_err());
    }

    #[test]
    fn bad_lines_are_refused_without_their_content() {
        let secret = new_token();
        for (line, reason) in [
            (format!("loader:{secret}"), "line 2: the hash must have 64"),
            (secret.clone(), "line 2: expected name:sha256"),
            (format!(":{}", "0".repeat(64)), "line 2: the name is empty"),
            (format!("a:{}:soon", "0".repeat(64)), "line 2: the time"),
        ] {
            let error = Tokens::parse(&format!("#\n{line}")).expect_err("refused");
            assert!(error.starts_with(reason), "{error}");
            assert!(!error.contains(&secret), "{error}");
        }
    }
}
