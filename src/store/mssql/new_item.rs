//! New items of a queue: checks and encodes their values, renders the INSERT, and finds the column that a constraint
//! refused.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use lease_broker_value::Value;
use serde_json::{Value as Json, json};

use super::catalogue::Column;
use super::list_parameters::{EntryValue, FIRST_LIST, ListEntry, MAX_INLINE_UNITS};
use super::placeholders::declaration;
use super::queue_statements::QueueStatements;
use super::quote::quote;
use super::{types, value_limits};
use crate::contract::ready_after;
use crate::new_item::{check_item_size, check_key_length, insertable_column};
use crate::template::render;
use crate::{NewItem, Problem, StoreError};

const ENQUEUE: &str = lease_broker_sql::mssql::ENQUEUE;

impl QueueStatements {
    /// Returns items that one call adds to the queue, in their order. They name the same columns in one order, as far as this changes
    /// nothing: NULL is added for a column that only others name, if it has no default. One INSERT then adds more of them.
    pub(super) fn with_same_columns<'a>(
        &self,
        items: impl Iterator<Item = &'a NewItem> + Clone,
    ) -> Vec<Cow<'a, NewItem>> {
        let names = |item: &'a NewItem| item.columns.iter().map(|(name, _)| name.as_str());
        let mut rest = items.clone();
        let first = rest.next();
        if first.is_none_or(|first| rest.all(|item| names(item).eq(names(first)))) {
            return items.map(Cow::Borrowed).collect();
        }
        let is_null_without_value = |name: &&str| {
            let column = self.insertable.get(*name);
            column.is_some_and(|column| column.nullable && !column.has_default)
        };
        let common: BTreeSet<&str> = items
            .clone()
            .flat_map(names)
            .filter(is_null_without_value)
            .collect();
        let with_common = |item: &'a NewItem| {
            let mut filled = item.clone();
            let missing = common
                .iter()
                .filter(|name| names(item).all(|named| named != **name));
            let nulls = missing.map(|name| ((*name).to_owned(), Value::Null));
            filled.columns.extend(nulls);
            filled
                .columns
                .sort_by(|(left, _), (right, _)| left.cmp(right));
            Cow::Owned(filled)
        };
        items.map(with_common).collect()
    }

    /// Encodes an item as an entry of the list that its INSERT reads.
    ///
    /// # Errors
    /// The refused column, and the reason.
    pub(super) fn encode_item(&self, item: &NewItem) -> Result<ListEntry, (String, Problem)> {
        let is_key = |name: &str| self.key.iter().any(|part| part.name == name);
        let is_data = |name: &str| self.columns.iter().any(|column| column == name);
        check_key_length(item, is_key)?;
        check_item_size(item, self.item_size, &self.spec, is_key, is_data)?;
        let mut entry = ListEntry::default();
        for (index, (name, value)) in item.columns.iter().enumerate() {
            let column = insertable_column(&self.spec.name, item, index, &self.insertable)?;
            let value = self
                .encode_value(name, column, value)
                .map_err(|text| (name.clone(), Problem::unfit(text)))?;
            entry.insert(format!("c{index}"), value);
        }
        let (state, delay) = ready_after(item.delay);
        entry.insert("n", json!(state.code()));
        insert_delay(&mut entry, delay);
        entry.insert("p", json!(item.trace_parent));
        Ok(entry)
    }

    /// Encodes the value of one column.
    ///
    /// # Errors
    /// The reason why the column cannot be set to the value.
    pub(super) fn encode_value(
        &self,
        name: &str,
        column: &Column,
        value: &Value,
    ) -> Result<EntryValue, String> {
        if *value == Value::Null && self.key.iter().any(|part| part.name == column.name) {
            return Err(format!("{name:?} is part of the key and cannot be NULL"));
        }
        value_limits::check(value, column)?;
        if let (Value::Text(text), false) = (value, self.stores_nul)
            && text.contains('\0')
        {
            return Err("the database stores no NUL character".to_owned());
        }
        match types::encode(value, column.kind)? {
            EntryValue::Json(Json::String(text))
                if text.encode_utf16().count() > MAX_INLINE_UNITS =>
            {
                if column.has_long_texts() {
                    Ok(EntryValue::Long(text))
                } else {
                    Err(format!("{name:?} can hold {MAX_INLINE_UNITS} characters"))
                }
            }
            value => Ok(value),
        }
    }

    /// Renders sections of `enqueue.sql` for items that name the same columns as `item`. `list_number` is the number of
    /// their list in the batch, from 0.
    pub(super) fn render_insert(
        &self,
        sections: &[&str],
        item: &NewItem,
        list_number: usize,
    ) -> String {
        let sections: Vec<_> = sections.iter().map(|section| (ENQUEUE, *section)).collect();
        self.render_insert_of(&sections, item, list_number)
    }

    /// As [`Self::render_insert`], for sections of several files. A section is the text of its file and its name.
    pub(super) fn render_insert_of(
        &self,
        sections: &[(&str, &str)],
        item: &NewItem,
        list_number: usize,
    ) -> String {
        let mut placeholders = self.placeholders.clone();
        let (columns, values) = if item.delay.is_zero() {
            ("mirror_columns_ready", "mirror_values_ready")
        } else {
            ("mirror_columns_delayed", "mirror_values_delayed")
        };
        placeholders.insert("mirror_columns", self.placeholders[columns].clone());
        placeholders.insert("mirror_values", self.placeholders[values].clone());
        let named: Vec<(usize, &Column)> = item
            .columns
            .iter()
            .enumerate()
            .filter_map(|(index, (name, _))| Some((index, self.insertable.get(name)?)))
            .collect();
        let for_each_column = |render: &dyn Fn(usize, &Column) -> String| -> String {
            let parts = named.iter();
            let parts: Vec<String> = parts
                .map(|(index, column)| format!(", {}", render(*index, column)))
                .collect();
            parts.concat()
        };
        placeholders.insert(
            "item_columns",
            for_each_column(&|_, column| quote(&column.name)),
        );
        placeholders.insert(
            "item_declarations",
            for_each_column(&|index, column| declaration(&format!("lb_c{index}"), column, "NULL")),
        );
        placeholders.insert(
            "item_names",
            for_each_column(&|index, _| format!("lb_c{index}")),
        );
        placeholders.insert(
            "n_item_columns",
            for_each_column(&|index, _| format!("n.lb_c{index}")),
        );
        placeholders.insert(
            "item_values",
            for_each_column(&|index, column| value_from_json(index, column, list_number)),
        );
        placeholders.insert("item_json_schema", for_each_column(&json_declaration));
        let index_of = |part: &Column| {
            let mut columns = item.columns.iter();
            columns.position(|(name, _)| *name == part.name)
        };
        let key_columns = self.key.iter().filter_map(index_of);
        let key_columns: Vec<String> = key_columns.map(|index| format!("n.lb_c{index}")).collect();
        placeholders.insert("n_key_columns", key_columns.join(", "));
        placeholders.insert("key_direction", self.key_source.direction().to_owned());
        placeholders.insert("list_parameter", format!("@P{}", list_number + FIRST_LIST));
        placeholders.insert("list_number", list_number.to_string());
        let bad_character_index = for_each_column(&|index, column| match column.character_set() {
            Some(collation) => {
                let is_bad = has_unsupported_characters(index, column, list_number, collation);
                format!("CASE WHEN {is_bad} THEN {index} END")
            }
            None => "NULL".to_owned(),
        });
        let check_characters = if bad_character_index.contains("CASE") {
            // COALESCE needs at least two arguments.
            placeholders.insert(
                "bad_character_index",
                format!("COALESCE(NULL{bad_character_index})"),
            );
            render(ENQUEUE, "check_characters", &placeholders) + "\n"
        } else {
            String::new()
        };
        placeholders.insert("check_characters", check_characters);
        let read_long_texts = if named.iter().any(|(_, column)| column.has_long_texts()) {
            render(ENQUEUE, "read_long_texts", &placeholders)
        } else {
            String::new()
        };
        placeholders.insert("read_long_texts", read_long_texts);
        for section in ["verify_list", "verify_row", "verify_follow_ups"] {
            let verify = if self.drops_duplicates {
                format!("\n{}", render(ENQUEUE, section, &placeholders))
            } else {
                String::new()
            };
            placeholders.insert(section, verify);
        }
        let sections = sections.iter();
        let rendered: Vec<String> = sections
            .map(|(file, section)| render(file, section, &placeholders))
            .collect();
        rendered.join("\n")
    }

    /// Adds to a rejection the column that the server's message names, directly or by a unique index. `item_columns`
    /// are the columns that the item names. Other errors are returned unchanged.
    pub(super) fn name_refused_column(
        &self,
        error: StoreError,
        item_columns: &[(String, Value)],
    ) -> StoreError {
        let StoreError::Rejected(mut rejection) = error else {
            return error;
        };
        // Babelfish writes column names in lower case.
        let problem = rejection.problem.text.to_lowercase();
        let is_quoted = |name: &&str| {
            ["'", "\""].iter().any(|quote| {
                let words = format!("column {quote}{name}{quote}");
                problem.contains(&words.to_lowercase())
            })
        };
        // If a name contains a quotation mark, a shorter name can match as well. The longest match is the right one.
        let from_table = self.column_names.iter().map(String::as_str);
        let from_table = from_table
            .filter(is_quoted)
            .max_by_key(|name| name.len())
            .map(str::to_owned);
        // The message can name a column of a table variable: lb_k1 is the first column of the key, lb_c0 the first one
        // of the item.
        let number_after = |prefix: &str| {
            let name = rejection.column.as_deref()?.strip_prefix(prefix)?;
            name.parse::<usize>().ok()
        };
        let from_key = || {
            let index = number_after("lb_k")?.checked_sub(1)?;
            Some(self.key.get(index)?.name.clone())
        };
        let from_item = || Some(item_columns.get(number_after("lb_c")?)?.0.clone());
        let from_index = || {
            let mut indexes = self.single_column_indexes.iter();
            let found = indexes.find(|(index, _)| rejection.problem.text.contains(index));
            found.map(|(_, column)| column.clone())
        };
        let column = from_table
            .or_else(from_key)
            .or_else(from_item)
            .or_else(from_index);
        rejection.column = column;
        StoreError::Rejected(rejection)
    }
}

