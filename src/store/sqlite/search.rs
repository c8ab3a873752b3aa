//! Finds items for operators: pages of a search, and single items.

use std::collections::HashSet;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::queue::Order;
use lease_broker_value::Value;
use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, Row};

use super::catalogue::Column;
use super::column_value::{Stored, read, read_column, store};
use super::inspect::read_listed;
use super::queue_statements::QueueStatements;
use super::quote::quote;
use super::row_error::RowError;
use super::soft_lock_value::{integer, text};
use super::statement::{bind, bind_key};
use crate::adoption::with;
use crate::template::render;
use crate::{
    FoundItem, FoundItems, ItemRecord, ItemSearch, MAX_PAGE_BYTES, Problem, ProblemKind, Rejection,
    SearchPosition, StoreError,
};

const SEARCH: &str = lease_broker_sql::sqlite::SEARCH;
/// The number of the first parameter that has the value of a column.
const FIRST_COLUMN: usize = 13;
/// The columns that begin each statement, besides the key: state, owner, time of the state, due time, attempts, fence and error.
const ITEM_COLUMNS: usize = 7;

/// The order in which a search looks at rows.
struct Walk {
    /// The index and the condition on the state, from `INDEXED BY` on.
    source: String,
    /// The placeholder of the column that sorts before the key. `None`: the key alone.
    time: Option<&'static str>,
}

/// Returns the order of a search for items of one state.
fn walk(queue: &QueueStatements, state: State) -> Walk {
    let state_column = &queue.placeholders["lease_state"];
    let by = |index: &str, condition: &str| {
        let index = &queue.placeholders[index];
        format!(" INDEXED BY {index} WHERE {state_column} {condition}")
    };
    let is_key_order = matches!(&queue.spec.order, Order::By(columns) if columns.is_empty());
    match state {
        State::Dead => Walk {
            source: by("dead_index", "= 4"),
            time: Some("lease_state_time"),
        },
        State::Leased | State::Delayed => Walk {
            source: by(
                "due_index",
                if queue.spec.filtered_indexes {
                    "IN (1, 2)"
                } else if state == State::Leased {
                    "= 1"
                } else {
                    "= 2"
                },
            ),
            time: Some("lease_due_time"),
        },
        State::Ready if is_key_order => Walk {
            source: by("ready_index", "= 0"),
            time: None,
        },
        State::Ready | State::Completed => Walk {
            source: " WHERE 1 = 1".to_owned(),
            time: None,
        },
    }
}

/// Finds a page of items. See [`Browse::find_items`](crate::Browse::find_items).
pub(super) fn find_items(
    connection: &Connection,
    queue: &QueueStatements,
    search: &ItemSearch,
    now: i64,
) -> Result<FoundItems, StoreError> {
    let (sql, columns) = statement(queue, search)?;
    let mut statement = connection.prepare_cached(&sql)?;
    let filter = &search.filter;
    if let Some(after) = &search.after {
        bind_key(&mut statement, &after.key)?;
    }
    let time = search.after.as_ref().and_then(|after| after.time.as_ref());
    let time = time.map(Stored::new);
    let max_examined = i64::try_from(search.max_examined).unwrap_or(i64::MAX);
    bind(
        &mut statement,
        4,
        &[
            &time,
            &max_examined,
            &filter.owner,
            &filter.error_contains,
            &filter.state_since,
            &filter.state_before,
            &filter.min_attempt,
            &search.not_since,
            &now,
        ],
    )?;
    for (number, value) in (FIRST_COLUMN..).zip(&columns) {
        statement.raw_bind_parameter(number, value)?;
    }
    let sorts_by_due = matches!(search.state, State::Leased | State::Delayed);
    let has_time = walk(queue, search.state).time.is_some();
    let mut found = FoundItems {
        now,
        ..FoundItems::default()
    };
    let mut bytes = 0;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        found.examined += 1;
        let mut is_full = found.examined == search.max_examined;
        let fits: bool = row.get(queue.key.len() + ITEM_COLUMNS)?;
        if fits {
            let item = read_found(queue, row, now)?;
            bytes += item.size();
            found.items.push(item);
            is_full |= found.items.len() == search.limit || bytes >= MAX_PAGE_BYTES;
        }
        if is_full {
            let first = queue.key.len();
            let time = read(row.get_ref(if sorts_by_due { first + 3 } else { first + 2 })?);
            found.end = Some(SearchPosition {
                time: (has_time && time != Value::Null).then_some(time),
                key: queue.read_key(row)?,
            });
            break;
        }
    }
    Ok(found)
}

