//! Lists the groups of a queue, page by page.

use lease_broker_model::group::GroupOrder;
use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_value::Value;
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::column_value::{Stored, read};
use super::group_pause::{find_collation, find_pause, group_value};
use super::pause::has_tables;
use super::queue_statements::QueueStatements;
use super::quote::quote;
use super::soft_lock_value::integer;
use super::statement::{bind, bind_key};
use super::types::ColumnType;
use crate::adoption::with;
use crate::key_text;
use crate::template::{Placeholders, render};
use crate::{FoundGroups, GroupHead, GroupSearch, ListedGroup, MAX_PAGE_BYTES, StoreError};

const GROUP_LIST: &str = lease_broker_sql::sqlite::GROUP_LIST;

/// Finds a page of groups. See [`Browse::find_groups`](crate::Browse::find_groups).
pub(super) fn find_groups(
    connection: &Connection,
    queue: &QueueStatements,
    search: &GroupSearch,
    now: i64,
) -> Result<FoundGroups, StoreError> {
    let Some(groups) = &queue.spec.groups else {
        return Err(StoreError::Bug(
            "a list of groups without groups".to_owned(),
        ));
    };
    let transaction = connection.unchecked_transaction()?;
    let list = GroupList::new(connection, queue, groups.order, groups.halts())?;
    let mut found = FoundGroups {
        now,
        ..FoundGroups::default()
    };
    let mut position = search.after.as_ref().map(group_value);
    let (mut examined, mut bytes) = (0, 0);
    while let Some(group) = list.next(position.as_ref())? {
        let (value, key) = group;
        examined += 1;
        bytes += match &value {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        let listed = list.read(&value, key, now)?;
        let place = position.insert(list.behind(value));
        found
            .groups
            .extend(listed.filter(|group| search.fits(group)));
        let is_full = found.groups.len() >= search.limit || bytes >= MAX_PAGE_BYTES;
        if is_full || examined >= search.max_examined {
            found.end = Some(Key([place.clone()].into()));
            break;
        }
    }
    transaction.commit()?;
    Ok(found)
}

/// Returns the group of an item. `None`: the queue has no groups, or the item belongs to none.
pub(super) fn group_of_item(
    connection: &Connection,
    queue: &QueueStatements,
    key: &Key,
    now: i64,
) -> Result<Option<ListedGroup>, StoreError> {
    let of_groups = queue
        .sql
        .turn
        .as_ref()
        .and_then(|turn| turn.groups.as_ref());
    let (Some(groups), Some(sql)) = (&queue.spec.groups, of_groups) else {
        return Ok(None);
    };
    let mut find = connection.prepare_cached(&sql.find_group)?;
    bind_key(&mut find, key)?;
    let mut rows = find.raw_query();
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let value = read(row.get_ref(0)?);
    if value == Value::Null {
        return Ok(None);
    }
    let list = GroupList::new(connection, queue, groups.order, groups.halts())?;
    list.read(&value, Key([value.clone()].into()), now)
}

/// The rendered statements of a list.
pub(super) struct GroupList<'a> {
    connection: &'a Connection,
    queue: &'a QueueStatements,
    collation: String,
    order: GroupOrder,
    max_leases: usize,
    has_tables: bool,
    pub(super) first: String,
    pub(super) next: String,
    pub(super) head: String,
    pub(super) leases: String,
}

