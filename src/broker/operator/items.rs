//! Lists of items by state and filter, and single items.

use std::sync::Arc;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::trace_context::TraceContext;
use lease_broker_store::{
    FoundItem, FoundItems, ItemFacts, ItemFilter, ItemRecord, ItemSearch, QueueIndex,
    SearchPosition,
};
use lease_broker_value::Value;

use super::definition::{ItemSelection, StoredPlace, StoredTime};
use super::{Operator, filter_error, page_token};
use crate::broker::error::Error;
use crate::broker::limits::{check_nul, refuse_nul};

/// The maximum number of entries on a page of any list.
pub const MAX_PAGE: usize = 1_000;
/// The number of entries on a page if the call does not say.
const DEFAULT_PAGE: usize = 100;
/// The maximum number of rows that a page looks at.
pub(super) const MAX_EXAMINED: usize = 10_000;
/// The maximum number of keys in a selection.
const MAX_KEYS: usize = 1_000;
/// The maximum length of the owner in a filter, in characters, as that of a worker's id.
const MAX_OWNER: usize = 128;
/// The maximum length of the text in a filter, in characters.
const MAX_ERROR_PART: usize = 256;

/// A request for a page of items.
#[derive(Clone, Debug)]
pub struct ListItems {
    /// The name of the queue.
    pub queue: String,
    /// The state. `None`: of any state, which only a selection by keys allows.
    pub state: Option<State>,
    /// The items.
    pub selection: ItemSelection,
    /// The number of items on the page. 0: the default.
    pub page_size: i32,
    /// The token of the page. Empty: the first one.
    pub page_token: String,
    /// True: dead items that died last come first.
    pub newest_first: bool,
}

/// A page of items.
#[derive(Clone, Debug)]
pub struct ItemList {
    /// The items.
    pub items: Vec<FoundItem>,
    /// The token of the next page. Empty: there is none.
    pub next_page_token: String,
    /// The number of rows that were looked at.
    pub examined: usize,
    /// True: the page ended because of the rows that it may look at, or because of its size in bytes.
    pub is_partial: bool,
}

/// One item with the facts that explain its state.
#[derive(Clone, Debug)]
pub struct OneItem {
    /// The item.
    pub record: ItemRecord,
    /// The facts from which the reasons why it is not being claimed are found.
    pub facts: ItemFacts,
}

impl Operator {
    /// Lists a page of items.
    ///
    /// # Errors
    /// [`Error::QueueNotFound`], [`Error::InvalidField`], [`Error::LimitExceeded`], and those of the store.
    pub async fn list_items(&self, list: ListItems) -> Result<ItemList, Error> {
        let (queue, spec) = self.queue(&list.queue)?;
        let limit = page_size(list.page_size)?;
        check_selection(&list.selection, &spec.filterable)?;
        let identity = format!(
            "{:?}",
            (&list.queue, list.state, &list.selection, list.newest_first)
        );
        if !list.selection.keys.is_empty() {
            return self.list_keys(queue, &list, &identity).await;
        }
        let after = page_token::read(&identity, &list.page_token, |place| {
            self.search_position(queue, &place).ok()
        })?;
        let state = list
            .state
            .ok_or_else(|| Error::invalid("state", "is required, unless filter.keys is set"))?;
        if list.newest_first && state != State::Dead {
            return Err(Error::invalid(
                "newest_first",
                "is possible for dead items only",
            ));
        }
        let search = ItemSearch {
            state,
            filter: list.selection.filter,
            not_since: None,
            after,
            newest_first: list.newest_first,
            limit,
            max_examined: MAX_EXAMINED,
        };
        let found = self.inspect.find_items(queue, search).await;
        let found = found.map_err(filter_error)?;
        Ok(ItemList {
            is_partial: found.end.is_some() && found.items.len() < limit,
            next_page_token: found
                .end
                .map(|end| page_token::write(&identity, &StoredPlace::from(&end)))
                .unwrap_or_default(),
            examined: found.examined,
            items: found.items,
        })
    }

    /// Lists a page of the items with the keys of a selection. The end of a page is the number of keys up to there.
    async fn list_keys(
        &self,
        queue: QueueIndex,
        list: &ListItems,
        identity: &str,
    ) -> Result<ItemList, Error> {
        let start = page_token::read(identity, &list.page_token, Some::<usize>)?.unwrap_or(0);
        let keys = self.parse_keys(queue, &list.selection.keys)?;
        // The size of an item is bounded, so this bounds the page.
        let requested = page_size(list.page_size)?;
        let limit = requested.min(DEFAULT_PAGE);
        let rest = keys.get(start..).unwrap_or_default();
        let page = &rest[..limit.min(rest.len())];
        let end = start + page.len();
        let found = self.inspect.find_keys(queue, page.into()).await?;
        let FoundItems {
            mut items,
            examined,
            ..
        } = found;
        items.retain(|item| list.state.is_none_or(|state| item.state == Some(state)));
        let has_more = end < keys.len();
        Ok(ItemList {
            next_page_token: if has_more {
                page_token::write(identity, &end)
            } else {
                String::new()
            },
            examined,
            is_partial: has_more && items.len() < requested,
            items,
        })
    }

