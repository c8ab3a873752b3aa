//! Finds items for operators: pages of a search, and single items.

use std::collections::HashSet;
use std::slice;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_value::Value;
use tiberius::{Row, ToSql};

use super::catalogue::Column;
use super::decode;
use super::list_parameters::{EntryValue, ListEntry, ListParameters};
use super::operations::MssqlOperations;
use super::queue_statements::QueueStatements;
use super::search_statements::FilterColumn;
use super::types::{self, ColumnType, sql_time};
use crate::{
    FoundItem, FoundItems, ItemFilter, ItemRecord, ItemSearch, MAX_PAGE_BYTES, Problem,
    ProblemKind, QueueIndex, Rejection, SearchPosition, StoreError,
};

/// The columns of an item besides the key: state, owner, time of the state, due time, attempts, fence and error.
const ITEM_COLUMNS: usize = 7;

/// The parameters of a page after the lists.
pub(super) struct SearchParameters<'a> {
    limit: i32,
    max_examined: i32,
    time: String,
    owner: &'a str,
    error_contains: &'a str,
    since: String,
    before: String,
    not_since: String,
    min_attempt: Option<i64>,
}

impl<'a> SearchParameters<'a> {
    pub(super) fn new(search: &'a ItemSearch) -> Self {
        let int = |number| i32::try_from(number).unwrap_or(i32::MAX);
        let text = |time: Option<i64>| time.map(sql_time).unwrap_or_default();
        let filter = &search.filter;
        let time = match search.after.as_ref().and_then(|after| after.time.as_ref()) {
            Some(Value::Int(time)) => Some(*time),
            _ => None,
        };
        Self {
            limit: int(search.limit),
            max_examined: int(search.max_examined),
            time: text(time),
            owner: filter.owner.as_deref().unwrap_or_default(),
            error_contains: filter.error_contains.as_deref().unwrap_or_default(),
            since: text(filter.state_since),
            before: text(filter.state_before),
            not_since: text(search.not_since),
            min_attempt: filter.min_attempt,
        }
    }

    pub(super) fn all(&self) -> [&dyn ToSql; 9] {
        [
            &self.limit,
            &self.max_examined,
            &self.time,
            &self.owner,
            &self.error_contains,
            &self.since,
            &self.before,
            &self.not_since,
            &self.min_attempt,
        ]
    }
}

impl MssqlOperations {
    pub(super) async fn find_items(
        &self,
        queue: QueueIndex,
        search: &ItemSearch,
    ) -> Result<FoundItems, StoreError> {
        let queue = self.queue(queue)?;
        let (columns, values) = queue.filter_columns(&search.filter)?;
        let position = search.after.as_ref().map(|after| &after.key);
        let lists = QueueStatements::search_lists(position, values);
        let rest = SearchParameters::new(search);
        let parameters = lists.and(&rest.all());
        let sql = queue.render_search(search, &columns);
        let results = self.query_idempotent(&sql, &parameters).await?;
        let mut found = FoundItems {
            now: decode::time(decode::single_row(&results, 0)?, 0)?,
            ..FoundItems::default()
        };
        let mut bytes = 0;
        for row in decode::result_set(&results, 1)? {
            found.examined = decode::integer_as(row, 0)?;
            if decode::integer(row, 1)? == 1 {
                let item = queue.read_found(row, 2, found.now)?;
                bytes += item.size();
                found.items.push(item);
            }
            let is_full = found.items.len() >= search.limit || bytes >= MAX_PAGE_BYTES;
            if is_full || found.examined >= search.max_examined {
                found.end = Some(queue.read_position(row, search.state)?);
                break;
            }
        }
        Ok(found)
    }

    pub(super) async fn find_keys(
        &self,
        queue: QueueIndex,
        keys: &[Key],
    ) -> Result<FoundItems, StoreError> {
        let queue = self.queue(queue)?;
        let lists = ListParameters::new(vec![queue.key_entries(keys)]);
        let sql = queue.render_find_keys();
        let results = self.query_idempotent(&sql, &lists.parameters()).await?;
        let now = decode::time(decode::single_row(&results, 0)?, 0)?;
        let rows = decode::result_set(&results, 1)?.iter();
        let items = rows.map(|row| queue.read_found(row, 1, now));
        let mut items = items.collect::<Result<Vec<_>, _>>()?;
        // Several texts can be the key of one row if the collation ignores case.
        let mut seen = HashSet::new();
        items.retain(|item| seen.insert(item.listed.key.to_string()));
        Ok(FoundItems {
            items,
            examined: keys.len(),
            end: None,
            now,
        })
    }

