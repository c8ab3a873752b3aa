//! Lists the groups of a queue, page by page.

use lease_broker_model::group::Groups;
use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use tiberius::{Row, ToSql};

use super::group_pause::read_pause;
use super::operations::MssqlOperations;
use super::queue_statements::QueueStatements;
use super::{decode, types};
use crate::adoption::with;
use crate::template::{Placeholders, render};
use crate::{FoundGroups, GroupHead, GroupSearch, ListedGroup, QueueIndex, StoreError};

const GROUP_LIST: &str = lease_broker_sql::mssql::GROUP_LIST;

impl MssqlOperations {
    pub(super) async fn find_groups(
        &self,
        queue: QueueIndex,
        search: &GroupSearch,
    ) -> Result<FoundGroups, StoreError> {
        self.list_groups(self.queue(queue)?, search, ">").await
    }

    /// Returns the group with this name. `None`: it has neither items nor a pause.
    pub(super) async fn find_group(
        &self,
        queue: &QueueStatements,
        name: Key,
    ) -> Result<Option<ListedGroup>, StoreError> {
        let search = GroupSearch {
            after: Some(name),
            state: None,
            limit: 1,
            max_examined: 1,
        };
        let found = self.list_groups(queue, &search, "=").await?;
        Ok(found.groups.into_iter().next())
    }

    /// Lists groups that compare so with the bound of the search.
    async fn list_groups(
        &self,
        queue: &QueueStatements,
        search: &GroupSearch,
        comparison: &str,
    ) -> Result<FoundGroups, StoreError> {
        let Some(groups) = &queue.spec.groups else {
            return Err(StoreError::Bug(
                "a list of groups without groups".to_owned(),
            ));
        };
        let after = search.after.as_ref().map(types::group_text);
        let has_bound = i32::from(after.is_some());
        let after = after.unwrap_or_default();
        let examined = match search.state {
            Some(_) => search.max_examined,
            None => search.limit.min(search.max_examined),
        };
        let count = i32::try_from(examined).unwrap_or(i32::MAX);
        let max = i32::try_from(ListedGroup::MAX_COUNT).unwrap_or(i32::MAX);
        let parameters: [&dyn ToSql; 5] = [&queue.spec.name, &after, &has_bound, &count, &max];
        let sql = list_batch(queue, groups, comparison);
        let results = self.query_idempotent(&sql, &parameters).await?;
        let first = decode::single_row(&results, 0)?;
        let max_leases = decode::optional_integer(first, 1)?.unwrap_or(0);
        let order = (groups.order, usize::try_from(max_leases).unwrap_or(0));
        let rows = decode::result_set(&results, 1)?;
        let mut found = FoundGroups {
            now: decode::time(first, 0)?,
            ..FoundGroups::default()
        };
        for (index, row) in (1..).zip(rows) {
            let group = Key([types::decode(row.get_column_data(0)?)?].into());
            let pause = match decode::optional_time(row, 2)? {
                Some(_) => Some(read_pause(row, 2, group.clone())?),
                None => None,
            };
            let head = read_head(queue, row)?;
            let leases = decode::integer_as(row, 1)?;
            let listed = ListedGroup::new(group.clone(), order, leases, head, pause);
            found
                .groups
                .extend(listed.filter(|group| search.fits(group)));
            if found.groups.len() >= search.limit || index == examined {
                found.end = Some(group);
                break;
            }
        }
        Ok(found)
    }
}

/// Reads the item that decides about a group. `None`: there is none.
fn read_head(queue: &QueueStatements, row: &Row) -> Result<Option<GroupHead>, StoreError> {
    let Some(code) = decode::optional_integer(row, 6)? else {
        return Ok(None);
    };
    let state = State::from_code(code)
        .ok_or_else(|| decode::unexpected(format!("no state has the number {code}")))?;
    Ok(Some(GroupHead {
        key: queue.read_key(row, 9)?,
        state,
        state_time: decode::state_time(row, 7)?,
        due_time: decode::optional_time(row, 8)?,
    }))
}

/// Renders the batch that lists a page of groups. `comparison`: of the groups with the bound.
pub(super) fn list_batch(queue: &QueueStatements, groups: &Groups, comparison: &str) -> String {
    let placeholders = &queue.placeholders;
    let states: &[State] = if groups.halts() {
        &[State::Leased, State::Delayed, State::Dead]
    } else {
        &[State::Leased, State::Delayed]
    };
    let column = format!("t.{}", placeholders["group"]);
    let after = format!("{comparison} {}", placeholders["at_value"]);
    let next = |bound: &str| {
        let bounds = [
            ("t_bound", format!("{column} {bound}")),
            ("p_bound", format!("p.lb_group {bound}")),
        ];
        next(
            &with(placeholders, bounds),
            states,
            queue.spec.filtered_indexes,
        )
    };
    let of_state = states.iter().map(|state| {
        let state = [("state", state.code().to_string())];
        let of_state = render(GROUP_LIST, "of_state", &with(placeholders, state));
        format!("\n            {of_state}")
    });
    let of_state: String = of_state.collect();
    let names: Vec<String> = (1..=queue.key.len())
        .map(|number| format!("h.lb_k{number}"))
        .collect();
    let leased_first = if groups.is_strict() {
        "CASE f.lb_state WHEN 1 THEN 0 ELSE 1 END"
    } else {
        "f.lb_state"
    };
    let parts = [
        ("next_first", next("IS NOT NULL")),
        ("next_after", next(&after)),
        (
            "states",
            render(GROUP_LIST, "ready", placeholders) + &of_state,
        ),
        ("h_key_names", names.join(", ")),
        (
            "head_order",
            format!("{leased_first}, {}", placeholders["f_group_order"]),
        ),
    ];
    render(GROUP_LIST, "list", &with(placeholders, parts))
}

/// Renders the statement that finds the next group.
fn next(placeholders: &Placeholders, states: &[State], filtered_indexes: bool) -> String {
    let in_states = if filtered_indexes {
        vec![placeholders["t_busy_states"].clone()]
    } else {
        let state = &placeholders["lease_state"];
        let states = states.iter();
        states
            .map(|one| format!("t.{state} = {}", one.code()))
            .collect()
    };
    let busy = (1..)
        .zip(in_states)
        .map(|(number, in_state): (usize, String)| {
            let parts = [("in_state", in_state), ("number", number.to_string())];
            let next_busy = render(GROUP_LIST, "next_busy", &with(placeholders, parts));
            format!("\n            {next_busy}")
        });
    let parts = [
        ("next_ready", render(GROUP_LIST, "next_ready", placeholders)),
        ("next_busy", busy.collect()),
    ];
    render(GROUP_LIST, "next", &with(placeholders, parts))
}
