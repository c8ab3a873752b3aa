//! A guess at the columns by which a table shows other programs the state of a row, from their names, types and values.

use lease_broker_model::item_state::State;
use lease_broker_store::{ColumnClass, Survey, SurveyedColumn};
use toml::Value;

use super::proposal::{Mirror, columns_of};

/// Different values of a column as texts, each with its number of rows.
pub(super) type Values = Vec<(String, u64)>;

/// Number of different values of a column that are read. A text column with that many holds no states.
pub(super) const MAX_VALUES: usize = 20;

/// The columns that can show the state of a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Guess {
    /// The ways to show that a row is done, the most likely first.
    pub(super) candidates: Vec<Candidate>,
    /// Columns that probably show states, but whose values do not tell which rows are ready and which are done.
    pub(super) unclear: Vec<Unclear>,
}

/// A way to show that a row is done.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) mirror: Mirror,
    /// The rows that a person has to decide about.
    pub(super) doubts: Vec<Doubt>,
}

/// Rows that would become ready, although their value in a mirror column is not that of a ready row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Doubt {
    pub(super) column: String,
    pub(super) values: Values,
    /// Whether the values show that another program is working on the rows. Otherwise they show no state.
    pub(super) in_progress: bool,
}

/// A column that probably shows states.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unclear {
    pub(super) column: String,
    pub(super) values: Values,
    /// The states whose value is known.
    pub(super) mirror: Mirror,
}

