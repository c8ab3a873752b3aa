//! The settings that `adopt` proposes for a table: a guess from the names and types of its columns, which a person checks.

use std::collections::BTreeMap;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{SoftLock, SoftLockColumn};
use lease_broker_store::{ColumnClass, Survey, SurveyedColumn};
use toml::Value;

/// The settings of a queue over an existing table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Proposal {
    /// The name of the queue.
    pub(super) queue: String,
    pub(super) table: String,
    /// The columns that identify a row. Empty: the primary key.
    pub(super) key: Vec<String>,
    /// The columns that workers may write.
    pub(super) writable: Vec<String>,
    /// The columns of the table that show the state of an item to other programs.
    pub(super) mirror: Mirror,
    /// Names for soft-lock columns whose default names the table uses for columns of its own: default name and new name.
    pub(super) renamed: Vec<(&'static str, String)>,
}

/// Values of columns by state, as the configuration writes them.
pub(super) type Mirror = Vec<(State, Vec<(String, Value)>)>;

/// Parts of the names of columns that show that a row is done.
const DONE: [&str; 9] = [
    "process", "complet", "finish", "done", "handled", "sent", "shipped", "closed", "executed",
];
/// The last words of the names of numbers that are 1 if a row is done.
const WORDS: [&str; 10] = [
    "processed",
    "complete",
    "completed",
    "finished",
    "done",
    "handled",
    "sent",
    "shipped",
    "closed",
    "executed",
];
/// Names of columns that hold a state as text.
const STATE: [&str; 4] = ["status", "state", "stage", "phase"];
/// Texts that show a state.
const TEXTS: [(State, &[&str]); 4] = [
    (
        State::Ready,
        &[
            "new", "ready", "pending", "open", "queued", "todo", "created",
        ],
    ),
    (
        State::Leased,
        &[
            "processing",
            "in process",
            "in progress",
            "running",
            "working",
            "started",
            "active",
        ],
    ),
    (
        State::Completed,
        &[
            "done",
            "completed",
            "complete",
            "processed",
            "finished",
            "closed",
            "success",
            "succeeded",
        ],
    ),
    (State::Dead, &["error", "failed", "dead", "rejected"]),
];

/// Returns the name of a queue over `table`: the table's name without its schema and without brackets, in lower case.
pub(super) fn queue_name(table: &str) -> String {
    let separator = if table.ends_with(']') { '[' } else { '.' };
    let name = table.rsplit(separator).next().unwrap_or(table);
    name.trim_end_matches(']').to_lowercase()
}

/// Returns the ways in which the table can show the state of an item, the most likely first. `texts` returns the different values
/// of a column as texts.
pub(super) fn mirrors<E>(
    survey: &Survey,
    mut texts: impl FnMut(&str) -> Result<Vec<String>, E>,
) -> Result<Vec<Mirror>, E> {
    let mut mirrors = Vec::new();
    let in_key =
        |column: &&SurveyedColumn| survey.keys.iter().flatten().any(|key| *key == column.name);
    let candidates = || {
        survey
            .columns
            .iter()
            .filter(|column| column.writable && !in_key(column))
    };
    let contains = |column: &SurveyedColumn, parts: &[&str]| {
        let name = column.name.to_lowercase();
        parts.iter().any(|part| name.contains(part))
    };
    for column in candidates().filter(|column| contains(column, &DONE)) {
        let one = |value: Value| vec![(column.name.clone(), value)];
        let pair = |ready, completed| {
            vec![
                (State::Ready, one(ready)),
                (State::Completed, one(completed)),
            ]
        };
        match column.class {
            ColumnClass::Flag => mirrors.push(pair(0.into(), 1.into())),
            // Other numbers are no flag: `processing_minutes`, `sent_count`.
            ColumnClass::Integer => {
                let is_flag = |value: &String| value == "0" || value == "1";
                if is_done(&column.name) && texts(&column.name)?.iter().all(is_flag) {
                    mirrors.push(pair(0.into(), 1.into()));
                }
            }
            ColumnClass::Time if column.nullable => {
                mirrors.push(pair("$null".into(), "$now".into()));
            }
            _ => {}
        }
    }
    let states =
        candidates().filter(|column| column.class == ColumnClass::Text && contains(column, &STATE));
    for column in states {
        let texts = texts(&column.name)?;
        let of_state = |(state, known): &(State, &[&str])| {
            let text = texts
                .iter()
                .find(|text| known.contains(&&*text.to_lowercase()))?;
            Some((
                *state,
                vec![(column.name.clone(), Value::from(text.as_str()))],
            ))
        };
        let mut mirror: Mirror = TEXTS.iter().filter_map(of_state).collect();
        show_delayed_as_ready(&mut mirror);
        if columns_of(&mirror, State::Ready).is_some()
            && columns_of(&mirror, State::Completed).is_some()
        {
            mirrors.push(mirror);
        }
    }
    Ok(mirrors)
}

