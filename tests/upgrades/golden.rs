//! Files that versions have written: a database with 20 leases, and the ids of the leases. Every later version settles them. The
//! files of a version never change after its release.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lease_broker::config::{Config, Sources};
use lease_broker_model::item_state::State;
use lease_broker_model::lease_id::{self, LeaseOrigin, LeaseOwner};
use lease_broker_model::queue::QueueSpec;
use lease_broker_store::sqlite::SqliteStore;
use lease_broker_store::{
    ClaimCall, Ending, Facts as _, Leases as _, NewItem, QueueIndex, Renewal, Settled, Settlement,
};
use lease_broker_value::Value;

/// The versions whose files are in the folder `golden`.
const VERSIONS: [&str; 1] = ["0.2.0"];
/// The store's clock when the leases were given, in milliseconds since 1970.
const CLAIM_TIME: i64 = 1_795_000_000_000;
const LEASE: Duration = Duration::from_secs(3_600);
const ITEMS: usize = 20;
const QUEUE: QueueIndex = QueueIndex(0);

fn queues() -> Vec<QueueSpec> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config.toml");
    let text = "[queues.work]\nmanaged_columns = { payload = 'text' }\n";
    std::fs::write(&file, text).expect("a file");
    let sources = Sources {
        file: Some(file),
        ..Sources::default()
    };
    let config: Config = sources.load().expect("a configuration");
    config.queues
}

fn open(file: &Path, now: i64) -> SqliteStore {
    SqliteStore::open(file, &queues(), Arc::new(move || now)).expect("the store opens")
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/upgrades/golden")
        .join(name)
}

/// Writes the files of this version, before its release.
#[tokio::test]
#[ignore = "writes the files of a release, see tests/README.md"]
async fn write_golden_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("queue.db");
    let store = open(&file, CLAIM_TIME);
    let item = |number: usize| NewItem {
        columns: vec![("payload".to_owned(), Value::Text(number.to_string()))],
        delay: Duration::ZERO,
        trace_parent: None,
    };
    let items: Vec<NewItem> = (0..ITEMS).map(item).collect();
    store.enqueue(QUEUE, items.into()).await.expect("enqueue");
    let call = ClaimCall {
        worker: "worker".to_owned(),
        token: uuid::Uuid::new_v4(),
        has_request_id: false,
        max_items: ITEMS,
        max_bytes: 1 << 20,
        duration: LEASE,
        groups: Vec::new(),
        max_run: 1,
    };
    let claimed = store.claim(QUEUE, [call].into(), usize::MAX).await;
    let claimed = claimed.expect("claim").remove(0).items;
    let ids: Vec<String> = claimed
        .iter()
        .map(|item| {
            let origin = LeaseOrigin::new(CLAIM_TIME, LEASE, None);
            lease_id::encode(
                store.signing_secrets(),
                "work",
                &LeaseOwner::default(),
                &item.lease,
                &origin,
            )
            .expect("an id")
        })
        .collect();
    assert_eq!(ids.len(), ITEMS);
    let version = env!("CARGO_PKG_VERSION");
    let copy = golden(&format!("{version}.db"));
    // A change of a migration before the release replaces the file.
    let _ = std::fs::remove_file(&copy);
    let connection = rusqlite::Connection::open(&file).expect("open");
    let into = "VACUUM INTO ?1";
    connection
        .execute(into, [copy.to_str().expect("UTF-8")])
        .expect(into);
    let text = ids.join("\n") + "\n";
    std::fs::write(golden(&format!("{version}.ids")), text).expect("written");
}

#[tokio::test]
async fn leases_of_earlier_versions_are_extended_and_settled() {
    for version in VERSIONS {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("queue.db");
        std::fs::copy(golden(&format!("{version}.db")), &file).expect("a copy");
        let store = open(&file, CLAIM_TIME + 60_000);
        let ids = std::fs::read_to_string(golden(&format!("{version}.ids"))).expect("ids");
        let leases: Vec<_> = ids
            .lines()
            .map(|id| {
                let id =
                    lease_id::decode(store.signing_secrets(), "work", &LeaseOwner::default(), id);
                id.unwrap_or_else(|error| panic!("{version}: {error:?}"))
                    .lease
            })
            .collect();
        assert_eq!(leases.len(), ITEMS);
        let renewals: Vec<Renewal> = leases
            .iter()
            .map(|lease| Renewal::new(lease.clone(), LEASE))
            .collect();
        let renewed = store.heartbeat(QUEUE, renewals.into()).await;
        let renewed = renewed.expect("heartbeat");
        assert!(renewed.iter().all(|renewed| renewed.expiry().is_some()));
        let settlements: Vec<Settlement> = leases
            .iter()
            .enumerate()
            .map(|(index, lease)| Settlement::new(lease.clone(), ending(index)))
            .collect();
        let settled = store.settle(QUEUE, settlements.into()).await;
        let expected = [State::Completed, State::Dead, State::Ready].map(Settled::Ended);
        for (index, settled) in settled.expect("settle").results.iter().enumerate() {
            assert_eq!(*settled, expected[index % 3], "{version}: lease {index}");
        }
    }
}

fn ending(index: usize) -> Ending {
    match index % 3 {
        0 => Ending::Complete {
            follow_ups: Vec::new(),
        },
        1 => Ending::Fail {
            error: "no luck".to_owned(),
            retry: None,
        },
        _ => Ending::Release {
            delay: Duration::ZERO,
        },
    }
}
