//! The journal of a recorded run: what programs wrote and flushed, and which answers their callers got, in the order of time.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

/// A file of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Database,
    Log,
}

#[derive(Debug)]
pub(super) enum Event {
    Write {
        file: Name,
        offset: usize,
        bytes: Vec<u8>,
    },
    Truncate {
        file: Name,
        length: usize,
    },
    /// The flush with this number begins. It covers all earlier writes to the file.
    FlushBegins {
        file: Name,
        number: u64,
    },
    FlushEnded {
        number: u64,
    },
    /// A caller got an answer.
    Answer(Answer),
}

/// What the answer of a broker said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Added { key: String },
    Leased { key: String, fencing_token: i64 },
    Completed { key: String },
}

/// The length of `struct entry` in `recorder.c`.
const HEADER: usize = 14;

/// Appends answers to the journal of running brokers.
pub(super) struct Answers(File);

impl Answers {
    pub(super) fn open(journal: &Path) -> Self {
        let file = OpenOptions::new().append(true).open(journal);
        Self(file.expect("the journal opens"))
    }

    pub(super) fn add(&self, answer: &Answer) {
        let text = match answer {
            Answer::Added { key } => format!("added {key}"),
            Answer::Leased { key, fencing_token } => format!("leased {key} {fencing_token}"),
            Answer::Completed { key } => format!("completed {key}"),
        };
        let mut entry = vec![b'A', 0];
        entry.extend(0_u64.to_ne_bytes());
        entry.extend(
            u32::try_from(text.len())
                .expect("a short text")
                .to_ne_bytes(),
        );
        entry.extend(text.as_bytes());
        // One call, so that entries of several programs do not mix.
        let written = (&self.0).write(&entry).expect("the journal is written");
        assert_eq!(written, entry.len());
    }
}

/// Reads a journal to its end.
pub(super) fn read(path: &Path) -> Vec<Event> {
    let journal = std::fs::read(path).expect("the journal is read");
    let mut rest = journal.as_slice();
    let mut events = Vec::new();
    // A killed program can leave a part of its last entry.
    while let Some((header, after)) = rest.split_at_checked(HEADER) {
        let position = u64::from_ne_bytes(header[2..10].try_into().expect("eight bytes"));
        let length = u32::from_ne_bytes(header[10..].try_into().expect("four bytes"));
        let Some((bytes, after)) = after.split_at_checked(length as usize) else {
            break;
        };
        rest = after;
        events.push(event(header[0], header[1], position, bytes));
    }
    events
}

fn event(kind: u8, file: u8, position: u64, bytes: &[u8]) -> Event {
    let file = if file == b'd' {
        Name::Database
    } else {
        Name::Log
    };
    let offset = || usize::try_from(position).expect("files are small");
    match kind {
        b'W' => Event::Write {
            file,
            offset: offset(),
            bytes: bytes.to_vec(),
        },
        b'T' => Event::Truncate {
            file,
            length: offset(),
        },
        b'B' => Event::FlushBegins {
            file,
            number: position,
        },
        b'E' => Event::FlushEnded { number: position },
        b'A' => Event::Answer(answer(std::str::from_utf8(bytes).expect("a text"))),
        other => panic!("the journal has an entry of kind {other}"),
    }
}

fn answer(text: &str) -> Answer {
    let mut words = text.split(' ').map(str::to_owned);
    let mut next = || words.next().expect("the entry is complete");
    let kind = next();
    let key = next();
    match kind.as_str() {
        "added" => Answer::Added { key },
        "leased" => Answer::Leased {
            key,
            fencing_token: next().parse().expect("a number"),
        },
        "completed" => Answer::Completed { key },
        other => panic!("the journal has the answer {other:?}"),
    }
}
