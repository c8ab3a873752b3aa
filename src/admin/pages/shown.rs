//! What a viewer has last been shown of a live page, as hashes. So an event needs only the rows that have changed: the page of hundreds of
//! queues has half a megabyte, and a browser that drew it again each second would do nothing else.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};

const ROW: &str = "<tr ";
const ROW_END: &str = "</tr>";

/// The hashes of a drawn page.
#[derive(Default)]
pub(super) struct Shown {
    /// Its keys are random, so that nobody can write two rows with one hash.
    hashes: RandomState,
    /// All that is outside of the rows, with the ids of the rows in their order. `None`: nothing has been shown.
    rest: Option<u64>,
    rows: Vec<u64>,
}

impl Shown {
    /// Notes a drawn page as the last one. Returns the rows that have changed since the one before it, if nothing else has.
    pub(super) fn changed_rows(&mut self, html: &str) -> Option<String> {
        let (mut rest, mut rows) = (self.hashes.build_hasher(), Vec::new());
        let mut changed = String::new();
        for part in parts(html) {
            let Some(id) = id(part) else {
                part.hash(&mut rest);
                continue;
            };
            id.hash(&mut rest);
            let hash = self.hashes.hash_one(part);
            if self.rows.get(rows.len()) != Some(&hash) {
                changed.push_str(part);
            }
            rows.push(hash);
        }
        let rest = Some(rest.finish());
        let is_equal = self.rest == rest;
        (self.rest, self.rows) = (rest, rows);
        is_equal.then_some(changed)
    }
}

/// Divides a drawn page into its elements `tr` with attributes, and the texts between them. The rows of a table's head have no attribute.
fn parts(html: &str) -> impl Iterator<Item = &str> {
    let mut left = html;
    std::iter::from_fn(move || {
        let begin = left.find(ROW).unwrap_or(left.len());
        let end = match left.find(ROW_END) {
            Some(end) if begin == 0 => end + ROW_END.len(),
            _ if begin == 0 => left.len(),
            _ => begin,
        };
        let part;
        (part, left) = left.split_at(end);
        (!part.is_empty()).then_some(part)
    })
}

/// Returns the id of a row. `None`: the part is no row, or has no id.
fn id(part: &str) -> Option<&str> {
    let start = part.strip_prefix(ROW)?.split_once('>')?.0;
    let (id, _) = start.split_once("id=\"")?.1.split_once('"')?;
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(title: &str, rows: &[(&str, u32)]) -> String {
        let rows = rows
            .iter()
            .map(|(id, count)| format!("<tr class=\"\" id=\"{id}\"><td>{count}</td></tr>"));
        let rows: String = rows.collect();
        format!(
            "<h1>{title}</h1><table><thead><tr><th>Queue</th></tr></thead><tbody>{rows}</tbody></table>"
        )
    }

    #[test]
    fn rows_that_have_changed_are_returned() {
        let mut shown = Shown::default();
        assert_eq!(
            shown.changed_rows(&page("2 queues", &[("a", 1), ("b", 2)])),
            None
        );
        assert_eq!(
            shown
                .changed_rows(&page("2 queues", &[("a", 1), ("b", 2)]))
                .as_deref(),
            Some("")
        );
        let changed = shown.changed_rows(&page("2 queues", &[("a", 1), ("b", 3)]));
        assert_eq!(
            changed.as_deref(),
            Some("<tr class=\"\" id=\"b\"><td>3</td></tr>")
        );
    }

    #[test]
    fn other_changes_need_the_whole_page() {
        for (title, rows) in [
            ("3 queues", &[("a", 1), ("b", 2)][..]),
            ("2 queues", &[("b", 1), ("a", 2)]),
            ("2 queues", &[("a", 1)]),
            ("2 queues", &[("a", 1), ("b", 2), ("c", 3)]),
            ("2 queues", &[]),
        ] {
            let mut shown = Shown::default();
            shown.changed_rows(&page("2 queues", &[("a", 1), ("b", 2)]));
            assert_eq!(
                shown.changed_rows(&page(title, rows)),
                None,
                "{title} {rows:?}"
            );
        }
        let mut shown = Shown::default();
        assert_eq!(shown.changed_rows(""), None, "the first page");
    }
}
