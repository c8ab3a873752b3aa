//! The difference between two configurations: which settings were added, removed or changed.

use std::collections::BTreeSet;
use std::fmt;

use toml::{Table, Value};

/// The merged settings of all sources, to compare them. They can contain secrets, so they are never shown.
#[derive(Clone, Default)]
pub struct Settings(pub(super) Table);

impl fmt::Debug for Settings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Settings(..)")
    }
}

/// A setting or a section that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What has become of it.
    pub kind: ChangeKind,
    /// The parts of its key. An identity stands under its name.
    pub key: Vec<String>,
}

/// What has become of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was not there before.
    Added,
    /// It is not there any more.
    Removed,
    /// It has another value.
    Changed,
}

impl fmt::Display for Change {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.kind {
            ChangeKind::Added => "+",
            ChangeKind::Removed => "-",
            ChangeKind::Changed => "",
        };
        write!(out, "{sign}{}", self.key.join("."))
    }
}

impl Settings {
    /// Returns the changes from these settings to newer ones.
    pub fn changes(&self, newer: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        compare_tables(&mut Vec::new(), &self.0, &newer.0, &mut changes);
        changes
    }
}

fn compare_tables(key: &mut Vec<String>, old: &Table, new: &Table, out: &mut Vec<Change>) {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names {
        key.push(name.clone());
        compare(key, old.get(name), new.get(name), out);
        key.pop();
    }
}

fn compare(key: &mut Vec<String>, old: Option<&Value>, new: Option<&Value>, out: &mut Vec<Change>) {
    let kind = match (old, new) {
        (None, None) => return,
        (None, Some(_)) => ChangeKind::Added,
        (Some(_), None) => ChangeKind::Removed,
        (Some(old), Some(new)) if old == new => return,
        (Some(Value::Table(old)), Some(Value::Table(new))) => {
            return compare_tables(key, old, new, out);
        }
        (Some(old), Some(new)) => match (by_name(old), by_name(new)) {
            (Some(old), Some(new)) => {
                let before = out.len();
                compare_tables(key, &old, &new, out);
                if out.len() > before {
                    return;
                }
                // The order has changed. The first identity that fits a caller is the caller's.
                ChangeKind::Changed
            }
            _ => ChangeKind::Changed,
        },
    };
    let key = key.clone();
    out.push(Change { kind, key });
}

/// Returns a list of tables with names as a table. `None`: it is something else.
fn by_name(value: &Value) -> Option<Table> {
    let tables = value.as_array()?.iter();
    let entry = |value: &Value| {
        let name = value.get("name")?.as_str()?;
        Some((name.to_owned(), value.clone()))
    };
    tables.map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(old: &str, new: &str) -> Vec<String> {
        let [old, new] = [old, new].map(|text| Settings(text.parse().expect("TOML")));
        let changes = old.changes(&new);
        changes.iter().map(Change::to_string).collect()
    }

    #[test]
    fn changes_name_settings_queues_and_identities() {
        let old = "
            limits.max_items = 7
            [[auth.identities]]
            name = 'a'
            roles = { worker = ['x'] }
            [[auth.identities]]
            name = 'b'
            [queues.x]
            table = 'x'
            [queues.y]
            table = 'y'";
        let new = "
            limits.max_items = 8
            [[auth.identities]]
            name = 'c'
            [[auth.identities]]
            name = 'a'
            roles = { worker = ['x', 'y'] }
            [queues.x]
            table = 'x'
            max_attempts = 3
            [queues.z]
            table = 'z'";
        let expected = [
            "auth.identities.a.roles.worker",
            "-auth.identities.b",
            "+auth.identities.c",
            "limits.max_items",
            "+queues.x.max_attempts",
            "-queues.y",
            "+queues.z",
        ];
        assert_eq!(changes(old, new), expected);
        assert!(changes(old, old).is_empty());
    }

    #[test]
    fn new_order_of_identities_is_a_change() {
        let [first, second] = ["{ name = 'a' }", "{ name = 'b' }"];
        let old = format!("auth.identities = [{first}, {second}]");
        let new = format!("auth.identities = [{second}, {first}]");
        assert_eq!(changes(&old, &new), ["auth.identities"]);
    }
}
