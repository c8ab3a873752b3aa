//! A list that comes from the service in pages: how many of its entries a command prints, and how.

use super::admin::Admin;
use crate::cli::CommandError;
use crate::cli::output::{OutputFormat, Row, can_write, note};

/// The maximum number of entries on a page of the service.
const PAGE: usize = 1_000;

/// The number of entries to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Items(usize),
    All,
}

pub(super) fn parse_limit(text: &str) -> Result<Limit, String> {
    match text {
        "all" => Ok(Limit::All),
        number => match number.parse() {
            Ok(items @ 1..) => Ok(Limit::Items(items)),
            _ => Err("must be a number from 1, or all".to_owned()),
        },
    }
}

/// A list, as the request of its next page.
pub(super) trait Listing: Sized {
    /// An entry of the list.
    type Entry;

    /// The name of the entries.
    const ENTRIES: &str;
    /// The text of a table without entries.
    const NONE: &str;

    /// Returns the row of an entry.
    fn row(entry: &Self::Entry) -> Row;

    /// Asks for up to `size` entries. Returns them, which can be fewer or none although more follow, and the token of the next page.
    /// Empty: there is none.
    async fn page(
        &self,
        admin: &Admin,
        size: i32,
    ) -> Result<(Vec<Self::Entry>, String), CommandError>;

    /// Makes this the request of the page with this token.
    fn set_token(&mut self, token: String);
}

/// Prints a list.
pub(super) async fn print<L: Listing>(
    admin: &Admin,
    list: L,
    output: OutputFormat,
    limit: Limit,
) -> Result<(), CommandError> {
    let pages = Pages {
        admin,
        next: Some(list),
    };
    match limit {
        Limit::Items(limit) => print_some(pages, output, limit).await,
        Limit::All => print_all(pages, output).await,
    }
}

async fn print_some<L: Listing>(
    mut pages: Pages<'_, L>,
    output: OutputFormat,
    limit: usize,
) -> Result<(), CommandError> {
    // One more than asked for shows that there are more.
    let asked = limit.saturating_add(1);
    let mut entries = Vec::new();
    while entries.len() < asked
        && let Some(page) = pages.next(asked - entries.len()).await?
    {
        entries.extend(page);
    }
    let has_more = entries.len() > limit;
    entries.truncate(limit);
    let rows: Vec<_> = entries.iter().map(L::row).collect();
    output.print(&rows, L::NONE);
    if has_more {
        let name = L::ENTRIES;
        note(&format!(
            "the list ends here, and there are more {name}: --limit N lists N, --limit all lists all"
        ));
    }
    Ok(())
}

/// Prints all entries, page by page, so that the command needs no memory for them. Ends when the output cannot be written any
/// more: no program reads it.
async fn print_all<L: Listing>(
    mut pages: Pages<'_, L>,
    output: OutputFormat,
) -> Result<(), CommandError> {
    let mut is_first = true;
    while let Some(entries) = pages.next(PAGE).await? {
        let rows: Vec<_> = entries.iter().map(L::row).collect();
        output.print_page(&rows, is_first);
        is_first &= rows.is_empty();
        if !can_write() {
            return Ok(());
        }
    }
    if is_first {
        output.print(&[], L::NONE);
    }
    Ok(())
}

/// The pages of a list.
struct Pages<'a, L> {
    admin: &'a Admin,
    /// The request of the next page. `None`: there is none.
    next: Option<L>,
}

impl<L: Listing> Pages<'_, L> {
    /// Returns up to `wanted` entries more. `None`: there are no more.
    async fn next(&mut self, wanted: usize) -> Result<Option<Vec<L::Entry>>, CommandError> {
        let Some(mut request) = self.next.take() else {
            return Ok(None);
        };
        let size = i32::try_from(wanted.min(PAGE)).unwrap_or(i32::MAX);
        let (entries, token) = request.page(self.admin, size).await?;
        if !token.is_empty() {
            request.set_token(token);
            self.next = Some(request);
        }
        Ok(Some(entries))
    }
}
