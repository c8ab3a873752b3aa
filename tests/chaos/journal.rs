//! Journals: the calls of a process and their answers, one JSON object per line.
//!
//! Each process appends to its own file. A line is one write without a buffer, so it survives SIGKILL. Times are those of the
//! monotonic clock, which all processes of a host share.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tonic::Status;
use tonic_types::StatusExt as _;

/// One lease of one item. The fencing token grows with each claim of the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Lease {
    pub(crate) key: i64,
    pub(crate) fence: i64,
}

/// A lease that a claim returned.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Granted {
    pub(crate) lease: Lease,
    pub(crate) attempt: i64,
    pub(crate) time_left_ms: u64,
}

/// The way in which a settlement ends a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ending {
    Complete,
    Fail,
    Release,
}

/// A call, written before it is sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Asked {
    Enqueue {
        payloads: Vec<String>,
    },
    /// Rows that another program inserts by SQL.
    Insert {
        payloads: Vec<String>,
    },
    Claim {
        request_id: String,
    },
    Heartbeat {
        leases: Vec<Lease>,
    },
    Settle {
        ending: Ending,
        leases: Vec<Lease>,
    },
}

/// The answer to a call. Lists are in the order of the call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Enqueued {
        keys: Vec<i64>,
    },
    Inserted,
    Claimed {
        leases: Vec<Granted>,
    },
    /// The time that each lease has left. `None`: the lease is lost.
    Extended {
        time_left_ms: Vec<Option<u64>>,
    },
    /// The number of each outcome, as the API has it.
    Settled {
        outcomes: Vec<i32>,
    },
    /// The call failed. It may have been applied.
    Error {
        code: i32,
        /// The reason that the service gives. `None`: a load balancer or the client itself ended the call.
        reason: Option<String>,
        message: String,
    },
}

impl From<&Status> for Answer {
    fn from(status: &Status) -> Self {
        Self::Error {
            code: status.code().into(),
            reason: status.get_details_error_info().map(|info| info.reason),
            message: status.message().to_owned(),
        }
    }
}

/// A line of a journal.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    /// The time in nanoseconds.
    pub(crate) at: u64,
    /// The number of the call in this journal, from 0.
    pub(crate) call: u64,
    pub(crate) entry: Entry,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Entry {
    Asked(Asked),
    Answered(Answer),
}

/// The journal of this process.
pub(crate) struct Journal {
    file: File,
    calls: AtomicU64,
}

impl Journal {
    pub(crate) fn create(path: &Path) -> Self {
        let file = File::options().create_new(true).append(true).open(path);
        Self {
            file: file.unwrap_or_else(|error| panic!("{}: {error}", path.display())),
            calls: AtomicU64::new(0),
        }
    }

    /// Writes a call that is about to be sent. Returns its number.
    pub(crate) fn ask(&self, asked: Asked) -> u64 {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        self.write(call, Entry::Asked(asked));
        call
    }

    /// Writes the answer to a call.
    pub(crate) fn answer(&self, call: u64, answer: Answer) {
        self.write(call, Entry::Answered(answer));
    }

    fn write(&self, call: u64, entry: Entry) {
        let at = now();
        let mut line = serde_json::to_vec(&Line { at, call, entry }).expect("a line");
        line.push(b'\n');
        (&self.file).write_all(&line).expect("the line is written");
    }
}

/// Returns the time of the monotonic clock in nanoseconds.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).expect("after the start of the machine");
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).expect("a part of a second")
}

/// Reads a journal. A last line that a kill has cut is ignored.
pub(crate) fn read(path: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(path).expect("a journal");
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    whole.lines().map(parse).collect()
}
