//! The search for items by state and filter, page by page, and its results.

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_value::Value;

use crate::stats::ListedItem;

/// Conditions on items of one state. An item has to meet all that are set. Times are by the store's clock, in milliseconds since
/// 1970-01-01T00:00:00Z.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemFilter {
    /// The worker that holds the item, or that settled it last.
    pub owner: Option<String>,
    /// A part of the text of the last error. No character of it has a special meaning.
    pub error_contains: Option<String>,
    /// The item entered its state at this time or later.
    pub state_since: Option<i64>,
    /// The item entered its state before this time. An item whose time is unknown meets neither of the two.
    pub state_before: Option<i64>,
    /// The item has used this number of attempts or more.
    pub min_attempt: Option<i64>,
    /// The values of columns, by name: columns that
    /// [`filterable`](lease_broker_model::queue::QueueSpec::filterable) names. NULL fits NULL.
    pub columns: Vec<(String, Value)>,
}

/// A request for a page of items.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemSearch {
    /// The state of the items.
    pub state: State,
    /// The conditions.
    pub filter: ItemFilter,
    /// Leaves out items that entered their state after this time. `None`: all items. A time after now is not left out, because it is from
    /// before the clock was put back.
    pub not_since: Option<i64>,
    /// The end of the page before. `None`: the first page.
    pub after: Option<SearchPosition>,
    /// True: dead items that died last come first. It has no effect on other states.
    pub newest_first: bool,
    /// The maximum number of items. A page also ends after [`MAX_PAGE_BYTES`].
    pub limit: usize,
    /// The maximum number of rows that are looked at.
    pub max_examined: usize,
}

/// The row at which a page ended: its place in the order of the search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchPosition {
    /// The time that sorts the row: that of the last change of state for dead items, the due time for leased and delayed ones.
    /// `None`: the search is in the order of the key, or the row has no time. `SQLite` can have any value here that another program wrote.
    pub time: Option<Value>,
    /// The key of the row.
    pub key: Key,
}

/// The bytes of a page's entries after which the page ends, so that a response stays far below the message limit of clients.
pub const MAX_PAGE_BYTES: usize = 1 << 20;

/// A page of items.
#[derive(Clone, Debug, Default)]
pub struct FoundItems {
    /// The items that fit.
    pub items: Vec<FoundItem>,
    /// The number of rows that were looked at.
    pub examined: usize,
    /// The last row that was looked at. `None`: the search is at its end.
    pub end: Option<SearchPosition>,
    /// The store's clock, in milliseconds since 1970-01-01T00:00:00Z.
    pub now: i64,
}

/// An item with its state.
#[derive(Clone, Debug)]
pub struct FoundItem {
    /// The state. `None`: the column has a value that is no state.
    pub state: Option<State>,
    /// The row without the table's own columns.
    pub listed: ListedItem,
}

impl FoundItem {
    /// Returns the approximate size of the item in a response, in bytes.
    pub fn size(&self) -> usize {
        let ListedItem {
            key, owner, error, ..
        } = &self.listed;
        let texts = [owner, error].into_iter().flatten();
        100 + key.to_string().len() + texts.map(String::len).sum::<usize>()
    }
}

/// One item with the values of its columns.
#[derive(Clone, Debug)]
pub struct ItemRecord {
    /// The item.
    pub item: FoundItem,
    /// The values of the columns that [`Facts::columns`](super::Facts::columns) names, in the same order. A generated column that fails
    /// on a value of the row is left out.
    pub columns: Vec<(String, Value)>,
    /// The W3C trace context in the row.
    pub trace_parent: Option<String>,
    /// The size of the checkpoint in bytes. `None`: there is none, or the queue has no checkpoints.
    pub checkpoint_bytes: Option<u64>,
    /// The store's clock, in milliseconds since 1970-01-01T00:00:00Z.
    pub now: i64,
}
