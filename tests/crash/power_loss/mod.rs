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
use rusqlite::config::DbConfig;
use tonic::Code;

use self::device::{Device, Flushes, Kept};
use self::journal::{Answer, Answers, Event, Name};
use crate::crash::{Site, seeded_random};
use crate::support::client::{Client, completion, item, key};
use crate::support::process::BrokerProcess;
use crate::support::skipped::skipped;
use crate::support::timeout::{wait_until, with_timeout};

const CLIENTS: usize = 4;
/// The items of each client. They fill the log several times, so that it is copied to the database file and used again.
const ITEMS: usize = 40;
const PAYLOAD_BYTES: usize = 2_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_loss_takes_nothing_that_was_answered() {
    let Some(site) = RecordedSite::new() else {
        return;
    };
    run_brokers(&site).await;

    let events = journal::read(&site.journal());
    let mut random = seeded_random();
    let mut find = |flushes| find_lost_answer(&events, flushes, &mut random, site.folder());
    let checked = find(Flushes::Obeyed).unwrap_or_else(|lost| panic!("{lost}"));
    eprintln!(
        "{} events, {checked} files after a loss of power",
        events.len()
    );
    assert!(checked > CLIENTS * ITEMS);
    let first_answer = events
        .iter()
        .position(|event| matches!(event, Event::Answer(_)));
    let is_copy = |event: &Event| {
        matches!(
            event,
            Event::Write {
                file: Name::Database,
                ..
            }
        )
    };
    assert!(
        events[first_answer.expect("answers")..].iter().any(is_copy),
        "the log was never copied to the database file"
    );
    find(Flushes::IgnoredForTheLog).expect_err("a device that ignores flushes loses answers");
}

/// Linux drops the pages of a failed write. A second flush then succeeds although the device does not have them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flush_that_fails_is_not_tried_again() {
    let Some(site) = RecordedSite::new() else {
        return;
    };
    let broker = site.serve();
    let client = Client::new(broker.channel(), "work");
    let kept = client.enqueue(&["x"]).await;
    let fail = site.fail_flushes();
    let enqueue = async || client.try_enqueue(vec![item("x")]).await.unwrap_err();
    let refused = enqueue().await;
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    std::fs::remove_file(fail).expect("the file is removed");
    let refused = enqueue().await;
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    let cause = "the device failed to keep the write-ahead log";
    wait_until(cause, async || broker.log().contains(cause)).await;
    drop(broker);

    let broker = site.serve();
    let client = Client::new(broker.channel(), "work");
    let leases = client.claim(9).await;
    assert!(leases.iter().any(|lease| key(lease) == kept[0]));
}

/// A database file whose brokers run with the recording library.
struct RecordedSite {
    site: Site,
    file: PathBuf,
    environment: [(&'static str, String); 4],
}

impl RecordedSite {
    /// Compiles the library. `None`: this machine has no compiler for it, and the test is skipped.
    fn new() -> Option<Self> {
        let site = Site::new();
        let folder = std::fs::canonicalize(site.folder.path()).expect("the folder exists");
        let library = folder.join("recorder.so");
        let source = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/crash/power_loss/recorder.c"
        );
        let compile = cfg!(target_os = "linux").then(|| {
            let mut compile = Command::new("cc");
            compile
                .args(["-shared", "-fPIC", "-O1", "-o"])
                .arg(&library);
            compile.args([source, "-ldl"]).output().ok()
        });
        let Some(compiled) = compile.flatten() else {
            skipped("power loss: no C compiler for Linux was found");
            return None;
        };
        let errors = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{errors}");
        let journal = folder.join("journal");
        File::create(&journal).expect("the journal is created");
        let file = folder.join("queues.db");
        let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        Some(Self {
            environment: [
                ("LD_PRELOAD", text(&library)),
                ("RECORD_DATABASE", text(&file)),
                ("RECORD_JOURNAL", text(&journal)),
                ("RECORD_FAIL", text(&folder.join("fail"))),
            ],
            site,
            file,
        })
    }

    fn folder(&self) -> &Path {
        self.site.folder.path()
    }

    fn journal(&self) -> PathBuf {
        self.folder().join("journal")
    }

    /// Makes flushes of the log fail as long as the file exists.
    fn fail_flushes(&self) -> PathBuf {
        let file = self.folder().join("fail");
        File::create(&file).expect("the file is created");
        file
    }

    fn serve(&self) -> BrokerProcess {
        let environment = self.environment.each_ref();
        let environment = environment.map(|(name, value)| (*name, value.as_str()));
        let config = self.folder().join("queues.toml");
        BrokerProcess::with_environment(&self.file, &config, &environment)
    }
}

/// Runs clients on two brokers, which are killed afterwards. The journal has their writes and the answers.
async fn run_brokers(site: &RecordedSite) {
    let brokers = [(); 2].map(|()| site.serve());
    let answers = Arc::new(Answers::open(&site.journal()));
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
            let prefixes = (0..=device.longest_pending()).map(Kept::First);
            for kept in prefixes.chain([Kept::Some]) {
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
                Answer::Added { key } | Answer::Leased { key, .. } | Answer::Completed { key } => {
                    row(key)
                }
            };
            return Err(format!("lost {answer:?}, the row is {row:?}"));
        }
    }
    Ok(())
}

/// Returns the state and the fencing token of each row, by key.
fn read_rows(file: &Path) -> rusqlite::Result<HashMap<String, (i64, i64)>> {
    let database = Connection::open(file)?;
    // The file is not used again, so its log need not be copied to it.
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let check: String = database.query_row("PRAGMA quick_check", [], |row| row.get(0))?;
    assert_eq!(check, "ok", "the file is damaged");
    let mut statement =
        database.prepare("SELECT CAST(id AS TEXT), lease_state, lease_fence FROM work")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
    rows.collect()
}