/// Gives delayed items the values of ready ones. Otherwise the row of a failed item would show the values of a leased one until its
/// next attempt.
fn show_delayed_as_ready(mirror: &mut Mirror) {
    let leased = mirror.iter().position(|(state, _)| *state == State::Leased);
    let ready = columns_of(mirror, State::Ready).cloned();
    if let (Some(leased), Some(ready)) = (leased, ready) {
        mirror.insert(leased + 1, (State::Delayed, ready));
    }
}

/// Returns the columns that show a state, with their values. `None`: no column shows it.
pub(super) fn columns_of(mirror: &Mirror, state: State) -> Option<&Vec<(String, Value)>> {
    let mut states = mirror.iter();
    states.find_map(|(other, columns)| (*other == state).then_some(columns))
}

/// Returns whether the last word of a column's name says that a row is done: `processed`, `IsSent`.
fn is_done(name: &str) -> bool {
    let before_last = |pair: &(usize, char, char)| {
        let (_, left, right) = *pair;
        !left.is_alphanumeric() || left.is_lowercase() && right.is_uppercase()
    };
    let pairs = name.char_indices().zip(name.chars().skip(1));
    let pairs = pairs.map(|((index, left), right)| (index + left.len_utf8(), left, right));
    let start = pairs.filter(before_last).last();
    let word = start.map_or(name, |(index, ..)| &name[index..]);
    WORDS.contains(&&*word.to_lowercase())
}

/// Returns the values of mirror columns whose rows would become ready without being shown as ready, with their column. These are values
/// that show no state, and that of a leased item: another program processes its row. `values` returns the different values of a column
/// as texts.
pub(super) fn others<'a, E>(
    mirror: &'a Mirror,
    values: &mut impl FnMut(&str) -> Result<Vec<String>, E>,
) -> Result<Vec<(&'a str, Vec<String>)>, E> {
    let mut shown: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let states = mirror.iter().filter(|(state, _)| *state != State::Leased);
    for (column, value) in states.flat_map(|(_, columns)| columns) {
        let value = value.as_str().map_or(value.to_string(), str::to_owned);
        shown.entry(column).or_default().push(value);
    }
    shown.retain(|_, values| !values.iter().any(|value| value.starts_with('$')));
    let mut others = Vec::new();
    for (column, shown) in shown {
        let mut values = values(column)?;
        values.retain(|value| !shown.contains(value));
        if !values.is_empty() {
            others.push((column, values));
        }
    }
    Ok(others)
}

/// Returns the columns that a worker probably writes as its result: those that a row can lack and that show no state.
pub(super) fn result_columns(survey: &Survey, mirror: &Mirror, key: &[String]) -> Vec<String> {
    let is_mirror = |column: &SurveyedColumn| {
        let mut columns = mirror.iter().flat_map(|(_, columns)| columns);
        columns.any(|(name, _)| *name == column.name)
    };
    let soft_lock = SoftLock::default();
    let columns = survey.columns.iter();
    columns
        .filter(|column| column.nullable && column.writable && !is_mirror(column))
        .filter(|column| !column.added && !soft_lock.contains(&column.name))
        .filter(|column| !key.contains(&column.name))
        .map(|column| column.name.clone())
        .collect()
}

/// Returns the key that the configuration has to name. Empty: it need not name one. `None`: the table has no key.
pub(super) fn key(survey: &Survey) -> Option<Vec<String>> {
    if survey.has_default_key {
        return Some(Vec::new());
    }
    survey.keys.iter().min_by_key(|key| key.len()).cloned()
}

