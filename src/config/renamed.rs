//! Settings that had another name before. The error for an old name says the new one.

use serde_path_to_error::{Path, Segment};

/// Section, old name and new name. The section `queues` stands for every queue and for `queue_defaults`.
const RENAMED: [(&str, &str, &str); 8] = [
    ("polling", "max", "max_interval"),
    ("polling", "min", "min_interval"),
    ("queues", "lease", "lease_duration"),
    ("queues", "managed", "managed_columns"),
    ("queues", "max_lease", "max_lease_duration"),
    ("queues", "min_lease", "min_lease_duration"),
    ("reaper", "batch", "max_rows"),
    ("reaper", "max_sleep", "max_interval"),
];

/// Section, name and reason of settings that no longer exist.
const REMOVED: [(&str, &str, &str); 1] = [(
    "server",
    "max_concurrent_calls",
    "this setting no longer exists; set budgets.settlements, budgets.working_calls and budgets.waiting_claims",
)];

/// Returns the reason why an old name is refused. `None`: the path ends in no old name.
pub(super) fn reason(path: &Path) -> Option<String> {
    let parts: Vec<&str> = path.iter().map_while(map_key).collect();
    let (section, name) = match parts[..] {
        ["queues", _, name] | ["queue_defaults", name] => ("queues", name),
        [section, name] => (section, name),
        _ => return None,
    };
    let mut removed = REMOVED.iter();
    if let Some((_, _, reason)) = removed.find(|(of, old, _)| (*of, *old) == (section, name)) {
        return Some((*reason).to_owned());
    }
    let mut renamed = RENAMED.iter();
    let (_, _, new) = renamed.find(|(of, old, _)| (*of, *old) == (section, name))?;
    Some(format!("unknown setting; its name is now {new}"))
}

fn map_key(segment: &Segment) -> Option<&str> {
    match segment {
        Segment::Map { key } => Some(key),
        _ => None,
    }
}
