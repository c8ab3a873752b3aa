//! Texts limited in UTF-16 units, which SQL Server counts.

/// Returns the beginning of `text` that has at most `max_units` UTF-16 units. It ends between two characters.
pub(super) fn cut(text: &str, max_units: usize) -> &str {
    let mut units = 0;
    for (start, character) in text.char_indices() {
        units += character.len_utf16();
        if units > max_units {
            return &text[..start];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "abc");
        assert_eq!(cut("ab🦀", 4), "ab🦀");
        assert_eq!(cut("ab🦀", 3), "ab");
        assert_eq!(cut("🦀", 0), "");
    }

    #[test]
    fn error_text_keeps_whole_characters() {
        let text = "a".to_owned() + &"🦀".repeat(1_023);
        let cut = cut(&text, 1_024);
        assert_eq!(cut.encode_utf16().count(), 1_023);
        assert!(cut.ends_with('🦀'));
    }
}
