//! The rendered statements of `search.sql`. A search is rendered for each page: its text depends on the filter.

use std::iter::once;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{Order, SoftLockColumn};

use super::backfill::{self, Comparison};
use super::catalogue::{Column, variable_type};
use super::new_item::json_declaration;
use super::queue_statements::QueueStatements;
use super::quote::quote;
use super::statement_parts::with_key_list;
use crate::adoption::with;
use crate::template::{Placeholders, render};
use crate::{ItemSearch, SearchPosition};

const SEARCH: &str = lease_broker_sql::mssql::SEARCH;

/// The order in which a search looks at rows.
pub(super) struct Walk {
    /// The section with the condition that all of its rows meet.
    rows: &'static str,
    /// The placeholder of the hint that names its index, on the first page and on later ones.
    hints: [&'static str; 2],
    /// The column that sorts before the key. `None`: the key alone.
    pub(super) time: Option<SoftLockColumn>,
}

/// A column of a filter. `None` instead of a value: NULL.
pub(super) struct FilterColumn<'a> {
    pub(super) column: &'a Column,
    pub(super) is_null: bool,
}

impl QueueStatements {
    /// Returns the order of a search for items of one state.
    pub(super) fn walk(&self, state: State) -> Walk {
        let sorts_by_key = matches!(&self.spec.order, Order::By(columns) if columns.is_empty());
        let by = |rows, hint, time| Walk {
            rows,
            hints: [hint, hint],
            time,
        };
        let by_time = |column, rows, hint| {
            self.has_exact_time(column)
                .then(|| by(rows, hint, Some(column)))
        };
        let walk = match state {
            _ if !self.spec.filtered_indexes => None,
            State::Dead => by_time(SoftLockColumn::StateTime, "range_dead", "dead_hint"),
            State::Leased | State::Delayed => {
                by_time(SoftLockColumn::DueTime, "range_due", "due_walk_hint")
            }
            State::Ready => sorts_by_key.then(|| by("range_ready", "ready_hint", None)),
            State::Completed => None,
        };
        walk.unwrap_or(Walk {
            rows: "range_all",
            hints: ["first_walk_hint", "next_walk_hint"],
            time: None,
        })
    }

    fn has_exact_time(&self, column: SoftLockColumn) -> bool {
        let name = self.spec.soft_lock.name(column);
        let mut exact = self.exact_times.iter();
        exact.any(|exact| exact.eq_ignore_ascii_case(name))
    }

    /// Renders the batch of a page. `columns` are those of the filter, in its order.
    pub(super) fn render_search(
        &self,
        search: &ItemSearch,
        columns: &[FilterColumn<'_>],
    ) -> String {
        let walk = self.walk(search.state);
        let is_descending = search.newest_first && search.state == State::Dead;
        let time = walk.time.map(|time| quote(self.spec.soft_lock.name(time)));
        let mut placeholders = self.placeholders.clone();
        let direction = if is_descending && walk.time.is_some() {
            " DESC"
        } else {
            ""
        };
        let key = self.key.iter().map(|column| quote(&column.name));
        let order = time.iter().cloned().chain(key);
        let order: Vec<String> = order
            .map(|column| format!("t.{column}{direction}"))
            .collect();
        placeholders.insert("search_order", order.join(", "));
        placeholders.insert("search_time", time.unwrap_or_default());
        placeholders.insert("state", search.state.code().to_string());
        backfill::set_position_placeholders(&mut placeholders, &self.key);
        let beyond = if direction.is_empty() {
            Comparison::Greater
        } else {
            Comparison::Less
        };
        let beyond = backfill::beyond_position(&self.key, beyond);
        placeholders.insert("beyond_position", beyond);
        placeholders.insert("fits", fits(&placeholders, search, columns));
        let read_filter = if columns.is_empty() {
            String::new()
        } else {
            set_filter_placeholders(&mut placeholders, columns);
            render(SEARCH, "read_filter", &placeholders) + "\n"
        };
        placeholders.insert("read_filter", read_filter);
        let read_position = if search.after.is_some() {
            render(SEARCH, "read_position", &placeholders) + "\n"
        } else {
            String::new()
        };
        placeholders.insert("read_position", read_position);
        let ranges = ranges(&walk, search, is_descending);
        let ranges: Vec<String> = ranges
            .into_iter()
            .map(|sections| find_range(&placeholders, &walk, search, &sections))
            .collect();
        placeholders.insert("find_ranges", ranges.join("\n"));
        render(SEARCH, "search", &placeholders)
    }

    /// Renders the batch that finds items by key.
    pub(super) fn render_find_keys(&self) -> String {
        render(SEARCH, "find_keys", &self.with_item_columns())
    }

    /// Renders the batch that reads one item with its columns.
    pub(super) fn render_read_record(&self) -> String {
        let checkpoint = match &self.checkpoint {
            None => "CONVERT(bigint, NULL)".to_owned(),
            Some(column) => format!("CONVERT(bigint, DATALENGTH(t.{}))", quote(&column.name)),
        };
        let placeholders = with(
            &self.with_item_columns(),
            [("checkpoint_bytes", checkpoint)],
        );
        render(SEARCH, "read_record", &placeholders)
    }

    fn with_item_columns(&self) -> Placeholders {
        let columns = render(SEARCH, "item_columns", &self.placeholders);
        let placeholders = with_key_list(&self.lease_sql, &self.placeholders);
        with(&placeholders, [("item_columns", columns)])
    }
}

/// Returns the ranges of rows of a page, in the order of the search: for each the sections of its conditions.
fn ranges(walk: &Walk, search: &ItemSearch, is_descending: bool) -> Vec<Vec<&'static str>> {
    let conditions: Vec<&'static [&'static str]> = match &search.after {
        None => vec![&[]],
        Some(_) if walk.time.is_none() => vec![&["range_after_key"]],
        Some(SearchPosition { time: Some(_), .. }) if is_descending => vec![
            &["range_same_time"],
            &["range_earlier"],
            // NULL is the least value.
            &["range_no_time"],
        ],
        Some(SearchPosition { time: Some(_), .. }) => vec![&["range_same_time"], &["range_later"]],
        Some(SearchPosition { time: None, .. }) if is_descending => vec![&["range_same_no_time"]],
        Some(SearchPosition { time: None, .. }) => {
            vec![&["range_same_no_time"], &["range_any_time"]]
        }
    };
    let ranges = conditions.into_iter();
    ranges
        .map(|range| once(walk.rows).chain(range.iter().copied()).collect())
        .collect()
}