/// Renders the statement of a search. Also returns the values of columns, in the order of their parameters.
pub(super) fn statement(
    queue: &QueueStatements,
    search: &ItemSearch,
) -> Result<(String, Vec<SqlValue>), StoreError> {
    let walk = walk(queue, search.state);
    let filter = &search.filter;
    let is_descending = search.newest_first && search.state == State::Dead;
    let time = walk.time.map(|time| queue.placeholders[time].clone());
    let placeholders = with(
        &queue.placeholders,
        [
            ("state", search.state.code().to_string()),
            ("search_time", time.clone().unwrap_or_default()),
            ("beyond", if is_descending { "<" } else { ">" }.to_owned()),
        ],
    );
    let text = |section| render(SEARCH, section, &placeholders);
    let mut after = match &search.after {
        None => String::new(),
        Some(_) if time.is_none() => text("after_key"),
        Some(SearchPosition { time: None, .. }) => text("after_no_time"),
        Some(_) => text("after_time"),
    };
    if search.state == State::Dead {
        // The index of the walk finds the first of these rows.
        if filter.state_since.is_some() {
            after += &text("since");
        }
        if filter.state_before.is_some() {
            after += &text("before");
        }
    }
    let (matches, columns) = conditions(queue, search, &text)?;
    let direction = if is_descending { " DESC" } else { "" };
    let key = queue.key.iter().map(|column| quote(&column.name));
    let order = time.into_iter().chain(key);
    let order: Vec<String> = order.map(|column| column + direction).collect();
    let placeholders = with(
        &placeholders,
        [
            ("walk", walk.source),
            ("after", after),
            ("match", matches),
            ("search_order", order.join(", ")),
        ],
    );
    Ok((render(SEARCH, "search", &placeholders), columns))
}

