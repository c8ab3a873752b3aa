//! Cuts the cells of a table, so that its lines are not longer than those of the terminal.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The number of spaces between two columns.
const GAP: usize = 2;
/// The width to which a column is cut at most.
const MIN_WIDTH: usize = 6;

/// Returns the width of each column in a table that is `max` wide. The widest columns are cut first, and none below [`MIN_WIDTH`], so a
/// table of many columns can be wider.
pub(super) fn column_widths(lines: &[Vec<&str>], max: usize) -> Vec<usize> {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let widths = lines.iter().map(|line| line[column].width());
        widths.max().unwrap_or(0).min(max)
    };
    let mut widths: Vec<usize> = (0..columns).map(width).collect();
    let room = max.saturating_sub(GAP * columns.saturating_sub(1));
    while widths.iter().sum::<usize>() > room {
        match widths.iter_mut().max() {
            Some(widest) if *widest > MIN_WIDTH => *widest -= 1,
            _ => break,
        }
    }
    widths
}

/// Returns a text that is at most `max` wide.
pub(super) fn cut(text: &str, max: usize) -> Cow<'_, str> {
    if text.width() <= max {
        return Cow::Borrowed(text);
    }
    let mut width = 0;
    let kept = text.chars().take_while(|character| {
        width += character.width().unwrap_or(0);
        width < max
    });
    let mut kept: String = kept.collect();
    kept.push('…');
    Cow::Owned(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widest_columns_are_cut_first() {
        let cells = ["key".to_owned(), "x".repeat(50), "worker-1".to_owned()];
        let lines = vec![cells.iter().map(String::as_str).collect()];
        assert_eq!(column_widths(&lines, 80), [3, 50, 8]);
        assert_eq!(column_widths(&lines, 40), [3, 25, 8]);
        assert_eq!(column_widths(&lines, 1), [1, 1, 1]);
    }

    #[test]
    fn cut_text_fits_its_width() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("longer", 5), "long…");
        // Characters of this script are two columns wide.
        assert_eq!(cut("漢字漢字", 5), "漢字…");
        assert_eq!(cut("漢字漢字", 4), "漢…");
    }
}
