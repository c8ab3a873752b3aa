//! The power goes at any moment. Everything that a broker has answered is in the file afterwards.
//!
//! Two brokers on one file run with a library that records their writes and flushes (`recorder.c`). The test then goes through
//! the journal. For each moment it builds files that a device could have kept: what was flushed, and any part of the rest.
//! SQLite opens them as after a crash, and each answer that a caller had got by then must be true. The method is that of ALICE
//! ("All File Systems Are Not Created Equal", OSDI 2014).

mod device;
mod journal;

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use lease_broker_proto::Outcome;
use rand::rngs::StdRng;
use rusqlite::Connection;

use self::device::{Device, Flushes, Kept};
use self::journal::{Answer, Answers, Event};
use crate::crash::{Site, seeded_random};
use crate::support::client::{Client, completion, key};
use crate::support::process::BrokerProcess;
use crate::support::skipped::skipped;
use crate::support::timeout::with_timeout;

const CLIENTS: usize = 4;
/// The items of each client. They fill the log several times, so that it is copied to the database file and used again.
const ITEMS: usize = 60;
const PAYLOAD_BYTES: usize = 2_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_loss_takes_nothing_that_was_answered() {
    let site = Site::new();
    let Some(recorder) = compile_recorder(site.folder.path()) else {
        skipped("power loss: no C compiler for Linux was found");
        return;
    };
    let journal = site.folder.path().join("journal");
    File::create(&journal).expect("the journal is created");
    run_brokers(&site, &recorder, &journal).await;

    let events = journal::read(&journal);
    let mut random = seeded_random();
    let checked = find_lost_answer(&events, Flushes::Obeyed, &mut random, site.folder.path());
    let checked = checked.unwrap_or_else(|lost| panic!("{lost}"));
    eprintln!(
        "{} events, {checked} files after a loss of power",
        events.len()
    );
    assert!(checked > 3 * CLIENTS * ITEMS / 10);
    // The check finds what is lost: a device that ignores flushes loses answers.
    find_lost_answer(
        &events,
        Flushes::IgnoredForTheLog,
        &mut random,
        site.folder.path(),
    )
    .expect_err("a device that ignores flushes loses nothing");
}

/// Compiles the library. `None`: this machine has no compiler for it.
fn compile_recorder(folder: &Path) -> Option<PathBuf> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let library = folder.join("recorder.so");
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/crash/power_loss/recorder.c"
    );
    let compile = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .args([source, "-ldl"])
        .output()
        .ok()?;
    let errors = String::from_utf8_lossy(&compile.stderr);
    assert!(compile.status.success(), "{errors}");
    Some(library)
}

/// Runs clients on two brokers, which are killed afterwards. The journal has their writes and the answers.
async fn run_brokers(site: &Site, recorder: &Path, journal: &Path) {
    let file = std::fs::canonicalize(site.folder.path()).expect("the folder exists");
    let file = file.join("queues.db");
    let texts = [recorder, &file, journal].map(|path| path.to_str().expect("UTF-8"));
    let environment = [
        ("LD_PRELOAD", texts[0]),
        ("RECORD_DATABASE", texts[1]),
        ("RECORD_JOURNAL", texts[2]),
    ];
    let config = site.folder.path().join("queues.toml");
    let brokers =
        [(); 2].map(|()| BrokerProcess::with_environment(&file, &config, &environment));
    let answers = Arc::new(Answers::open(journal));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let brokers = [number, number + 1]
                .map(|turn| Client::new(brokers[turn % 2].channel(), "work"))
                .map(|client| client.as_worker(&format!("w{number}")));
            tokio::spawn(process_items(brokers, answers.clone()))
        })
        .collect();
    for client in clients {
        with_timeout(client).await.expect("the client ends");
    }
}

/// Adds, claims and completes items. Both brokers get each completion at the same time, and the second finds the item completed
/// by a transaction that the first may not have flushed.
async fn process_items([one, other]: [Client; 2], answers: Arc<Answers>) {
    for _ in 0..ITEMS {
        let payload = "x".repeat(PAYLOAD_BYTES);
        let added = one.enqueue(&[&payload]).await;
        let [added] = <[String; 1]>::try_from(added).expect("one key");
        answers.add(&Answer::Added { key: added });
        let claim = one.waiting_claim_request(1, Duration::from_secs(30));
        let leases = one.try_claim(claim).await.expect("the claim succeeds");
        for lease in leases {
            answers.add(&Answer::Leased {
                key: key(&lease).to_owned(),
                fencing_token: lease.fencing_token,
            });
            let complete = async |client: &Client| {
                let completions = vec![completion(&lease.lease_id, &[])];
                let results = client.try_complete(completions).await.expect("complete");
                if results[0].outcome() == Outcome::Applied {
                    let key = key(&lease).to_owned();
                    answers.add(&Answer::Completed { key });
                }
            };
            tokio::join!(complete(&one), complete(&other));
        }
    }
}

/// Loses the power before each end of a flush, and at the end. Returns the number of files that were checked.
///
/// # Errors
/// The first answer that a file contradicts.
fn find_lost_answer(
    events: &[Event],
    flushes: Flushes,
    random: &mut StdRng,
    folder: &Path,
) -> Result<usize, String> {
    let mut device = Device::new(flushes);
    let mut answers = Vec::new();
    let mut checked = 0;
    let mut checked_answers = 0;
    for (index, event) in events.iter().enumerate() {
        // Until the next flush ends, the device can only keep more, so this is the moment at which most answers can be lost.
        if device.is_end_of_flush(event) && answers.len() > checked_answers {
            checked_answers = answers.len();
            for kept in [Kept::Nothing, Kept::Prefix, Kept::Some] {
                let file = folder.join("after.db");
                device.lose_power(kept, random, &file);
                check(&file, &answers).map_err(|lost| {
                    format!(
                        "event {index}, {} pending writes, {} answers: {lost}",
                        device.pending(),
                        answers.len()
                    )
                })?;
                checked += 1;
            }
        }
        device.apply(event);
        if let Event::Answer(answer) = event {
            answers.push(answer.clone());
        }
    }
    Ok(checked)
}

/// Opens a database file as after a crash, and compares it with the answers.
fn check(file: &Path, answers: &[Answer]) -> Result<(), String> {
    let rows = read_rows(file).map_err(|error| error.to_string())?;
    for answer in answers {
        let row = |key: &String| rows.get(key);
        let holds = match answer {
            Answer::Added { key } => row(key).is_some(),
            Answer::Leased { key, fencing_token } => {
                row(key).is_some_and(|(_, fence)| fence >= fencing_token)
            }
            Answer::Completed { key } => row(key).is_some_and(|(state, _)| *state == 3),
        };
        if !holds {
            let row = match answer {
                Answer::Added { key }
                | Answer::Leased { key, .. }
                | Answer::Completed { key } => row(key),
            };
            return Err(format!("lost {answer:?}, the row is {row:?}"));
        }
    }
    Ok(())
}

/// Returns the state and the fencing token of each row, by key.
fn read_rows(file: &Path) -> rusqlite::Result<HashMap<String, (i64, i64)>> {
    let database = Connection::open(file)?;
    let check: String = database.query_row("PRAGMA quick_check", [], |row| row.get(0))?;
    assert_eq!(check, "ok", "the file is damaged");
    let mut statement =
        database.prepare("SELECT CAST(id AS TEXT), lease_state, lease_fence FROM work")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
    rows.collect()
}
