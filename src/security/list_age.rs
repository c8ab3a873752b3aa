//! The parts of a revocation list that tell which of two lists is the newer one: the key that has signed it, and its time.
//!
//! webpki reads these parts too, but shows neither. It must have read the list before, so its form is known to be right.

/// The tags of DER.
const GENERALIZED_TIME: u8 = 0x18;
const EXTENSIONS: u8 = 0xa0;
/// The identifier of the extension "authority key identifier", 2.5.29.35.
const KEY_IDENTIFIER: [u8; 3] = [0x55, 0x1d, 0x23];

/// The key and the time of a list.
pub(super) struct ListAge<'a> {
    /// The extension that names the key.
    pub(super) key: &'a [u8],
    /// The field `thisUpdate`, in digits that begin with the four of the year. A later one is greater.
    pub(super) time: String,
}

impl<'a> ListAge<'a> {
    /// Reads the parts of a list. `None`: the list does not name its key.
    pub(super) fn of(list: &'a [u8]) -> Option<Self> {
        let (_, signed, _) = element(list)?;
        let (_, fields, _) = element(signed)?;
        // Version, algorithm and issuer.
        let [_, _, _, (tag, time)] = next_elements(fields)?;
        let extensions = elements(fields).find(|(tag, _)| *tag == EXTENSIONS)?.1;
        let (_, extensions, _) = element(extensions)?;
        let key = elements(extensions).find_map(|(_, extension)| {
            let mut parts = elements(extension);
            let (_, identifier) = parts.next()?;
            (identifier == KEY_IDENTIFIER).then(|| parts.last())?
        })?;
        Some(Self {
            key: key.1,
            time: digits(tag, time)?,
        })
    }
}

/// Returns a time with four digits of the year. A time with two is from 1950 to 2049 (RFC 5280, section 4.1.2.5.1).
fn digits(tag: u8, time: &[u8]) -> Option<String> {
    let time = std::str::from_utf8(time).ok()?;
    let century = match time.get(..2)? {
        _ if tag == GENERALIZED_TIME => "",
        year if year < "50" => "20",
        _ => "19",
    };
    Some(format!("{century}{time}"))
}

fn next_elements<const N: usize>(bytes: &[u8]) -> Option<[(u8, &[u8]); N]> {
    let elements: Vec<_> = elements(bytes).take(N).collect();
    elements.try_into().ok()
}

/// Returns the elements of DER, each with its tag and its content.
fn elements(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (tag, content, rest) = element(bytes)?;
        bytes = rest;
        Some((tag, content))
    })
}

/// Splits the first element of DER into its tag, its content, and the bytes behind it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        // The low bits are the number of the bytes of the length.
        let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        let add = |length: usize, byte: &u8| Some(length.checked_mul(0x100)? + usize::from(*byte));
        (length.iter().try_fold(0, add)?, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}