/// Adds a delay to an entry: whole seconds, and the rest in milliseconds, rounded up. DATEADD takes 32-bit numbers, and
/// a long delay in milliseconds would not fit.
pub(super) fn insert_delay(entry: &mut ListEntry, delay: Option<Duration>) {
    entry.insert("s", json!(delay.map(|delay| delay.as_secs())));
    let millis = delay.map(|delay| delay.subsec_nanos().div_ceil(1_000_000));
    entry.insert("d", json!(millis));
}

/// Declares a value of the JSON list. A text that can be long has a second field, the index of its long text.
pub(super) fn json_declaration(index: usize, column: &Column) -> String {
    let name = format!("c{index}");
    let value = column.kind.json_declaration(&name, &column.declared);
    if column.has_long_texts() {
        format!("{value}, {name}l int '$.{name}l'")
    } else {
        value
    }
}

/// Renders the expression that converts a value of the JSON list into the value of its column.
pub(super) fn value_from_json(index: usize, column: &Column, list_number: usize) -> String {
    let name = format!("j.c{index}");
    if column.has_long_texts() {
        let long =
            format!("(SELECT x.lb_x FROM @long_texts{list_number} AS x WHERE x.lb_l = {name}l)");
        column.kind.of_json(&format!("COALESCE({name}, {long})"))
    } else {
        column.kind.of_json(&name)
    }
}

/// Renders the condition that a text has a character which the column's code page lacks. It compares the text with the
/// result of a conversion to the code page and back.
pub(super) fn has_unsupported_characters(
    index: usize,
    column: &Column,
    list_number: usize,
    collation: &str,
) -> String {
    let text = value_from_json(index, column, list_number);
    format!(
        "CONVERT(nvarchar(max), CONVERT(varchar(max), {text} COLLATE {collation})) COLLATE Latin1_General_100_BIN2 \
         <> {text} COLLATE Latin1_General_100_BIN2"
    )
}
