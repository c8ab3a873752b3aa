//! Checks the column settings of a queue: names of soft-lock columns, mirror columns, managed columns.

use std::collections::BTreeMap;

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{
    Mirror, MirrorValue, OnComplete, Order, QueueSpec, SoftLock, SoftLockColumn,
};
use lease_broker_value::Value;

use super::error::InvalidSetting;

/// The longest name of a queue, table or column. An identifier of SQL Server has at most 128 characters.
pub(super) const MAX_NAME_CHARACTERS: usize = 128;

/// Returns the names of the soft-lock columns, with those in `renamed` replaced. Its keys are the default names.
pub(super) fn soft_lock_names(
    renamed: &BTreeMap<String, String>,
    key_path: &dyn Fn(&str) -> String,
) -> Result<SoftLock, InvalidSetting> {
    let mut names = SoftLock::default();
    for (default_name, name) in renamed {
        let key = key_path(&format!("soft_lock.{default_name}"));
        let mut columns = SoftLockColumn::ALL.into_iter();
        let Some(column) = columns.find(|column| column.default_name() == default_name) else {
            let all = SoftLockColumn::ALL.map(SoftLockColumn::default_name);
            let reason = format!(
                "unknown soft-lock column; expected one of {}",
                all.join(", ")
            );
            return Err(InvalidSetting::new(key, reason));
        };
        check_name(key.clone(), name)?;
        if names.name(column) != name && names.contains(name) {
            let reason = format!("{name:?} is the name of another soft-lock column");
            return Err(InvalidSetting::new(key, reason));
        }
        names.map(column, name.clone());
    }
    Ok(names)
}

/// Returns the mirror columns of each state.
///
/// `completed` and `dead` must differ from `ready`. Adoption of a table reads the mirror columns to find the state of
/// each row, so equal values would make finished rows look ready.
pub(super) fn mirrors(
    states: &BTreeMap<String, BTreeMap<String, toml::Value>>,
    key_path: &dyn Fn(&str) -> String,
) -> Result<Vec<Mirror>, InvalidSetting> {
    let mut mirrors = Vec::new();
    for (state_name, columns) in states {
        let key = key_path(&format!("mirror.{state_name}"));
        let Some(state) = State::from_name(state_name) else {
            let all = State::ALL.map(State::name).join(", ");
            let reason = format!("unknown state; expected one of {all}");
            return Err(InvalidSetting::new(key, reason));
        };
        for (column, value) in columns {
            let key = format!("{key}.{column}");
            check_name(key.clone(), column)?;
            mirrors.push(Mirror {
                state,
                column: column.clone(),
                value: mirror_value(key, value)?,
            });
        }
    }
    let columns_of = |state| -> Vec<_> {
        let of_state = mirrors.iter().filter(|mirror| mirror.state == state);
        of_state
            .map(|mirror| (&mirror.column, &mirror.value))
            .collect()
    };
    for state in [State::Completed, State::Dead] {
        let columns = columns_of(state);
        if !columns.is_empty() && columns == columns_of(State::Ready) {
            let reason = format!(
                "is the same as mirror.ready; adoption could not tell {} rows from ready rows",
                state.name()
            );
            let key = key_path(&format!("mirror.{}", state.name()));
            return Err(InvalidSetting::new(key, reason));
        }
    }
    Ok(mirrors)
}

/// Returns the value that a mirror column is set to. A `$` at the start marks a variable, and `$$` stands for a `$`.
fn mirror_value(key: String, value: &toml::Value) -> Result<MirrorValue, InvalidSetting> {
    Ok(MirrorValue::Literal(match value {
        toml::Value::String(text) => match text.as_str() {
            "$now" => return Ok(MirrorValue::Now),
            "$worker" => return Ok(MirrorValue::Worker),
            "$null" => Value::Null,
            other => match other.strip_prefix('$') {
                Some(escaped) if escaped.starts_with('$') => Value::Text(escaped.to_owned()),
                Some(name) => {
                    let reason = format!(
                        "unknown variable {other:?}; expected $now, $worker or $null, or $${name} for the text itself"
                    );
                    return Err(InvalidSetting::new(key, reason));
                }
                None => Value::Text(other.to_owned()),
            },
        },
        toml::Value::Integer(int) => Value::Int(*int),
        toml::Value::Boolean(bool) => Value::Bool(*bool),
        toml::Value::Float(double) if double.is_finite() => Value::Double(*double),
        other => {
            let found = other.type_str();
            let reason = format!("must be text, a finite number, true or false, not {found}");
            return Err(InvalidSetting::new(key, reason));
        }
    }))
}

/// Returns the columns of a managed table as pairs of name and SQL type.
pub(super) fn managed_columns(
    columns: &toml::Table,
    key_path: &dyn Fn(&str) -> String,
) -> Result<Vec<(String, String)>, InvalidSetting> {
    let columns = columns.iter().map(|(name, sql_type)| {
        let key = key_path(&format!("managed_columns.{name}"));
        check_name(key.clone(), name)?;
        match sql_type.as_str().filter(|text| is_column_type(text)) {
            Some(sql_type) => Ok((name.clone(), sql_type.to_owned())),
            None => Err(InvalidSetting::new(
                key,
                "must be a type such as \"text\" or \"decimal(10,2) not null\"",
            )),
        }
    });
    columns.collect()
}

