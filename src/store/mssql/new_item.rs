//! How a queue's table takes new items: what they may set, the statement that adds them, and who is to blame for a refusal.

use serde_json::{Value as Json, json};

use super::catalogue::Column;
use super::connection::Connection;
use super::list_parameters::{EntryValue, FIRST_LIST, ListEntry, MAX_INLINE_UNITS};
use super::placeholders::declaration;
use super::queue_statements::QueueStatements;
use super::quote::{quote, quote_table};
use super::{types, value_limits};
use crate::item_state::State;
use crate::queue::QueueSpec;
use crate::store::template::render;
use crate::store::{NewItem, StoreError, why_not_writable};
use crate::value::Value;

const ENQUEUE: &str = include_str!("../../../sql/mssql/enqueue.sql");

impl QueueStatements {
    /// Turns an item's values into an entry of an insert's list.
    ///
    /// # Errors
    /// The column to blame and what is wrong with it.
    pub(super) fn encode_item(&self, item: &NewItem) -> Result<ListEntry, (String, String)> {
        let mut values = ListEntry::default();
        for (at, (name, value)) in item.columns.iter().enumerate() {
            let mut earlier = item.columns[..at].iter();
            if earlier.any(|(earlier, _)| earlier == name) {
                return Err((name.clone(), format!("the column {name:?} is named twice")));
            }
            let Some(column) = self.writable.get(name) else {
                return Err((
                    name.clone(),
                    why_not_writable(&self.spec.name, name, self.writable.keys()),
                ));
            };
            if *value == Value::Null && self.key.iter().any(|part| part.name == column.name) {
                let problem = format!("{name:?} is of the key and can't be NULL");
                return Err((name.clone(), problem));
            }
            let value =
                value_limits::check(value, column).and_then(|()| types::encode(value, column.kind));
            let value = value.map_err(|problem| (name.clone(), problem))?;
            let value = match value {
                EntryValue::Json(Json::String(text))
                    if text.encode_utf16().count() > MAX_INLINE_UNITS =>
                {
                    if !column.has_long_texts() {
                        let problem =
                            format!("{name:?} has room for {} characters", MAX_INLINE_UNITS);
                        return Err((name.clone(), problem));
                    }
                    EntryValue::Long(text)
                }
                value => value,
            };
            values.insert(format!("c{at}"), value);
        }
        let (state, delay) = if item.delay.is_zero() {
            (State::Ready, None)
        } else {
            (State::Delayed, Some(item.delay))
        };
        values.insert("n", json!(state.code()));
        insert_delay(&mut values, delay);
        values.insert("p", json!(item.trace_parent));
        Ok(values)
    }

    /// Renders sections of `enqueue.sql` for items that name the columns of `item` and travel in list number `list`, from 0.
    pub(super) fn insert(&self, sections: &[&str], item: &NewItem, list: usize) -> String {
        let mut placeholders = self.placeholders.clone();
        let (columns, values) = if item.delay.is_zero() {
            ("mirror_columns_ready", "mirror_values_ready")
        } else {
            ("mirror_columns_delayed", "mirror_values_delayed")
        };
        placeholders.insert("mirror_columns", self.placeholders[columns].clone());
        placeholders.insert("mirror_values", self.placeholders[values].clone());
        let each = |render: &dyn Fn(usize, &Column) -> String| -> String {
            let named = item.columns.iter().enumerate();
            let named = named.filter_map(|(at, (name, _))| Some((at, self.writable.get(name)?)));
            let parts: Vec<String> = named
                .map(|(at, column)| format!(", {}", render(at, column)))
                .collect();
            parts.concat()
        };
        placeholders.insert("item_columns", each(&|_, column| quote(&column.name)));
        placeholders.insert(
            "item_declarations",
            each(&|at, column| declaration(&format!("lb_c{at}"), column, "NULL")),
        );
        placeholders.insert("item_names", each(&|at, _| format!("lb_c{at}")));
        placeholders.insert("n_item_columns", each(&|at, _| format!("n.lb_c{at}")));
        placeholders.insert(
            "item_values",
            each(&|at, column| value_from_json(at, column, list)),
        );
        placeholders.insert(
            "item_json_schema",
            each(&|at, column| {
                let name = format!("c{at}");
                let own = column.kind.json_declaration(&name, &column.declared);
                if column.has_long_texts() {
                    format!("{own}, {name}l int '$.{name}l'")
                } else {
                    own
                }
            }),
        );
        let place = |part: &Column| {
            let mut named = item.columns.iter();
            named.position(|(name, _)| *name == part.name)
        };
        let of_n = self.key.iter().filter_map(place);
        let of_n: Vec<String> = of_n.map(|at| format!("n.lb_c{at}")).collect();
        placeholders.insert("n_key_columns", of_n.join(", "));
        placeholders.insert("key_direction", self.key_source.direction().to_owned());
        placeholders.insert("list_parameter", format!("@P{}", list + FIRST_LIST));
        placeholders.insert("list_number", list.to_string());
        let lacking = each(&|at, column| match column.character_set() {
            Some(collation) => format!(
                "CASE WHEN {} THEN {at} END",
                unsupported_characters(at, column, list, collation)
            ),
            None => "NULL".to_owned(),
        });
        let letters = if lacking.contains("CASE") {
            // COALESCE takes two at least.
            placeholders.insert("bad_character_index", format!("COALESCE(NULL{lacking})"));
            render(ENQUEUE, "check_characters", &placeholders) + "\n"
        } else {
            String::new()
        };
        placeholders.insert("check_characters", letters);
        let named = item.columns.iter();
        let mut named = named.filter_map(|(name, _)| self.writable.get(name));
        let long_texts = if named.any(Column::has_long_texts) {
            render(ENQUEUE, "read_long_texts", &placeholders)
        } else {
            String::new()
        };
        placeholders.insert("read_long_texts", long_texts);
        let sections = sections.iter();
        let rendered: Vec<String> = sections
            .map(|section| render(ENQUEUE, section, &placeholders))
            .collect();
        rendered.join("\n")
    }