    /// Returns one item.
    ///
    /// # Errors
    /// [`Error::QueueNotFound`], [`Error::InvalidField`] for a malformed key, [`Error::ItemNotFound`], and those of the store.
    pub async fn get_item(&self, queue: &str, key: &str) -> Result<OneItem, Error> {
        let (queue, _) = self.queue(queue)?;
        let parsed = self.parse_key(queue, key);
        let parsed = parsed.map_err(|problem| Error::invalid("key", problem))?;
        let record = self.inspect.read_item(queue, parsed.clone()).await?;
        let mut record = record.ok_or_else(|| Error::ItemNotFound(key.to_owned()))?;
        let producer = record.trace_parent.as_deref();
        if let (None, Some(recorded)) = (producer.and_then(TraceContext::parse), &self.recorded) {
            let context = recorded.tracer.last_context(queue, &record.item.listed);
            record.trace_parent = context.map(|context| context.to_string());
        }
        let facts = self.inspect.item_facts(queue, parsed).await?;
        Ok(OneItem { record, facts })
    }

    pub(super) fn parse_keys(
        &self,
        queue: QueueIndex,
        keys: &[String],
    ) -> Result<Arc<[Key]>, Error> {
        let keys = keys.iter().enumerate().map(|(index, key)| {
            let field = format!("filter.keys[{index}]");
            let parsed = self.parse_key(queue, key);
            parsed.map_err(|problem| Error::invalid(field, problem))
        });
        keys.collect()
    }

    /// Reads the key that a call names.
    pub(super) fn parse_key(&self, queue: QueueIndex, text: &str) -> Result<Key, String> {
        if !self.inspect.finds_nul() {
            refuse_nul(text)?;
        }
        self.inspect.parse_key(queue, text)
    }

    /// Reads a place that the database or a page token has.
    ///
    /// # Errors
    /// The reason why its key is none of the queue.
    pub(super) fn search_position(
        &self,
        queue: QueueIndex,
        place: &StoredPlace,
    ) -> Result<SearchPosition, String> {
        let key = place.key.read(|text| self.inspect.parse_key(queue, text))?;
        let time = place.time.as_ref().map(StoredTime::read).transpose()?;
        Ok(SearchPosition { time, key })
    }
}

/// Checks the number of entries on a page.
pub(super) fn page_size(size: i32) -> Result<usize, Error> {
    match usize::try_from(size) {
        Ok(0) => Ok(DEFAULT_PAGE),
        Ok(size) if size <= MAX_PAGE => Ok(size),
        Ok(size) => Err(Error::limit(
            "page_size",
            format!("{size} is more than the maximum of {MAX_PAGE}"),
            &size,
            &MAX_PAGE,
        )),
        Err(_) => Err(Error::invalid("page_size", "must not be negative")),
    }
}

/// Checks the bounds of a selection.
pub(super) fn check_selection(
    selection: &ItemSelection,
    filterable: &[String],
) -> Result<(), Error> {
    let ItemSelection { keys, filter } = selection;
    let check = |field: &str, length: usize, max: usize| {
        if length <= max {
            return Ok(());
        }
        let problem = format!("{length} is more than the maximum of {max}");
        Err(Error::limit(field.to_owned(), problem, &length, &max))
    };
    check("filter.keys", keys.len(), MAX_KEYS)?;
    if !keys.is_empty() && *filter != ItemFilter::default() {
        return Err(Error::invalid(
            "filter.keys",
            "cannot be combined with other fields of the filter",
        ));
    }
    let length = |text: &Option<String>| text.as_ref().map_or(0, |text| text.chars().count());
    check("filter.owner", length(&filter.owner), MAX_OWNER)?;
    check(
        "filter.error_contains",
        length(&filter.error_contains),
        MAX_ERROR_PART,
    )?;
    for (field, text) in [
        ("filter.owner", &filter.owner),
        ("filter.error_contains", &filter.error_contains),
    ] {
        check_nul(field, text.as_deref().unwrap_or_default())?;
    }
    if filter.min_attempt.is_some_and(|attempt| attempt < 0) {
        return Err(Error::invalid("filter.min_attempt", "must not be negative"));
    }
    for (name, value) in &filter.columns {
        if let Value::Text(text) = value {
            check_nul(&format!("filter.columns[{name:?}]"), text)?;
        }
        if !filterable.contains(name) {
            let problem = match filterable {
                [] => "the queue's setting `filterable` lists no column".to_owned(),
                names => format!(
                    "is not one of the columns that the queue's setting `filterable` lists: {}",
                    names.join(", ")
                ),
            };
            return Err(Error::invalid(format!("filter.columns[{name:?}]"), problem));
        }
    }
    Ok(())
}