    pub(super) async fn read_item(
        &self,
        queue: QueueIndex,
        key: &Key,
    ) -> Result<Option<ItemRecord>, StoreError> {
        let queue = self.queue(queue)?;
        let lists = ListParameters::new(vec![queue.key_entries(slice::from_ref(key))]);
        let sql = queue.render_read_record();
        let results = self.query_idempotent(&sql, &lists.parameters()).await?;
        let now = decode::time(decode::single_row(&results, 0)?, 0)?;
        let Some(row) = decode::result_set(&results, 1)?.first() else {
            return Ok(None);
        };
        let trace = 1 + queue.key.len() + ITEM_COLUMNS;
        let columns = (trace + 2..).zip(&*queue.columns);
        let columns = columns.map(|(index, name)| {
            let value = types::decode(row.get_column_data(index)?)?;
            Ok((name.clone(), value))
        });
        let bytes = decode::optional_integer(row, trace + 1)?;
        Ok(Some(ItemRecord {
            item: queue.read_found(row, 1, now)?,
            columns: columns.collect::<Result<_, StoreError>>()?,
            trace_parent: decode::optional_text(row, trace)?,
            checkpoint_bytes: bytes.map(i64::unsigned_abs),
            now,
        }))
    }
}

impl QueueStatements {
    /// Returns the lists of a page: the key after which it begins, and the values of the filter's columns.
    pub(super) fn search_lists(position: Option<&Key>, values: ListEntry) -> ListParameters {
        let position = position.map(|key| {
            let mut entry = ListEntry::default();
            Self::insert_key(&mut entry, key);
            entry
        });
        ListParameters::new(vec![position.into_iter().collect(), vec![values]])
    }

    /// Reads an item from the columns that begin at `first`: the key and [`ITEM_COLUMNS`].
    fn read_found(&self, row: &Row, first: usize, now: i64) -> Result<FoundItem, StoreError> {
        let state = first + self.key.len();
        Ok(FoundItem {
            state: decode::stored_state(row, state)?,
            listed: self.read_listed(row, first, state + 1, now)?,
        })
    }

    /// Reads the place of a row in the order of a search.
    fn read_position(&self, row: &Row, state: State) -> Result<SearchPosition, StoreError> {
        let first = 2 + self.key.len();
        let time = match self.walk(state).time {
            None => None,
            Some(_) if state == State::Dead => decode::optional_time(row, first + 2)?,
            Some(_) => decode::optional_time(row, first + 3)?,
        };
        Ok(SearchPosition {
            time: time.map(Value::Int),
            key: self.read_key(row, 2)?,
        })
    }

    /// Returns the columns of a filter and the entry with their values.
    ///
    /// # Errors
    /// [`StoreError::Rejected`] with the name of the column that cannot be compared with its value.
    fn filter_columns(
        &self,
        filter: &ItemFilter,
    ) -> Result<(Vec<FilterColumn<'_>>, ListEntry), StoreError> {
        let mut columns = Vec::with_capacity(filter.columns.len());
        let mut values = ListEntry::default();
        for (index, (name, value)) in filter.columns.iter().enumerate() {
            let refused = |problem: String| {
                let problem = Problem::new(ProblemKind::InvalidField, problem);
                StoreError::Rejected(Rejection::of_list(Some(name.clone()), problem))
            };
            let column = self.filterable.get(name);
            let column =
                column.ok_or_else(|| refused("the setting filterable does not list it".into()))?;
            if !is_comparable(column) {
                let kind = &column.declared;
                return Err(refused(format!("the type {kind} has no equality")));
            }
            let is_null = *value == Value::Null;
            if !is_null {
                match self.encode_value(name, column, value).map_err(refused)? {
                    EntryValue::Long(_) => {
                        return Err(refused("a filter has at most 4,000 characters".into()));
                    }
                    value => values.insert(format!("c{index}"), value),
                }
            }
            columns.push(FilterColumn { column, is_null });
        }
        Ok((columns, values))
    }
}

/// Returns whether the server can compare values of the column.
fn is_comparable(column: &Column) -> bool {
    let name = column.declared.split('(').next().unwrap_or_default();
    let is_old_type = ["text", "ntext", "image"].contains(&name);
    let kinds = [ColumnType::Xml, ColumnType::Json, ColumnType::Other];
    !is_old_type && !kinds.contains(&column.kind)
}