    /// Adds to a refusal the column that its message names, by itself or by its constraint; `named` are the columns that
    /// the items have named.
    pub(super) fn name_refused_column(
        &self,
        error: StoreError,
        named: &[(String, Value)],
    ) -> StoreError {
        let StoreError::Rejected(mut rejection) = error else {
            return error;
        };
        // Babelfish keeps small letters alone of a column's name.
        let problem = rejection.problem.to_lowercase();
        let in_quotes = |name: &&str| {
            ["'", "\""].iter().any(|quote| {
                let words = format!("column {quote}{name}{quote}");
                problem.contains(&words.to_lowercase())
            })
        };
        // A name may be the beginning of another one, up to a quotation mark within that.
        let of_table = self.names.iter().map(String::as_str).filter(in_quotes);
        let of_table = of_table.max_by_key(|name| name.len()).map(str::to_owned);
        let own = |prefix: &str| {
            let name = rejection.column.as_deref()?.strip_prefix(prefix)?;
            name.parse::<usize>().ok()
        };
        let of_key = || Some(self.key.get(own("lb_k")?.checked_sub(1)?)?.name.clone());
        let of_item = || Some(named.get(own("lb_c")?)?.0.clone());
        let of_index = || {
            let mut unique = self.unique.iter();
            let found = unique.find(|(index, _)| rejection.problem.contains(index));
            found.map(|(_, column)| column.clone())
        };
        let column = of_table.or_else(of_key).or_else(of_item).or_else(of_index);
        rejection.column = column;
        StoreError::Rejected(rejection)
    }
}

/// Writes a delay as the statements read it: seconds, and milliseconds rounded up, as DATEADD takes 32 bits.
pub(super) fn insert_delay(entry: &mut ListEntry, delay: Option<std::time::Duration>) {
    entry.insert("s", json!(delay.map(|delay| delay.as_secs())));
    let millis = delay.map(|delay| delay.subsec_nanos().div_ceil(1_000_000));
    entry.insert("d", json!(millis));
}

/// Writes what turns the JSON's value into the column's.
fn value_from_json(at: usize, column: &Column, list: usize) -> String {
    let name = format!("j.c{at}");
    if column.has_long_texts() {
        let long = format!("(SELECT x.lb_x FROM @long_texts{list} AS x WHERE x.lb_l = {name}l)");
        column.kind.of_json(&format!("COALESCE({name}, {long})"))
    } else {
        column.kind.of_json(&name)
    }
}

/// Writes the condition that a column's character set lacks a letter of the text that it is given.
fn unsupported_characters(at: usize, column: &Column, list: usize, collation: &str) -> String {
    let text = value_from_json(at, column, list);
    format!(
        "CONVERT(nvarchar(max), CONVERT(varchar(max), {text} COLLATE {collation})) COLLATE Latin1_General_100_BIN2 \
         <> {text} COLLATE Latin1_General_100_BIN2"
    )
}

const INCREMENT: &str = "SELECT CAST(i.increment_value AS bigint)
FROM sys.identity_columns AS i
WHERE i.object_id = OBJECT_ID(@P1) AND i.name = @P2";

/// What makes the keys of items that do not name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeySource {
    /// The one column of the key counts, by this much.
    Identity(i64),
    /// Defaults of any kind, or nothing.
    Defaults,
}

impl KeySource {
    pub(super) async fn read(
        connection: &mut Connection,
        queue: &QueueSpec,
        key: &[Column],
    ) -> Result<Self, StoreError> {
        let [column] = key else {
            return Ok(Self::Defaults);
        };
        let object = quote_table(&queue.table);
        let results = connection
            .query(INCREMENT, &[&object, &column.name])
            .await?;
        let increment: Option<i64> = match results.first().and_then(|rows| rows.first()) {
            Some(row) => row.try_get(0)?,
            None => None,
        };
        Ok(increment.map_or(Self::Defaults, Self::Identity))
    }

    /// Returns the section of `enqueue.sql` that adds items which name the same columns as `item`.
    pub(super) fn section(self, key: &[Column], item: &NewItem) -> &'static str {
        let names = |column: &Column| item.columns.iter().any(|(name, _)| *name == column.name);
        match self {
            _ if key.iter().all(names) => "insert_given_keys",
            Self::Identity(_) => "insert_identity_keys",
            Self::Defaults => "insert_row_by_row",
        }
    }

    /// Returns how the keys are sorted to stand as they were made.
    pub(super) fn direction(self) -> &'static str {
        match self {
            Self::Identity(increment) if increment < 0 => " DESC",
            Self::Identity(_) | Self::Defaults => "",
        }
    }
}