/// Renders the statement that looks at the rows of one range.
fn find_range(
    placeholders: &Placeholders,
    walk: &Walk,
    search: &ItemSearch,
    sections: &[&str],
) -> String {
    let mut range: Vec<String> = sections
        .iter()
        .map(|section| render(SEARCH, section, placeholders))
        .collect();
    if walk.time == Some(SoftLockColumn::StateTime) {
        // The index of the walk finds the first of these rows.
        let (since, before) = (&search.filter.state_since, &search.filter.state_before);
        for (bound, section) in [(since, "range_since"), (before, "range_before")] {
            if bound.is_some() {
                range.push(render(SEARCH, section, placeholders));
            }
        }
    }
    let hint = walk.hints[usize::from(search.after.is_some())];
    let placeholders = with(
        placeholders,
        [
            ("range", range.join(" ")),
            ("range_hint", placeholders[hint].clone()),
        ],
    );
    render(SEARCH, "find_range", &placeholders)
}

/// Renders the condition that a row fits the search.
fn fits(placeholders: &Placeholders, search: &ItemSearch, columns: &[FilterColumn<'_>]) -> String {
    let filter = &search.filter;
    let sections = [
        (true, "fits_state"),
        (filter.owner.is_some(), "fits_owner"),
        (filter.error_contains.is_some(), "fits_error"),
        (filter.state_since.is_some(), "fits_since"),
        (filter.state_before.is_some(), "fits_before"),
        (filter.min_attempt.is_some(), "fits_attempt"),
        (search.not_since.is_some(), "fits_not_since"),
    ];
    let sections = sections.into_iter().filter(|(is_set, _)| *is_set);
    let conditions = sections.map(|(_, section)| render(SEARCH, section, placeholders));
    let of_columns = columns.iter().enumerate().map(|(index, filter)| {
        let name = quote(&filter.column.name);
        if filter.is_null {
            format!("t.{name} IS NULL")
        } else {
            format!("t.{name} = @c{index}")
        }
    });
    conditions
        .chain(of_columns)
        .collect::<Vec<_>>()
        .join(" AND ")
}

/// Sets the placeholders of the values of a filter's columns.
fn set_filter_placeholders(placeholders: &mut Placeholders, columns: &[FilterColumn<'_>]) {
    let list = |render: &dyn Fn(usize, &Column) -> String| -> String {
        let columns = columns.iter().enumerate();
        let parts = columns.map(|(index, filter)| render(index, filter.column));
        parts.collect::<Vec<_>>().join(", ")
    };
    placeholders.insert(
        "filter_variables",
        list(&|index, column| format!("@c{index} {}", variable_type(column))),
    );
    placeholders.insert(
        "filter_into_variables",
        list(&|index, column| {
            let value = column.kind.of_json(&format!("j.c{index}"));
            format!("@c{index} = {value}")
        }),
    );
    placeholders.insert("filter_json_schema", list(&json_declaration));
}