/// Returns the conditions of a filter as one, and the values of its columns.
fn conditions(
    queue: &QueueStatements,
    search: &ItemSearch,
    text: &dyn Fn(&'static str) -> String,
) -> Result<(String, Vec<SqlValue>), StoreError> {
    let filter = &search.filter;
    let mut parts = vec![text("fits_state")];
    for (is_set, section) in [
        (filter.owner.is_some(), "fits_owner"),
        (filter.error_contains.is_some(), "fits_error"),
        (filter.state_since.is_some(), "fits_since"),
        (filter.state_before.is_some(), "fits_before"),
        (filter.min_attempt.is_some(), "fits_attempt"),
        (search.not_since.is_some(), "fits_not_since"),
    ] {
        if is_set {
            parts.push(text(section));
        }
    }
    let mut values = Vec::with_capacity(filter.columns.len());
    for (number, (name, value)) in (FIRST_COLUMN..).zip(&filter.columns) {
        let refused = |problem: String| {
            let problem = Problem::new(ProblemKind::InvalidField, problem);
            StoreError::Rejected(Rejection::of_list(Some(name.clone()), problem))
        };
        let kind = queue.filterable.get(name);
        let kind = kind.ok_or_else(|| refused("the setting filterable does not list it".into()))?;
        values.push(store(value, *kind).map_err(refused)?);
        parts.push(format!("{} IS ?{number}", quote(name)));
    }
    // A condition on NULL is NULL.
    Ok((format!("coalesce({}, 0)", parts.join(" AND ")), values))
}

/// Finds items by key. See [`Browse::find_keys`](crate::Browse::find_keys).
pub(super) fn find_keys(
    connection: &Connection,
    queue: &QueueStatements,
    keys: &[Key],
    now: i64,
) -> Result<FoundItems, StoreError> {
    let sql = render(SEARCH, "read_item", &queue.placeholders);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut found = FoundItems {
        now,
        examined: keys.len(),
        ..FoundItems::default()
    };
    // Several texts can be the key of one row, such as `1` and `1.0`.
    let mut seen = HashSet::new();
    for key in keys.iter().filter(|key| queue.can_have_key(key)) {
        bind_key(&mut statement, key)?;
        let mut rows = statement.raw_query();
        if let Some(row) = rows.next()? {
            let item = read_found(queue, row, now)?;
            if seen.insert(item.listed.key.to_string()) {
                found.items.push(item);
            }
        }
    }
    Ok(found)
}

/// Reads an item with its columns. See [`Browse::read_item`](crate::Browse::read_item). A generated column that fails on a value of the
/// row is left out.
pub(super) fn read_item(
    connection: &Connection,
    queue: &QueueStatements,
    key: &Key,
    now: i64,
) -> Result<Option<ItemRecord>, StoreError> {
    if !queue.can_have_key(key) {
        return Ok(None);
    }
    let mut columns: Vec<&Column> = queue.data.iter().collect();
    let snapshot = connection.unchecked_transaction()?;
    let mut record = read_record(connection, queue, key, &columns, now);
    if matches!(record, Err(RowError::Refused(_))) {
        columns.retain(|column| {
            let alone = read_record(connection, queue, key, &[*column], now);
            !matches!(alone, Err(RowError::Refused(_)))
        });
        record = read_record(connection, queue, key, &columns, now);
    }
    snapshot.commit()?;
    Ok(record?)
}

/// Reads an item with these columns.
fn read_record(
    connection: &Connection,
    queue: &QueueStatements,
    key: &Key,
    columns: &[&Column],
    now: i64,
) -> Result<Option<ItemRecord>, RowError> {
    let checkpoint = match &*queue.placeholders["checkpoint_column"] {
        "" => "NULL".to_owned(),
        column => format!("octet_length({})", column.trim_start_matches(", ")),
    };
    let names = columns
        .iter()
        .map(|column| format!(", {}", quote(&column.name)));
    let placeholders = with(
        &queue.placeholders,
        [
            ("checkpoint_bytes", checkpoint),
            ("data_columns", names.collect()),
        ],
    );
    let sql = render(SEARCH, "read_record", &placeholders);
    let mut statement = connection.prepare_cached(&sql)?;
    bind_key(&mut statement, key)?;
    let mut rows = statement.raw_query();
    let failure = match rows.next() {
        Ok(None) => return Ok(None),
        Ok(Some(row)) => {
            let trace = queue.key.len() + ITEM_COLUMNS;
            let mut values = Vec::with_capacity(columns.len());
            for (index, column) in (trace + 2..).zip(columns) {
                let value = read_column(row.get_ref(index)?, column.kind);
                values.push((column.name.clone(), value));
            }
            return Ok(Some(ItemRecord {
                item: read_found(queue, row, now)?,
                columns: values,
                trace_parent: text(row, trace)?,
                checkpoint_bytes: row.get::<_, Option<i64>>(trace + 1)?.map(i64::unsigned_abs),
                now,
            }));
        }
        Err(failure) => failure,
    };
    drop(rows);
    Err(RowError::new(connection, &statement, &failure))
}

/// Reads an item: key, state, owner, time of the state, due time, attempts, fence and error.
fn read_found(queue: &QueueStatements, row: &Row<'_>, now: i64) -> Result<FoundItem, StoreError> {
    let first = queue.key.len();
    Ok(FoundItem {
        state: integer(row, first)?.and_then(State::from_code),
        listed: read_listed(queue, row, first + 1, now)?,
    })
}