impl<'a> GroupList<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        queue: &'a QueueStatements,
        order: GroupOrder,
        halts: bool,
    ) -> Result<Self, StoreError> {
        let collation = find_collation(connection, queue)?;
        let has_tables = has_tables(connection)?;
        let max_leases: Option<i64> = if has_tables {
            let sql = render(GROUP_LIST, "max_leases", &queue.placeholders);
            let mut read = connection.prepare_cached(&sql)?;
            let row = read.query_row([&queue.spec.name], |row| row.get(0));
            row.optional()?.flatten()
        } else {
            None
        };
        let states: &[State] = if halts {
            &[State::Leased, State::Delayed, State::Dead]
        } else {
            &[State::Leased, State::Delayed]
        };
        let quoted = [("collation", quote(&collation))];
        let parts = with(&queue.placeholders, quoted);
        let next = |after| next(&parts, queue, states, has_tables, after);
        Ok(Self {
            connection,
            queue,
            order,
            max_leases: usize::try_from(max_leases.unwrap_or(0)).unwrap_or(0),
            has_tables,
            first: next(false),
            next: next(true),
            head: head(&parts, states, matches!(order, GroupOrder::Strict { .. })),
            leases: render(GROUP_LIST, "leases", &parts),
            collation,
        })
    }

    /// Returns the group behind `after`, or the first one.
    fn next(&self, after: Option<&Value>) -> Result<Option<(Value, Key)>, StoreError> {
        let sql = if after.is_some() {
            &self.next
        } else {
            &self.first
        };
        let mut next = self.connection.prepare_cached(sql)?;
        let after = after.unwrap_or(&Value::Null);
        bind(&mut next, 1, &[&self.queue.spec.name, &Stored::new(after)])?;
        let mut rows = next.raw_query();
        let read = |row: &Row<'_>| {
            let value = read(row.get_ref(0)?);
            Ok::<_, StoreError>((value.clone(), Key([value].into())))
        };
        rows.next()?.map(read).transpose()
    }

    /// Returns the position from which the list goes on behind a group.
    ///
    /// A column of numbers compares the text of a number as that number, so the list would begin again behind it. A pause has such
    /// a text if the column held texts before. No number ends with the character that is added.
    fn behind(&self, group: Value) -> Value {
        let kind = self.queue.group.as_ref().map(|column| column.kind);
        match group {
            Value::Text(text)
                if !matches!(kind, Some(ColumnType::Text | ColumnType::Any))
                    && key_text::is_number(&text) =>
            {
                Value::Text(text + "\u{1}")
            }
            group => group,
        }
    }

    fn read(&self, value: &Value, group: Key, now: i64) -> Result<Option<ListedGroup>, StoreError> {
        let max = i64::try_from(ListedGroup::MAX_COUNT).unwrap_or(i64::MAX);
        let null = rusqlite::types::Null;
        let mut count = self.connection.prepare_cached(&self.leases)?;
        bind(&mut count, 1, &[&null, &Stored::new(value), &null, &max])?;
        let mut rows = count.raw_query();
        let leases: i64 = rows.next()?.map_or(Ok(0), |row| row.get(0))?;
        let pause = if self.has_tables {
            let name = &self.queue.spec.name;
            find_pause(self.connection, name, (value, &group), &self.collation, now)?
        } else {
            None
        };
        Ok(ListedGroup::new(
            group,
            (self.order, self.max_leases),
            usize::try_from(leases).unwrap_or_default(),
            self.head(value)?,
            pause,
        ))
    }

    fn head(&self, group: &Value) -> Result<Option<GroupHead>, StoreError> {
        let mut find = self.connection.prepare_cached(&self.head)?;
        let null = rusqlite::types::Null;
        bind(&mut find, 1, &[&null, &Stored::new(group)])?;
        let mut rows = find.raw_query();
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let first = self.queue.key.len();
        let code: i64 = row.get(first)?;
        let state = State::from_code(code)
            .ok_or_else(|| StoreError::Bug(format!("no state has the number {code}")))?;
        // 0 is the default of the column: another program inserted the row.
        let since = integer(row, first + 1)?;
        Ok(Some(GroupHead {
            key: self.queue.read_key(row)?,
            state,
            state_time: since.filter(|since| *since > 0),
            due_time: integer(row, first + 2)?,
        }))
    }
}

/// Renders the statement that finds the first group, or the one behind another.
fn next(
    placeholders: &Placeholders,
    queue: &QueueStatements,
    states: &[State],
    has_tables: bool,
    has_bound: bool,
) -> String {
    let bound = |column: &str, collate: &str| {
        if has_bound {
            format!("{column} > ?2{collate}")
        } else {
            format!("{column} IS NOT NULL")
        }
    };
    let collate = format!(" COLLATE {}", placeholders["collation"]);
    let parts = with(
        placeholders,
        [
            (
                "t_bound",
                bound(&format!("t.{}", placeholders["group"]), ""),
            ),
            (
                "b_bound",
                bound(&format!("b.{}", placeholders["group"]), ""),
            ),
            ("g_bound", bound("g.group_value", &collate)),
        ],
    );
    let in_states = if queue.spec.filtered_indexes {
        vec![placeholders["busy_states"].clone()]
    } else {
        let state = &placeholders["lease_state"];
        let states = states.iter();
        states
            .map(|one| format!("b.{state} = {}", one.code()))
            .collect()
    };
    let busy = in_states.into_iter().map(|in_state| {
        let parts = with(&parts, [("in_state", in_state)]);
        format!(" {}", render(GROUP_LIST, "next_busy", &parts))
    });
    let paused = if has_tables {
        format!(" {}", render(GROUP_LIST, "next_paused", &parts))
    } else {
        String::new()
    };
    let sources = [
        ("next_ready", render(GROUP_LIST, "next_ready", &parts)),
        ("next_busy", busy.collect()),
        ("next_paused", paused),
    ];
    render(GROUP_LIST, "next", &with(&parts, sources))
}

/// Renders the statement that reads the item which decides about the state of a group.
fn head(placeholders: &Placeholders, states: &[State], is_strict: bool) -> String {
    let of_state = states.iter().map(|state| {
        let state = [("state", state.code().to_string())];
        format!(
            " {}",
            render(GROUP_LIST, "of_state", &with(placeholders, state))
        )
    });
    let of_state: String = of_state.collect();
    let states = render(GROUP_LIST, "ready", placeholders) + &of_state;
    let leased_first = if is_strict { " = 1 DESC" } else { "" };
    let parts = [
        ("states", states),
        ("leased_first", leased_first.to_owned()),
    ];
    render(GROUP_LIST, "head", &with(placeholders, parts))
}
