//! Checks of an SQLite file that need no answer of SQLite.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lease_broker_store::sqlite::{LockHolder, WriteLock};

use super::finding::{Finding, Verdict};
use crate::process::free_bytes;

/// With less space than this, writes fail soon.
const LITTLE_SPACE: u64 = 64 << 20;
const WARNING_SPACE: u64 = 1 << 30;
/// SQLite copies the log into the file at 4 MiB. A much larger log means that a reader or a stopped process prevents that.
const LARGE_LOG: u64 = 256 << 20;
/// The write lock is looked at so often. A broker that works holds it in some of these moments only.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(25);

pub(super) fn check(path: &Path, send: &dyn Fn(Finding)) {
    let send = |check: &str, verdict, detail: String| {
        send(Finding::broker(check, verdict, detail));
    };
    // The page can be read elsewhere than in the folder of the command.
    let shown = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let shown = shown.display();
    match fs::metadata(path) {
        Ok(file) => send(
            "database file",
            Verdict::Ok,
            format!("{shown}, {}", bytes(file.len())),
        ),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let detail = format!(
                "{shown} does not exist; start the service, which creates it, or name another with --store or --config"
            );
            return send("database file", Verdict::Problem, detail);
        }
        Err(error) => {
            let detail = format!("{shown}: {error}");
            return send("database file", Verdict::Problem, detail);
        }
    }
    let (verdict, detail) = match WriteLock::of(path).settled_holder(LOOKS, PAUSE) {
        None => (Verdict::Ok, "no process keeps it".to_owned()),
        Some(holder) => (lock_verdict(&holder), holder.to_string()),
    };
    send("write lock", verdict, detail);
    let mut log = PathBuf::from(path).into_os_string();
    log.push("-wal");
    let log = fs::metadata(log).map_or(0, |log| log.len());
    let verdict = if log > LARGE_LOG {
        Verdict::Warning
    } else {
        Verdict::Ok
    };
    let cause = match verdict {
        Verdict::Warning => {
            "; a program that reads for long, or that is stopped, keeps SQLite from emptying it"
        }
        _ => "",
    };
    send("log (-wal)", verdict, format!("{}{cause}", bytes(log)));
    match free_bytes(path) {
        None => send(
            "space left",
            Verdict::Skipped,
            "the file system does not tell".to_owned(),
        ),
        Some(free) => {
            let verdict = match free {
                0..LITTLE_SPACE => Verdict::Problem,
                LITTLE_SPACE..WARNING_SPACE => Verdict::Warning,
                _ => Verdict::Ok,
            };
            send("space left", verdict, bytes(free));
        }
    }
}

/// Returns the verdict about a process that has held the lock all the time.
fn lock_verdict(holder: &LockHolder) -> Verdict {
    if holder.is_stopped() {
        Verdict::Problem
    } else {
        Verdict::Warning
    }
}

fn bytes(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}