/// Returns whether `text` can be a column's type, with constraints.
///
/// The text becomes part of a CREATE TABLE statement as it is. Characters that could end the statement or begin a
/// comment are therefore refused.
fn is_column_type(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || " _(),.'-".contains(c);
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(is_allowed)
        && !text.contains("--")
}

/// Checks the columns that the settings of a queue declare, show and let workers write.
pub(super) fn check_columns(
    queue: &QueueSpec,
    key_path: &dyn Fn(&str) -> String,
) -> Result<(), InvalidSetting> {
    check_managed(queue, key_path)?;
    check_mirrors(queue, key_path)?;
    check_writable(queue, &key_path("writable"))
}

/// Checks the names of a managed table's columns. The broker adds the key and the soft-lock columns itself.
fn check_managed(
    queue: &QueueSpec,
    key_path: &dyn Fn(&str) -> String,
) -> Result<(), InvalidSetting> {
    let columns = queue.managed_columns.as_deref().unwrap_or_default();
    for (index, (name, sql_type)) in columns.iter().enumerate() {
        let is_same = |other: &str| other.eq_ignore_ascii_case(name);
        let mut words = sql_type.split_ascii_whitespace();
        let reason = if queue.key.is_empty() && is_same("id") {
            "the broker adds this column itself, as the key: leave it out, or name the key of the table with key = \"id\""
        } else if queue.soft_lock.contains(name) {
            "is a soft-lock column, which the broker adds itself: leave it out"
        } else if columns[..index].iter().any(|(other, _)| is_same(other)) {
            "is declared twice: a database ignores the case of letters in names"
        } else if words.any(|word| word.eq_ignore_ascii_case("primary")) {
            "the broker declares the primary key itself: leave the words out, and name the columns of the key with key = [\"Column\"]"
        } else {
            continue;
        };
        let path = key_path(&format!("managed_columns.{name}"));
        return Err(InvalidSetting::new(path, reason));
    }
    Ok(())
}

/// Refuses a name that cannot be the name of a table or column.
pub(super) fn check_name(key: String, name: &str) -> Result<(), InvalidSetting> {
    if name.is_empty() || name.contains('\0') || name.chars().count() > MAX_NAME_CHARACTERS {
        return Err(InvalidSetting::new(
            key,
            format!("a name must have 1 to {MAX_NAME_CHARACTERS} characters and no NUL"),
        ));
    }
    Ok(())
}

/// Checks the columns that show the state of an item. They must not be columns by which the broker knows it.
fn check_mirrors(
    queue: &QueueSpec,
    key_path: &dyn Fn(&str) -> String,
) -> Result<(), InvalidSetting> {
    for (index, mirror) in queue.mirror.iter().enumerate() {
        let name = &mirror.column;
        let is_same = |other: &str| other.eq_ignore_ascii_case(name);
        let mut others = queue.mirror[..index].iter();
        let reason = if queue.key.iter().any(|part| is_same(part)) {
            "is part of the key: name another column"
        } else if queue.soft_lock.contains(name) {
            "is a soft-lock column, which the broker sets itself: name another column"
        } else if others.any(|other| is_same(&other.column) && other.column != *name) {
            "is spelled in two ways: write its name the same for all states"
        } else {
            continue;
        };
        let path = key_path(&format!("mirror.{}.{name}", mirror.state.name()));
        return Err(InvalidSetting::new(path, reason));
    }
    Ok(())
}

/// Checks the columns that settlements may write. They must not be columns that decide which row is claimed next, or that
/// the broker itself sets.
fn check_writable(queue: &QueueSpec, path: &str) -> Result<(), InvalidSetting> {
    let invalid = |problem: String| Err(InvalidSetting::new(path.to_owned(), problem));
    if !queue.writable.is_empty() && queue.on_complete == OnComplete::Delete {
        return invalid(
            "cannot be combined with on_complete = 'delete', which deletes the written values"
                .to_owned(),
        );
    }
    let is_ordered_by = |name: &str| match &queue.order {
        Order::None => false,
        Order::By(order) => order
            .iter()
            .any(|part| part.column.eq_ignore_ascii_case(name)),
    };
    for (index, name) in queue.writable.iter().enumerate() {
        check_name(path.to_owned(), name)?;
        let is_same = |other: &String| other.eq_ignore_ascii_case(name);
        let mut mirrors = queue.mirror.iter();
        let reason = if queue.key.iter().any(is_same) {
            "is part of the key"
        } else if is_ordered_by(name) {
            "is part of the order"
        } else if queue.soft_lock.contains(name) {
            "is a soft-lock column"
        } else if mirrors.any(|mirror| is_same(&mirror.column)) {
            "is a mirror column"
        } else if queue.writable[..index].iter().any(is_same) {
            "is named twice"
        } else {
            continue;
        };
        return invalid(format!("{name:?} {reason}, which a worker cannot write"));
    }
    Ok(())
}