/// The last words of the names of columns that show that a row is done.
const DONE: [&str; 10] = [
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
/// As [`DONE`], for times only.
const END: [&str; 2] = ["completion", "finish"];
/// The words after them in the names of times.
const TIME: [&str; 7] = ["at", "on", "date", "time", "datetime", "timestamp", "utc"];
/// Words that say that the row is not done, or not for good: `Not_Sent`, `To_Be_Processed`, `Last_Processed_At`.
const NOT_DONE: [&str; 8] = [
    "not",
    "never",
    "be",
    "last",
    "next",
    "expected",
    "estimated",
    "planned",
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

/// Guesses which columns show the state of a row. `values` returns up to [`MAX_VALUES`] values of a column.
pub(super) fn guess<E>(
    survey: &Survey,
    mut values: impl FnMut(&str) -> Result<Values, E>,
) -> Result<Guess, E> {
    let mut mirrors = Vec::new();
    let mut unclear = Vec::new();
    let in_key = |name: &String| survey.keys.iter().flatten().any(|key| key == name);
    let columns = survey.columns.iter();
    let columns =
        columns.filter(|column| column.writable && !column.added && !in_key(&column.name));
    for column in columns.clone().filter(|column| is_done(column)) {
        let is_flag = |(value, _): &(String, u64)| value == "0" || value == "1";
        match column.class {
            ColumnClass::Flag => mirrors.push(pair(column, 0.into(), 1.into())),
            ColumnClass::Integer if values(&column.name)?.iter().all(is_flag) => {
                mirrors.push(pair(column, 0.into(), 1.into()));
            }
            ColumnClass::Time if column.nullable => {
                mirrors.push(pair(column, "$null".into(), "$now".into()));
            }
            _ => {}
        }
    }
    for column in columns.filter(|column| can_hold_state(column)) {
        let values = values(&column.name)?;
        let mirror = of_texts(&column.name, &values);
        let has = |state| columns_of(&mirror, state).is_some();
        if has(State::Ready) && has(State::Completed) {
            mirrors.push(mirror);
        } else if !mirror.is_empty() || is_state(column) && has_states(&values) {
            unclear.push(Unclear {
                column: column.name.clone(),
                values,
                mirror,
            });
        }
    }
    let candidate = |mirror| {
        let doubts = doubts(&mirror, &mut values)?;
        Ok(Candidate { mirror, doubts })
    };
    Ok(Guess {
        candidates: mirrors
            .into_iter()
            .map(candidate)
            .collect::<Result<_, E>>()?,
        unclear,
    })
}

/// Returns a mirror with the values of ready and of completed rows.
fn pair(column: &SurveyedColumn, ready: Value, completed: Value) -> Mirror {
    let one = |value| vec![(column.name.clone(), value)];
    vec![
        (State::Ready, one(ready)),
        (State::Completed, one(completed)),
    ]
}

/// Returns the states that known texts of a column show.
fn of_texts(column: &str, values: &Values) -> Mirror {
    let of_state = |(state, known): &(State, &[&str])| {
        let mut texts = values.iter().map(|(text, _)| text);
        let text = texts.find(|text| known.contains(&&*text.to_lowercase()))?;
        Some((
            *state,
            vec![(column.to_owned(), Value::from(text.as_str()))],
        ))
    };
    let mut mirror: Mirror = TEXTS.iter().filter_map(of_state).collect();
    show_delayed_as_ready(&mut mirror);
    mirror
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

/// Returns whether the last word of a column's name says that a row is done: `processed`, `IsSent`, `Shipped_At`. Other words that
/// contain one of these do not: `Needs_Processing`, `Consent`, `sent_count`.
fn is_done(column: &SurveyedColumn) -> bool {
    let is_time = column.class == ColumnClass::Time;
    let mut words = words(&column.name);
    if words.iter().any(|word| NOT_DONE.contains(&&**word)) {
        return false;
    }
    while is_time && words.last().is_some_and(|word| TIME.contains(&&**word)) {
        words.pop();
    }
    words.last().is_some_and(|word| {
        let word = word.strip_prefix("is").unwrap_or(word);
        DONE.contains(&word) || is_time && END.contains(&word)
    })
}

/// Returns whether a column can hold states as texts.
fn can_hold_state(column: &SurveyedColumn) -> bool {
    let name = column.name.to_lowercase();
    column.class == ColumnClass::Text && STATE.iter().any(|part| name.contains(part))
}

/// Returns whether a word of a column's name says that it holds states.
fn is_state(column: &SurveyedColumn) -> bool {
    let words = words(&column.name);
    words.iter().any(|word| STATE.contains(&&**word))
}

/// Returns whether the values are so few that they can be states.
fn has_states(values: &Values) -> bool {
    (1..MAX_VALUES).contains(&values.len())
}

/// Splits a name into its words, in lower case. A word ends before a capital letter that follows a small one.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_after_small = false;
    for character in name.chars() {
        if !character.is_alphanumeric() || is_after_small && character.is_uppercase() {
            words.push(String::new());
        }
        if character.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(character.to_lowercase());
        }
        is_after_small = character.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the rows that would become ready, although their value in a mirror column is not that of a ready row. Only rows with
/// values of completed and dead rows get another state.
fn doubts<E>(
    mirror: &Mirror,
    values: &mut impl FnMut(&str) -> Result<Values, E>,
) -> Result<Vec<Doubt>, E> {
    let shown: Vec<(&str, State, String)> = mirror
        .iter()
        .flat_map(|(state, columns)| {
            columns.iter().map(|(column, value)| {
                let text = value.as_str().map_or(value.to_string(), str::to_owned);
                (column.as_str(), *state, text)
            })
        })
        .collect();
    let mut columns: Vec<&str> = shown.iter().map(|(column, ..)| *column).collect();
    columns.sort_unstable();
    columns.dedup();
    let mut doubts = Vec::new();
    for column in columns {
        let shown = shown.iter().filter(|(other, ..)| *other == column);
        if shown.clone().any(|(.., text)| text.starts_with('$')) {
            continue;
        }
        let states = |value: &str| {
            let shown = shown.clone().filter(|(.., text)| text == value);
            shown.map(|(_, state, _)| *state).collect::<Vec<_>>()
        };
        let is_safe = |states: &[State]| {
            let mut states = states.iter();
            states.any(|state| matches!(state, State::Ready | State::Completed | State::Dead))
        };
        let mut add = |values: Values, in_progress: bool| {
            if !values.is_empty() {
                let column = column.to_owned();
                doubts.push(Doubt {
                    column,
                    values,
                    in_progress,
                });
            }
        };
        let values = values(column)?.into_iter();
        let values = values.filter(|(text, _)| !is_safe(&states(text)));
        let (unknown, in_progress) = values.partition(|(text, _)| states(text).is_empty());
        add(unknown, false);
        add(in_progress, true);
    }
    Ok(doubts)
}

#[cfg(test)]
mod tests {
    use super::super::proposal::tests::{column, survey};
    use super::*;

    fn found(survey: &Survey, texts: &[&str]) -> Guess {
        let values: Values = texts.iter().map(|text| ((*text).to_owned(), 2)).collect();
        guess::<()>(survey, |_| Ok(values.clone())).expect("no error")
    }

    fn mirrors(survey: &Survey, texts: &[&str]) -> Vec<Mirror> {
        let candidates = found(survey, texts).candidates.into_iter();
        candidates.map(|candidate| candidate.mirror).collect()
    }

    #[test]
    fn flag_and_time_show_completion() {
        let survey = survey(vec![
            column("Order_ID", "int", false),
            column("Processed", "bit", false),
            column("Completed_At", "datetime2(3)", true),
            column("Total", "decimal(9,2)", true),
        ]);
        let shows = |column: &str, ready: Value, completed: Value| {
            let one = |value| vec![(column.to_owned(), value)];
            vec![
                (State::Ready, one(ready)),
                (State::Completed, one(completed)),
            ]
        };
        assert_eq!(
            mirrors(&survey, &[]),
            [
                shows("Processed", 0.into(), 1.into()),
                shows("Completed_At", "$null".into(), "$now".into()),
            ]
        );
    }

    #[test]
    fn names_of_other_meanings_are_left_alone() {
        for (name, declared, is_found) in [
            ("Processed", "bit", true),
            ("IsDone", "bit", true),
            ("ISSENT", "bit", true),
            ("Needs_Processing", "bit", false),
            ("Consent", "boolean", false),
            ("NotProcessed", "bit", false),
            ("To_Be_Sent", "bit", false),
            ("Shipped_At", "datetime", true),
            ("DateProcessed", "datetime", true),
            ("SentOnUtc", "datetime2(3)", true),
            ("Completion_Time", "datetime", true),
            ("Consent_Date", "datetime", false),
            ("Last_Processed_At", "datetime", false),
            ("ProcessingStarted", "datetime", false),
            ("is_sent", "integer", true),
            ("processing_minutes", "integer", false),
            ("presented", "integer", false),
            ("sent_count", "integer", false),
        ] {
            let survey = survey(vec![
                column("id", "int", false),
                column(name, declared, true),
            ]);
            assert_eq!(!mirrors(&survey, &["0"]).is_empty(), is_found, "{name}");
        }
    }

    #[test]
    fn numbers_that_are_no_flags_are_left_alone() {
        let survey = survey(vec![
            column("id", "int", false),
            column("Processed", "integer", true),
        ]);
        for (texts, is_flag) in [
            (&["0", "1"][..], true),
            (&["0"], true),
            (&[], true),
            (&["0", "2"], false),
        ] {
            assert_eq!(!mirrors(&survey, texts).is_empty(), is_flag, "{texts:?}");
        }
    }

    #[test]
    fn texts_of_a_status_column_show_states() {
        let survey = survey(vec![
            column("id", "int", false),
            column("Status", "varchar(20)", false),
        ]);
        let mirrors = mirrors(&survey, &["Completed", "Error", "In Process", "Pending"]);
        let shown: Vec<(State, &str)> = mirrors[0]
            .iter()
            .map(|(state, columns)| (*state, columns[0].1.as_str().expect("a text")))
            .collect();
        assert_eq!(
            shown,
            [
                (State::Ready, "Pending"),
                (State::Leased, "In Process"),
                (State::Delayed, "Pending"),
                (State::Completed, "Completed"),
                (State::Dead, "Error"),
            ]
        );
    }

    #[test]
    fn state_column_without_ready_or_completed_rows_is_unclear() {
        let many: Vec<String> = (0..MAX_VALUES).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for (name, texts, is_unclear) in [
            ("Status", &["new", "cancelled"][..], true),
            ("Status", &["neu", "erledigt"], true),
            ("orderstatus", &["done"], true),
            ("Status", &["new", "done"], false),
            ("Status", &[], false),
            ("Status", &many, false),
            ("statement", &["red", "green"], false),
        ] {
            let survey = survey(vec![
                column("id", "int", false),
                column(name, "varchar(20)", false),
            ]);
            let guess = found(&survey, texts);
            assert_eq!(!guess.unclear.is_empty(), is_unclear, "{name} {texts:?}");
        }
    }

    #[test]
    fn rows_that_would_become_ready_by_mistake_are_found() {
        let survey = survey(vec![
            column("id", "int", false),
            column("Status", "varchar(20)", false),
            column("Sent_At", "datetime2(3)", true),
        ]);
        let texts = ["Completed", "cancelled", "new", "done", "running"];
        let guess = found(&survey, &texts);
        let doubt = |values: &[&str], in_progress| Doubt {
            column: "Status".to_owned(),
            values: values.iter().map(|text| ((*text).to_owned(), 2)).collect(),
            in_progress,
        };
        assert_eq!(guess.candidates[0].doubts, []);
        assert_eq!(
            guess.candidates[1].doubts,
            [
                doubt(&["cancelled", "done"], false),
                doubt(&["running"], true)
            ]
        );
    }
}
