//! What a new configuration means for a running service: which of its changes take effect, and how.

use crate::config::{Change, ChangeKind, Config};

/// The way in which a new configuration takes effect.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Identities, roles and limits are replaced where they are. No connection ends for this reason alone.
    InPlace,
    /// New layers serve the new configuration on the same port, and the old ones drain.
    NewLayers,
}

/// The sections whose changes take effect while the service runs. All others need a restart.
const RELOADED: [&[&str]; 7] = [
    &["auth"],
    &["log", "level"],
    &["queues"],
    &["queue_defaults"],
    &["limits"],
    &["polling"],
    &["reaper"],
];
/// The settings of a queue that say which rows it has. The leases of its items would be lost.
const IDENTITY_OF_QUEUE: [&str; 3] = ["table", "key", "soft_lock"];

/// Decides how changes take effect. All of them do, or none.
///
/// # Errors
/// A text that names the changes that need a restart.
pub(super) fn way(old: &Config, changes: &[Change]) -> Result<Way, String> {
    let refused: Vec<String> = changes
        .iter()
        .filter(|change| needs_restart(old, change))
        .map(Change::to_string)
        .collect();
    if !refused.is_empty() {
        return Err(format!(
            "restart the service to change {}",
            refused.join(" ")
        ));
    }
    let stays = |change: &Change| matches!(change.key[0].as_str(), "auth" | "log");
    Ok(if changes.iter().all(stays) {
        Way::InPlace
    } else {
        Way::NewLayers
    })
}

fn needs_restart(old: &Config, change: &Change) -> bool {
    let key: Vec<&str> = change.key.iter().map(String::as_str).collect();
    match key[..] {
        // Connections are checked with the section or without it.
        ["auth"] => true,
        // A worker could not end the leases that it holds.
        ["queues", _] => change.kind == ChangeKind::Removed,
        ["queues", name, setting, ..] => {
            let is_configured = old.queues.iter().any(|queue| queue.name == name);
            is_configured && IDENTITY_OF_QUEUE.contains(&setting)
        }
        _ => !RELOADED.iter().any(|section| key.starts_with(section)),
    }
}

/// The longest text of changes in a line of the log, in bytes. The log cuts longer ones.
const MAX_LINE: usize = 1_000;

/// Returns the texts of changes for the lines of the log.
pub(super) fn lines(changes: &[Change]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for change in changes.iter().map(Change::to_string) {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + change.len() <= MAX_LINE => {
                line.push(' ');
                line.push_str(&change);
            }
            _ => lines.push(change),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    const CONFIG: &str = "
        auth.anonymous = ['admin']
        [queues.a]
        managed_columns = { payload = 'text' }
        [queues.b]
        managed_columns = { payload = 'text' }
        table = 'b'";

    fn way_of(text: &str) -> Result<Way, String> {
        let [old, new] = [CONFIG, text].map(|text| {
            let config = Sources::default().load_text(text);
            config.unwrap_or_else(|error| panic!("{text}: {error}"))
        });
        way(&old, &old.settings.changes(&new.settings))
    }

    #[test]
    fn identities_are_replaced_in_place_and_queues_with_new_layers() {
        let identities = CONFIG.replace("['admin']", "['worker']");
        assert_eq!(way_of(&identities), Ok(Way::InPlace));
        assert_eq!(
            way_of(&format!("log.level = 'debug'\n{CONFIG}")),
            Ok(Way::InPlace)
        );
        let added = format!("{CONFIG}\n[queues.c]\nmanaged_columns = {{ payload = 'text' }}");
        assert_eq!(way_of(&added), Ok(Way::NewLayers));
        let attempts = format!("{CONFIG}\nmax_attempts = 3");
        assert_eq!(way_of(&attempts), Ok(Way::NewLayers));
        let limits = format!("limits.max_items = 7\n{identities}");
        assert_eq!(way_of(&limits), Ok(Way::NewLayers));
    }

    #[test]
    fn changes_that_need_a_restart_are_named() {
        let no_auth = CONFIG.replace("auth.anonymous = ['admin']", "");
        let renamed = CONFIG.replace("queues.b", "queues.c");
        let other_table = CONFIG.replace("table = 'b'", "table = 'c'");
        let threads = format!("server.threads = 3\n{CONFIG}");
        for (text, named) in [
            (no_auth, "-auth"),
            (renamed, "-queues.b"),
            (other_table, "queues.b.table"),
            (threads, "server.threads"),
        ] {
            let refused = way_of(&text).expect_err(named);
            assert_eq!(refused, format!("restart the service to change {named}"));
        }
    }

    #[test]
    fn many_changes_have_several_lines() {
        let change = |number: u32| Change {
            kind: ChangeKind::Added,
            key: vec![
                "auth".to_owned(),
                "identities".to_owned(),
                number.to_string(),
            ],
        };
        assert_eq!(lines(&[]), [""; 0]);
        assert_eq!(
            lines(&[change(1), change(2)]),
            ["+auth.identities.1 +auth.identities.2"]
        );
        let changes: Vec<_> = (0..1_000).map(change).collect();
        let lines = lines(&changes);
        assert!(lines.iter().all(|line| line.len() <= MAX_LINE));
        let names: Vec<_> = lines.iter().flat_map(|line| line.split(' ')).collect();
        let all: Vec<_> = changes.iter().map(Change::to_string).collect();
        assert_eq!(names, all);
    }
}