/// Returns other names for the soft-lock columns whose default names the table uses, unless the table is a queue already. A column of an
/// adoption that was interrupted is none of the table's own.
pub(super) fn renamed(survey: &Survey) -> Vec<(&'static str, String)> {
    let default = SoftLock::default();
    let exists = |column: &SoftLockColumn| survey.column(default.name(*column)).is_some();
    let is_queue = SoftLockColumn::ALL[..9].iter().all(exists);
    let is_taken = |name: &str| survey.column(name).is_some_and(|column| !column.added);
    let taken = SoftLockColumn::ALL
        .into_iter()
        .map(SoftLockColumn::default_name);
    let taken = taken.filter(|name| !is_queue && is_taken(name));
    taken
        .map(|name| {
            let mut renamed = format!("lb_{name}");
            while is_taken(&renamed) {
                renamed.insert_str(0, "lb_");
            }
            (name, renamed)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, declared: &str, nullable: bool) -> SurveyedColumn {
        SurveyedColumn {
            name: name.to_owned(),
            class: ColumnClass::of_declaration(declared),
            nullable,
            writable: true,
            added: false,
        }
    }

    fn survey(columns: Vec<SurveyedColumn>) -> Survey {
        Survey {
            keys: vec![vec![columns[0].name.clone()]],
            nullable_keys: Vec::new(),
            has_default_key: true,
            columns,
            rows: 0,
        }
    }

    fn found(survey: &Survey, texts: &[&str]) -> Vec<Mirror> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        mirrors::<()>(survey, |_| Ok(texts.clone())).expect("no error")
    }

    #[test]
    fn flag_and_time_show_completion() {
        let survey = survey(vec![
            column("Order_ID", "int", false),
            column("Processed", "bit", false),
            column("Completed_At", "datetime2(3)", true),
            column("Total", "decimal(9,2)", true),
        ]);
        let mirrors = found(&survey, &[]);
        let shows = |column: &str, ready: Value, completed: Value| {
            let one = |value| vec![(column.to_owned(), value)];
            vec![
                (State::Ready, one(ready)),
                (State::Completed, one(completed)),
            ]
        };
        assert_eq!(
            mirrors,
            [
                shows("Processed", 0.into(), 1.into()),
                shows("Completed_At", "$null".into(), "$now".into()),
            ]
        );
        assert_eq!(
            result_columns(&survey, &mirrors[0], &[]),
            ["Completed_At", "Total"]
        );
    }

    #[test]
    fn numbers_that_are_no_flags_are_left_alone() {
        for (name, texts, is_flag) in [
            ("Processed", &["0", "1"][..], true),
            ("is_sent", &[], true),
            ("IsDone", &["0"], true),
            ("Processed", &["0", "2"], false),
            ("processing_minutes", &[], false),
            ("presented", &[], false),
            ("sent_count", &[], false),
        ] {
            let survey = survey(vec![
                column("id", "int", false),
                column(name, "integer", true),
            ]);
            assert_eq!(!found(&survey, texts).is_empty(), is_flag, "{name}");
        }
    }

    #[test]
    fn queue_has_the_name_of_the_table_without_its_schema() {
        for (table, queue) in [
            ("dbo.Orders", "orders"),
            ("[dbo].Orders", "orders"),
            ("[my schema].[My.Table]", "my.table"),
            ("[dot.ted name]", "dot.ted name"),
        ] {
            assert_eq!(queue_name(table), queue);
        }
    }

    #[test]
    fn texts_of_a_status_column_show_states() {
        let survey = survey(vec![
            column("id", "int", false),
            column("Status", "varchar(20)", false),
        ]);
        let mirrors = found(&survey, &["Completed", "Error", "In Process", "Pending"]);
        let states: Vec<State> = mirrors[0].iter().map(|(state, _)| *state).collect();
        assert_eq!(
            states,
            [
                State::Ready,
                State::Leased,
                State::Delayed,
                State::Completed,
                State::Dead
            ]
        );
        let delayed = columns_of(&mirrors[0], State::Delayed).expect("columns");
        assert_eq!(delayed[0].1, "Pending".into());
        assert_eq!(found(&survey, &["red", "green"]), Vec::<Mirror>::new());
    }

    #[test]
    fn values_that_do_not_show_a_ready_row_are_found() {
        let survey = survey(vec![
            column("id", "int", false),
            column("Status", "varchar(20)", false),
            column("Sent_At", "datetime2(3)", true),
        ]);
        let texts = ["Completed", "cancelled", "new", "running"];
        let found = found(&survey, &texts);
        let mut values = |_: &str| Ok::<_, ()>(texts.map(str::to_owned).to_vec());
        let others = others(&found[1], &mut values).expect("no error");
        assert_eq!(
            others,
            [("Status", vec!["cancelled".to_owned(), "running".to_owned()])]
        );
        assert_eq!(super::others(&found[0], &mut values), Ok(vec![]));
    }

    #[test]
    fn taken_names_are_replaced_unless_the_table_is_a_queue() {
        let table = survey(vec![
            column("id", "int", false),
            column("Lease_Owner", "text", true),
        ]);
        assert_eq!(
            renamed(&table),
            [("lease_owner", "lb_lease_owner".to_owned())]
        );
        let all = SoftLockColumn::ALL[..9].iter();
        let all = all.map(|part| column(part.default_name(), "text", true));
        let all: Vec<SurveyedColumn> = all.collect();
        assert_eq!(renamed(&survey(all.clone())), []);
        let half = all.into_iter().take(4).map(|column| SurveyedColumn {
            added: true,
            ..column
        });
        assert_eq!(renamed(&survey(half.collect())), [], "of the broker");
    }

    #[test]
    fn new_name_of_a_soft_lock_column_is_free() {
        let table = survey(vec![
            column("id", "int", false),
            column("lease_owner", "text", true),
            column("LB_Lease_Owner", "text", true),
        ]);
        assert_eq!(
            renamed(&table),
            [("lease_owner", "lb_lb_lease_owner".to_owned())]
        );
    }
}
