//! The demo's summary: figures from the database and from the workers' journals, and the verdict on them.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::journal::{Action, Entry};
use super::worker::Role;
use super::workers::{WorkerReport, Workers};
use crate::cli::CommandError;
use crate::cli::output::{self, print_line};

/// The figures of one run.
pub(super) struct Summary {
    reports: Vec<WorkerReport>,
    /// Rows inserted into the table.
    events: u64,
    /// From the database: rows in state completed.
    completed: u64,
    /// From the database: rows whose column `Processed` follows the state to 1.
    processed: u64,
    /// From the database: rows that contain the result of their worker.
    with_result: u64,
    /// From the database: leases that expired.
    expired: u64,
    /// From the database: results that are still in the outbox.
    outbox: u64,
    /// From the journals: rows that were completed more than once, or that have more than one result.
    completed_twice: usize,
    /// Rows that are not completed in the database, or whose result no worker moved. The greater of both numbers.
    lost: u64,
    /// From the journals: rows that a killed worker had claimed and another worker completed.
    takeovers: usize,
}

impl Summary {
    /// Reads the database and the journals. The workers must have exited.
    pub(super) fn read(events: u64, workers: &Workers, file: &Path) -> Result<Self, CommandError> {
        let reports = workers.reports()?;
        let failed =
            |error: rusqlite::Error| CommandError::io(format!("{}: {error}", file.display()));
        let connection = Connection::open(file).map_err(failed)?;
        let query_count = |sql: &str| -> Result<u64, CommandError> {
            let count: i64 = connection
                .query_row(sql, [], |row| row.get(0))
                .map_err(failed)?;
            Ok(count.unsigned_abs())
        };
        let completed = query_count("SELECT count(*) FROM Rainfall_Events WHERE lease_state = 3")?;
        let completions = count_each(
            entries_of(&reports, Role::Process, Action::Completed).map(|entry| &entry.key),
        );
        // A result is moved again if the transfer worker lost its lease before the completion. So only a second result
        // of the same row counts, which is another item of the outbox.
        let results: HashSet<_> = entries_of(&reports, Role::Transfer, Action::Moved)
            .map(|entry| (&entry.event_id, &entry.key))
            .collect();
        let results = count_each(results.into_iter().map(|(event_id, _)| event_id));
        let completed_twice = completions.values().filter(|count| **count > 1).count()
            + results.values().filter(|count| **count > 1).count();
        let not_moved = events.saturating_sub(results.len() as u64);
        let takeovers = count_takeovers(&reports);
        Ok(Self {
            events,
            completed,
            processed: query_count("SELECT count(*) FROM Rainfall_Events WHERE Processed = 1")?,
            with_result: query_count(
                "SELECT count(*) FROM Rainfall_Events WHERE abs(Litres - Millimetres * 1000) < 0.001",
            )?,
            // The demo never releases or fails an item. So every attempt but the last one ended by expiry.
            expired: query_count("SELECT sum(lease_attempt - 1) FROM Rainfall_Events")?,
            outbox: query_count("SELECT count(*) FROM outbox")?,
            completed_twice,
            lost: events.saturating_sub(completed).max(not_moved),
            takeovers,
            reports,
        })
    }

    /// Returns the number of rows that were inserted.
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    /// Returns a table with one line per worker: its numbers of items claimed, completed and lost, and how it ended.
    pub(super) fn table(&self) -> String {
        let mut table = output::table();
        table.set_header(["worker", "claimed", "completed", "lost", "end"]);
        for report in &self.reports {
            let count = |action| {
                report
                    .entries
                    .iter()
                    .filter(|entry| entry.action == action)
                    .count()
            };
            let [claimed, completed, lost] =
                [Action::Claimed, Action::Completed, Action::Lost].map(count);
            table.add_row([
                report.name.clone(),
                claimed.to_string(),
                completed.to_string(),
                lost.to_string(),
                if report.killed { "killed" } else { "finished" }.to_owned(),
            ]);
        }
        output::align_left(&mut table);
        table.trim_fmt()
    }

    /// Prints the last line of the demo.
    ///
    /// # Errors
    /// Exit code 1 if a row was not completed exactly once, or if workers were killed and no row was taken over.
    pub(super) fn verdict(&self, kills: u32, duration: Duration) -> Result<(), CommandError> {
        let line = format!(
            "events={} completed={} completed_twice={} lost={} with_result={} expired={} takeovers={} seconds={:.1}",
            self.events,
            self.completed,
            self.completed_twice,
            self.lost,
            self.with_result,
            self.expired,
            self.takeovers,
            duration.as_secs_f64()
        );
        let all_once = self.completed == self.events
            && self.processed == self.events
            && self.with_result == self.events
            && self.outbox == 0
            && self.completed_twice == 0
            && self.lost == 0;
        let taken_over = kills == 0 || (self.expired > 0 && self.takeovers > 0);
        if all_once && taken_over {
            print_line!("demo: ok {line}");
            Ok(())
        } else {
            Err(CommandError::failed(format!("demo: FAILED {line}")))
        }
    }
}

/// Returns the journal entries with this action of all workers with this role.
fn entries_of(
    reports: &[WorkerReport],
    role: Role,
    action: Action,
) -> impl Iterator<Item = &Entry> {
    reports
        .iter()
        .filter(move |report| report.role == role)
        .flat_map(|report| &report.entries)
        .filter(move |entry| entry.action == action)
}

/// Counts the occurrences of each value.
fn count_each<T: Eq + std::hash::Hash>(values: impl Iterator<Item = T>) -> HashMap<T, usize> {
    let mut counts = HashMap::new();
    for value in values {
        *counts.entry(value).or_insert(0) += 1;
    }
    counts
}

/// Counts the rows that a killed worker had claimed and another worker completed.
fn count_takeovers(reports: &[WorkerReport]) -> usize {
    let keys = |killed, action| {
        reports
            .iter()
            .filter(move |report| report.killed == killed && report.role == Role::Process)
            .flat_map(|report| &report.entries)
            .filter(move |entry| entry.action == action)
            .map(|entry| entry.key.as_str())
    };
    let claimed: HashSet<&str> = keys(true, Action::Claimed).collect();
    keys(false, Action::Completed)
        .filter(|key| claimed.contains(key))
        .count()
}
