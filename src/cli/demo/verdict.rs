//! What came of the demo, by the database and by the workers' journals; the two must agree.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::Demo;
use super::crew::{Account, Crew};
use super::journal::Deed;
use crate::cli::Failure;
use crate::cli::output::{self, say};

/// The figures.
pub(super) struct Tally {
    accounts: Vec<Account>,
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

impl Tally {
    /// Reads the database and the journals.
    pub(super) fn take(demo: &Demo, crew: &Crew, file: &Path) -> Result<Self, Failure> {
        let accounts = crew.accounts()?;
        let connection = Connection::open(file).map_err(|error| unread(file, &error))?;
        let ask = |sql: &str| -> Result<u64, Failure> {
            let answer: i64 = connection
                .query_row(sql, [], |row| row.get(0))
                .map_err(|error| unread(file, &error))?;
            Ok(answer.unsigned_abs())
        };
        let completed = ask("SELECT count(*) FROM Rainfall_Events WHERE lease_state = 3")?;
        let did = |transfer, deed| {
            let of_role = accounts
                .iter()
                .filter(move |account| account.transfer == transfer);
            let entries = of_role.flat_map(|account| &account.entries);
            entries
                .filter(move |entry| entry.did == deed)
                .map(|entry| entry.key.as_str())
        };
        let done = times(did(false, Deed::Completed));
        let moved = times(did(true, Deed::Moved));
        let twice = [&done, &moved].into_iter().flat_map(HashMap::values);
        let completed_twice = twice.filter(|times| **times > 1).count();
        let events = u64::from(demo.events);
        let unmoved = events.saturating_sub(moved.len() as u64);
        let takeovers = takeovers(&accounts);
        Ok(Self {
            completed,
            processed: ask("SELECT count(*) FROM Rainfall_Events WHERE Processed = 1")?,
            // Nothing is released or failed: every attempt but the last ended by expiry.
            expired: ask("SELECT sum(lease_attempt - 1) FROM Rainfall_Events")?,
            outbox: ask("SELECT count(*) FROM outbox")?,
            completed_twice,
            lost: events.saturating_sub(completed).max(unmoved),
            takeovers,
            accounts,
        })
    }

    /// Returns what each worker did, as a table.
    pub(super) fn table(&self) -> String {
        let mut table = output::table();
        table.set_header(["worker", "claimed", "completed", "lost", "end"]);
        for account in &self.accounts {
            let count = |deed| {
                account
                    .entries
                    .iter()
                    .filter(|entry| entry.did == deed)
                    .count()
            };
            let [claimed, completed, lost] =
                [Deed::Claimed, Deed::Completed, Deed::Lost].map(count);
            table.add_row([
                account.name.clone(),
                claimed.to_string(),
                completed.to_string(),
                lost.to_string(),
                if account.killed { "killed" } else { "finished" }.to_owned(),
            ]);
        }
        output::flush_left(&mut table);
        table.trim_fmt()
    }

    /// Prints the last line, and fails if not all of it is as it must be.
    pub(super) fn verdict(&self, demo: &Demo, took: Duration) -> Result<(), Failure> {
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
            say!("demo: ok {line}");
            Ok(())
        } else {
            Err(Failure::refused(format!("demo: FAILED {line}")))
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
fn takeovers(accounts: &[Account]) -> usize {
    let keys = |killed, deed| {
        let members = accounts
            .iter()
            .filter(move |account| account.killed == killed && !account.transfer);
        let entries = members.flat_map(|account| &account.entries);
        entries
            .filter(move |entry| entry.did == deed)
            .map(|entry| entry.key.as_str())
    };
    let held: HashSet<&str> = keys(true, Deed::Claimed).collect();
    keys(false, Deed::Completed)
        .filter(|key| held.contains(key))
        .count()
}

fn unread(file: &Path, error: &rusqlite::Error) -> Failure {
    Failure::io(format!("{}: {error}", file.display()))
}
