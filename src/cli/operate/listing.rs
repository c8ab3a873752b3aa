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

    /// Asks for up to `size` entries. Returns them, which can be fewer or none although more follow, and the request of the next page.
    /// `None`: there is none.
    async fn page(
        self,
        admin: &Admin,
        size: i32,
    ) -> Result<(Vec<Self::Entry>, Option<Self>), CommandError>;
}

/// Makes the request of an rpc a [`Listing`]. `$entries`: the field of the response with the entries. `$none`: the text of a table
/// without entries. `$row`: the function that returns the row of an entry.
macro_rules! listing {
    ($request:ident of $rpc:ident: $entries:ident, $entry:ident, $none:literal, $row:ident) => {
        impl $crate::cli::operate::listing::Listing for proto::$request {
            type Entry = proto::$entry;

            const ENTRIES: &str = stringify!($entries);
            const NONE: &str = $none;

            fn row(entry: &Self::Entry) -> $crate::cli::output::Row {
                $row(entry)
            }

            async fn page(
                mut self,
                admin: &$crate::cli::operate::admin::Admin,
                size: i32,
            ) -> Result<(Vec<Self::Entry>, Option<Self>), $crate::cli::CommandError> {
                self.page_size = size;
                let page = admin.$rpc(self.clone()).await?;
                self.page_token = page.next_page_token;
                let has_next = !self.page_token.is_empty();
                Ok((page.$entries, has_next.then_some(self)))
            }
        }
    };
}
pub(super) use listing;

/// Prints a list.
pub(super) async fn print<L: Listing>(
    admin: &Admin,
    list: L,
    output: OutputFormat,
    limit: Limit,
) -> Result<(), CommandError> {
    match limit {
        Limit::Items(_) => print_some(admin, list, output, limit).await,
        Limit::All => print_all(admin, list, output).await,
    }
}

/// Returns the entries of a list up to the limit, and whether there are more.
pub(super) async fn find<L: Listing>(
    admin: &Admin,
    list: L,
    limit: Limit,
) -> Result<(Vec<L::Entry>, bool), CommandError> {
    let limit = match limit {
        Limit::Items(limit) => limit,
        Limit::All => usize::MAX,
    };
    // One more than asked for shows that there are more.
    let asked = limit.saturating_add(1);
    let mut next = Some(list);
    let mut entries = Vec::new();
    while entries.len() < asked
        && let Some(list) = next
    {
        let page;
        (page, next) = list.page(admin, page_size(asked - entries.len())).await?;
        entries.extend(page);
    }
    let has_more = entries.len() > limit;
    entries.truncate(limit);
    Ok((entries, has_more))
}

async fn print_some<L: Listing>(
    admin: &Admin,
    list: L,
    output: OutputFormat,
    limit: Limit,
) -> Result<(), CommandError> {
    let (entries, has_more) = find(admin, list, limit).await?;
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
    admin: &Admin,
    list: L,
    output: OutputFormat,
) -> Result<(), CommandError> {
    let mut is_first = true;
    let mut next = Some(list);
    while let Some(list) = next {
        let entries;
        (entries, next) = list.page(admin, page_size(PAGE)).await?;
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

fn page_size(wanted: usize) -> i32 {
    i32::try_from(wanted.min(PAGE)).unwrap_or(i32::MAX)
}
