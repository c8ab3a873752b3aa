//! What came of the demo, by the database and by the workers' journals; the two must agree.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::Demo;
use super::journal::Action;
use super::workers::{WorkerReport, Workers};
use crate::cli::CommandError;
use crate::cli::output::{self, print_line};

/// The figures.
pub(super) struct Summary {
    reports: Vec<WorkerReport>,
    /// By the database: rows completed, rows marked processed, leases that expired, results left in the outbox.
    completed: u64,
    processed: u64,
    expired: u64,
    outbox: u64,
    /// By the journals: rows completed more than once, results moved more than once.
    completed_twice: usize,
    /// Rows without a completion in the database or without a result moved.
    lost: u64,
    /// Rows that a killed worker held and another completed.
    takeovers: usize,
}

impl Summary {
    /// Reads the database and the journals.
    pub(super) fn read(demo: &Demo, workers: &Workers, file: &Path) -> Result<Self, CommandError> {
        let reports = workers.reports()?;
        let connection = Connection::open(file).map_err(|error| unread(file, &error))?;
        let ask = |sql: &str| -> Result<u64, CommandError> {
            let answer: i64 = connection
                .query_row(sql, [], |row| row.get(0))
                .map_err(|error| unread(file, &error))?;
            Ok(answer.unsigned_abs())
        };
        let completed = ask("SELECT count(*) FROM Rainfall_Events WHERE lease_state = 3")?;
        let action = |transfer, action| {
            let of_role = reports
                .iter()
                .filter(move |report| report.transfer == transfer);
            let entries = of_role.flat_map(|report| &report.entries);
            entries
                .filter(move |entry| entry.action == action)
                .map(|entry| entry.key.as_str())
        };
        let done = times(action(false, Action::Completed));
        let moved = times(action(true, Action::Moved));
        let twice = [&done, &moved].into_iter().flat_map(HashMap::values);
        let completed_twice = twice.filter(|times| **times > 1).count();
        let events = u64::from(demo.events);
        let unmoved = events.saturating_sub(moved.len() as u64);
        let takeovers = takeovers(&reports);
        Ok(Self {
            completed,
            processed: ask("SELECT count(*) FROM Rainfall_Events WHERE Processed = 1")?,
            // Nothing is released or failed: every attempt but the last ended by expiry.
            expired: ask("SELECT sum(lease_attempt - 1) FROM Rainfall_Events")?,
            outbox: ask("SELECT count(*) FROM outbox")?,
            completed_twice,
            lost: events.saturating_sub(completed).max(unmoved),
            takeovers,
            reports,
        })
    }

    /// Returns what each worker action, as a table.
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

    /// Prints the last line, and fails if not all of it is as it must be.
    pub(super) fn verdict(&self, demo: &Demo, took: Duration) -> Result<(), CommandError> {
        let line = format!(
            "events={} completed={} completed_twice={} lost={} expired={} takeovers={} seconds={:.1}",
            demo.events,
            self.completed,
            self.completed_twice,
            self.lost,
            self.expired,
            self.takeovers,
            took.as_secs_f64()
        );
        let events = u64::from(demo.events);
        let all_once = self.completed == events
            && self.processed == events
            && self.outbox == 0
            && self.completed_twice == 0
            && self.lost == 0;
        let taken_over = demo.kill == 0 || (self.expired > 0 && self.takeovers > 0);
        if all_once && taken_over {
            print_line!("demo: ok {line}");
            Ok(())
        } else {
            Err(CommandError::failed(format!("demo: FAILED {line}")))
        }
    }
}

/// Counts how often each key occurs.
fn times<'a>(keys: impl Iterator<Item = &'a str>) -> HashMap<&'a str, usize> {
    let mut times = HashMap::new();
    for key in keys {
        *times.entry(key).or_insert(0) += 1;
    }
    times
}

/// Counts the events that a killed worker held last and another completed.
fn takeovers(reports: &[WorkerReport]) -> usize {
    let keys = |killed, action| {
        let workers = reports
            .iter()
            .filter(move |report| report.killed == killed && !report.transfer);
        let entries = workers.flat_map(|report| &report.entries);
        entries
            .filter(move |entry| entry.action == action)
            .map(|entry| entry.key.as_str())
    };
    let held: HashSet<&str> = keys(true, Action::Claimed).collect();
    keys(false, Action::Completed)
        .filter(|key| held.contains(key))
        .count()
}

fn unread(file: &Path, error: &rusqlite::Error) -> CommandError {
    CommandError::io(format!("{}: {error}", file.display()))
}
