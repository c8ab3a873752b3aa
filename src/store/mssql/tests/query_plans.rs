//! Query plans that a server chooses for the broker's batches. The tests check that each statement uses the index that
//! its SQL file names. The cost of a claim, heartbeat, settlement or reap then does not depend on the number of rows in
//! the table.
//!
//! The session has profiling on, so the server returns the plan of each statement after its result.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_model::lease_id::LeaseRef;
use lease_broker_value::Value;
use serde_json::json;
use tiberius::{ColumnData, Row, ToSql};
use uuid::Uuid;

use super::super::adopt::{apply, plan};
use super::super::connection::Connection;
use super::super::decode;
use super::super::list_parameters::{ListEntry, ListParameters};
use super::super::migrations::migrate;
use super::super::operation_batch::BatchParameters;
use super::super::operations::MssqlOperations;
use super::super::queue_statements::QueueStatements;
use super::super::search::SearchParameters;
use super::super::statement_parts::COMMIT;
use super::super::written_columns::stored_checkpoint;
use super::super::{Pool, Settings};
use super::test_server;
use crate::test_queue::spec;
use crate::{
    Cancellation, Checkpoints, Ending, ItemChange, ItemFilter, ItemSearch, OperationBatch,
    SearchPosition, Settlement,
};

/// Number of rows of the table. It is so large that a planner prefers an index to a scan.
const ROWS: u32 = 100_000;
/// Number of calls per claim, and of items per call. Both are 1: Babelfish has no statistics of a table that was just
/// filled and expects few leases, so for several calls it would read all leases instead of seeking each.
const CALLS: usize = 1;
const ITEMS: usize = 1;

/// The number of rows that a page looks at.
const PAGE: usize = 20;
/// The number of further rows that Babelfish reads for a page: it sorts the rows of each time by their keys, 32 rows at once.
const SORTED: usize = 34;

/// A statement of a batch: its first word, a text in it, and the indexes of which its plan must use one.
type Expected = (&'static str, &'static str, &'static [&'static str]);

/// Indexes that find a row by its key. In a queue in key order, the ready index finds ready rows as well.
const BY_KEY: &[&str] = &["item_key", "item_lease_ready"];
const READY: &[&str] = &["item_lease_ready"];
const TOKEN: &[&str] = &["item_lease_token"];
const DUE: &[&str] = &["item_lease_due"];

const DEAD: &[&str] = &["item_lease_dead"];
/// The first rows of one time: a server can also find them in the order of the key.
const DEAD_OR_KEY: &[&str] = &["item_lease_dead", "item_key"];

/// A database with a queue of many rows in every state, and a session with profiling on.
struct ProfiledQueue {
    connection: Connection,
    mssql: MssqlOperations,
}

impl ProfiledQueue {
    fn statements(&self) -> &QueueStatements {
        &self.mssql.queues[0]
    }

    async fn run(&mut self, sql: &str, parameters: &[&dyn ToSql]) -> Vec<Vec<Row>> {
        let results = self.connection.query(sql, parameters).await;
        results.unwrap_or_else(|error| panic!("{error}: {sql}"))
    }

    /// Claims and checks the plans. `has_request_id`: the calls have request ids. `within_bytes`: items can be too large.
    async fn claim(&mut self, has_request_id: bool, within_bytes: bool) -> Vec<LeaseRef> {
        let list = (0..CALLS).map(|index| {
            let mut entry = ListEntry::default();
            for (name, value) in [
                ("o", json!(index)),
                ("n", json!(ITEMS)),
                ("w", json!("worker")),
                ("t", json!(Uuid::new_v4().to_string())),
                ("d", json!(60_000)),
                ("r", json!(has_request_id)),
                ("b", json!(1_000_000)),
                ("m", json!(1_000_000)),
            ] {
                entry.insert(name, value);
            }
            entry
        });
        let statements = &self.statements().sql;
        let batches = if within_bytes {
            &statements.claim.within_bytes
        } else {
            &statements.claim.small
        };
        let (sql, parameters) = (
            if has_request_id {
                batches.with_retries.clone()
            } else {
                batches.new.clone()
            },
            ListParameters::new(vec![list.collect()]),
        );
        let results = self.run(&sql, &parameters.parameters()).await;
        let leases = results
            .iter()
            .flatten()
            .filter(|row| first_column_is(row, "lb_t"));
        let lease = |row: &Row| LeaseRef {
            key: self.statements().read_key(row, 2).expect("a key"),
            token: decode::token(row, 0).expect("a token"),
            fence: decode::integer(row, 3).expect("a fence"),
            attempt: 1,
        };
        let leases: Vec<LeaseRef> = leases.map(lease).collect();
        assert_eq!(leases.len(), CALLS * ITEMS);
        expect(
            &results,
            &[
                ("INSERT", "@picked", READY),
                ("UPDATE", "lease_attempt", BY_KEY),
                ("SELECT", "lb_trace", BY_KEY),
            ],
        );
        if has_request_id {
            let results = self.run(&sql, &parameters.parameters()).await;
            expect(
                &results,
                &[
                    ("SELECT", "ORDER BY r.lb_o", TOKEN),
                    ("INSERT", "@answered", TOKEN),
                ],
            );
        }
        leases
    }

    /// Extends the leases and checks the plans. `is_lost`: they are lost. `stores`: a checkpoint is stored.
    async fn heartbeat(&mut self, leases: &[LeaseRef], is_lost: bool, stores: bool) {
        let list = leases.iter().enumerate().map(|(index, lease)| {
            let mut entry = QueueStatements::lease_entry(index, lease);
            entry.insert("d", json!(60_000));
            if stores {
                entry.insert("h", json!(1));
                entry.insert("c", stored_checkpoint(b"half"));
            }
            entry
        });
        let statements = &self.statements().sql;
        let with_checkpoints = statements.extend_with_checkpoints.clone();
        let (sql, parameters) = (
            with_checkpoints
                .filter(|_| stores)
                .unwrap_or(statements.extend.clone()),
            ListParameters::new(vec![list.collect()]),
        );
        let results = self.run(&sql, &parameters.parameters()).await;
        let by_key = [
            ("UPDATE", "lease_due_time", BY_KEY),
            ("SELECT", "lb_due", BY_KEY),
        ];
        expect(&results, &by_key);
        if is_lost {
            expect(&results, &[("SELECT", "lb_cancelled", BY_KEY)]);
        }
    }

    /// Cancels the leases and checks the plans. `is_repeated`: they were cancelled before.
    async fn cancel(&mut self, leases: &[LeaseRef], is_repeated: bool) {
        let list = leases.iter().enumerate().map(|(index, lease)| {
            let mut entry = ListEntry::default();
            entry.insert("i", json!(index));
            QueueStatements::insert_key(&mut entry, &lease.key);
            entry
        });
        let mut how = ListEntry::default();
        for (name, value) in [("n", json!(0)), ("e", json!("stuck")), ("m", json!(0))] {
            how.insert(name, value);
        }
        let (sql, parameters) = (
            self.statements().sql.cancel.clone(),
            ListParameters::new(vec![list.collect(), vec![how]]),
        );
        let results = self.run(&sql, &parameters.parameters()).await;
        let rows = results
            .iter()
            .flatten()
            .filter(|row| first_column_is(row, "lb_i"));
        assert_eq!(rows.count(), leases.len());
        expect(&results, &[("INSERT", "@held", BY_KEY)]);
        if is_repeated {
            expect(&results, &[("SELECT", "NOT IN", BY_KEY)]);
        } else {
            expect(&results, &[("UPDATE", "lease_error", BY_KEY)]);
        }
    }

    /// Asks why the items are not claimed, and checks the plans.
    async fn inspect(&mut self, leases: &[LeaseRef]) {
        let key = ListParameters::new(vec![
            self.statements()
                .key_entries(std::slice::from_ref(&leases[0].key)),
        ]);
        let sql = self.statements().sql.why.facts.clone();
        let parameters = key.and(&[&1_001, &15]);
        let results = self.run(&sql, &parameters).await;
        expect(
            &results,
            &[
                ("SELECT", "AS lb_state", BY_KEY),
                ("INSERT", "@ready", READY),
                ("SELECT", "MIN(d.lb_p)", BY_KEY),
            ],
        );
    }

    /// Completes and checks the plans. `columns` are written into each row. `is_retry`: the leases were completed before.
    async fn complete(&mut self, leases: &[LeaseRef], columns: &[(String, Value)], is_retry: bool) {
        let settlement = |lease: &LeaseRef| {
            let follow_ups = Vec::new();
            let mut done = Settlement::new(lease.clone(), Ending::Complete { follow_ups });
            done.columns = columns.to_vec();
            done
        };
        let settlements: Vec<Settlement> = leases.iter().map(settlement).collect();
        let indexes: Vec<usize> = (0..settlements.len()).collect();
        let batch = self
            .mssql
            .render_settlement(self.statements(), &settlements, &indexes, COMMIT);
        let (sql, parameters) = batch.expect("a batch");
        let results = self.run(&sql, &parameters.parameters()).await;
        let settled = results
            .iter()
            .flatten()
            .filter(|row| first_column_is(row, "lb_i"));
        assert_eq!(settled.count(), settlements.len());
        expect(&results, &[("SELECT", "lb_i", BY_KEY)]);
        if is_retry {
            expect(&results, &[("SELECT", "lease_owner", BY_KEY)]);
        } else {
            expect(&results, &[("UPDATE", "lease_attempt", BY_KEY)]);
        }
    }

    async fn release_claims(&mut self, leases: &[LeaseRef]) {
        let list = leases.iter().enumerate().map(|(index, lease)| {
            let mut entry = ListEntry::default();
            entry.insert("i", json!(index));
            entry.insert("t", json!(lease.token.to_string()));
            entry
        });
        let (sql, parameters) = (
            self.statements().sql.release_claims.clone(),
            ListParameters::new(vec![list.collect()]),
        );
        let results = self.run(&sql, &parameters.parameters()).await;
        let released = results
            .iter()
            .flatten()
            .filter(|row| first_column_is(row, "lb_i"));
        assert_eq!(released.count(), leases.len());
        expect(
            &results,
            &[
                ("INSERT", "@held", TOKEN),
                ("UPDATE", "lease_attempt", BY_KEY),
            ],
        );
    }

    /// Searches for items and checks the plans: a page looks at few rows, wherever it begins.
    async fn search(&mut self) {
        let mut search = ItemSearch {
            state: State::Dead,
            filter: ItemFilter {
                owner: Some("nobody".to_owned()),
                ..ItemFilter::default()
            },
            not_since: None,
            after: None,
            newest_first: false,
            limit: 3,
            max_examined: PAGE,
        };
        let times = "SELECT lease_state_time FROM item WHERE lease_state = 4 AND id IN (25, 50005, 99965) ORDER BY id";
        let times = self.run(times, &[]).await;
        let times = times[0].iter().map(|row| decode::time(row, 0));
        let times: Vec<i64> = times.collect::<Result<_, _>>().expect("times");
        let keys = [25, 50_005, 99_965].map(|id| Key([Value::Int(id)].into()));
        let positions = times.into_iter().zip(keys);
        let positions = positions.map(|(time, key)| {
            Some(SearchPosition {
                time: Some(Value::Int(time)),
                key,
            })
        });
        for after in std::iter::once(None).chain(positions) {
            search.after = after;
            for newest_first in [false, true] {
                search.newest_first = newest_first;
                let results = self.find(&search).await;
                if search.after.is_some() {
                    let beyond = if newest_first { "< @time" } else { "> @time" };
                    let plans = [("INSERT", "= @time", DEAD_OR_KEY), ("INSERT", beyond, DEAD)];
                    expect(&results, &plans);
                } else {
                    expect(&results, &[("INSERT", "@found", DEAD)]);
                }
                expect_few_rows(&results);
            }
        }
        search.after = None;
        for (state, index) in [
            (State::Leased, DUE),
            (State::Delayed, DUE),
            (State::Ready, READY),
        ] {
            search.state = state;
            let results = self.find(&search).await;
            expect(&results, &[("INSERT", "@found", index)]);
            expect_few_rows(&results);
        }
    }

    async fn find(&mut self, search: &ItemSearch) -> Vec<Vec<Row>> {
        let sql = self.statements().render_search(search, &[]);
        let position = search.after.as_ref().map(|after| &after.key);
        let lists = QueueStatements::search_lists(position, ListEntry::default());
        let parameters = SearchParameters::new(search);
        let all = lists.and(&parameters.all());
        self.run(&sql, &all).await
    }

    /// Applies a batch of each kind of operation to an item and checks the plans.
    async fn operate(&mut self) {
        let (id, holder) = (Uuid::new_v4(), Uuid::new_v4());
        let start = format!(
            "INSERT lease_broker_operation (id, queue, kind, slot, definition, actor, reason, create_time, holder)
            SELECT '{id}', 'items', 'redrive', 'redrive', '', '', '', SYSUTCDATETIME(), '{holder}'"
        );
        batch(&mut self.connection, &start).await;
        let cancellation = Cancellation {
            delay: Duration::ZERO,
            dead_letter: false,
            reason: String::new(),
            call: None,
        };
        let redrive = ItemChange::Redrive {
            delay: Duration::ZERO,
            keep_attempts: false,
            checkpoints: Checkpoints::Clear,
        };
        let changes = [
            (redrive, 45, "UPDATE"),
            (ItemChange::Purge(State::Dead), 65, "DELETE"),
            (ItemChange::Cancel(cancellation), 81, "UPDATE"),
        ];
        for (number, (change, item, word)) in (0..).zip(changes) {
            let change = OperationBatch {
                id,
                holder,
                number,
                hold_for: Duration::ZERO,
                change,
                items: vec![(Key([Value::Int(item)].into()), 0)],
                position: None,
                examined: 1,
                refused: 0,
                error: None,
                end: None,
            };
            let sql = self.statements().render_apply(&change.change);
            let parameters = BatchParameters::new(self.statements(), &change);
            let results = self.connection.query(&sql, &parameters.all()).await;
            let results = results.expect("applied");
            expect(
                &results,
                &[("INSERT", "@held", BY_KEY), (word, "lb_f", BY_KEY)],
            );
        }
    }

    /// Lets the leases expire, reaps and checks the plans.
    async fn reap(&mut self) {
        let expire = "UPDATE item SET lease_due_time = '20010101' WHERE lease_state = 1";
        batch(&mut self.connection, expire).await;
        let sql = self.statements().sql.reap.clone();
        let unknown: Option<i32> = None;
        let results = self.run(&sql, &[&1, &3, &unknown, &unknown]).await;
        expect(
            &results,
            &[
                ("INSERT", "@due", DUE),
                ("UPDATE", "lease_error", BY_KEY),
                ("SELECT", "AS lb_due", DUE),
            ],
        );
    }
}

#[tokio::test]
async fn statements_use_the_indexes_that_their_files_name() {
    let Some(server) = test_server() else {
        return;
    };
    let name = format!("lb_test_{}", Uuid::new_v4().simple());
    let mut first = connect(&Settings::new(server.clone())).await;
    batch(&mut first, &format!("CREATE DATABASE [{name}]")).await;
    let mut queue = set_up(&Settings::new(format!("{server};database={name}"))).await;
    let leases = queue.claim(true, false).await;
    queue.release_claims(&leases).await;
    let leases = queue.claim(false, true).await;
    queue.inspect(&leases).await;
    queue.search().await;
    queue.operate().await;
    queue.cancel(&leases, false).await;
    queue.cancel(&leases, true).await;
    queue.heartbeat(&leases, true, false).await;
    let leases = queue.claim(true, true).await;
    queue.heartbeat(&leases, false, false).await;
    queue.heartbeat(&leases, false, true).await;
    queue.complete(&leases, &[], false).await;
    queue.complete(&leases, &[], true).await;
    let leases = queue.claim(false, false).await;
    let columns = [
        ("result".to_owned(), Value::Int(1)),
        ("details".to_owned(), Value::Text("long ".repeat(1_000))),
    ];
    queue.complete(&leases, &columns, false).await;
    queue.claim(false, false).await;
    queue.reap().await;
    drop(queue);
    // The session may still be ending, so the drop is tried again. A later test run drops the database of a failed
    // test.
    for _ in 0..100 {
        if first
            .batch(&format!("DROP DATABASE [{name}]"))
            .await
            .is_ok()
        {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the database {name} is left behind");
}

async fn set_up(settings: &Settings) -> ProfiledQueue {
    let mut connection = connect(settings).await;
    let migrated = migrate(&mut connection).await;
    migrated.expect("the broker's own tables");
    let create = "CREATE TABLE item (id int NOT NULL CONSTRAINT item_key PRIMARY KEY, result int, details nvarchar(max))";
    batch(&mut connection, create).await;
    let mut spec = spec("item");
    spec.writable = ["result", "details"].map(str::to_owned).into();
    spec.max_checkpoint_bytes = Some(4_096);
    for step in plan(&mut connection, &spec).await.expect("plan") {
        let applied = apply(&mut connection, &step, &mut |_| ()).await;
        applied.expect(&step.sql);
    }
    // Of every 20 rows one is leased, one is delayed, two are ready, one is dead, and the others are completed. Half of the leased
    // and delayed rows are due.
    let fill = format!(
        "WITH n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 99),
            ids AS (SELECT a.i + 100 * b.i + 10000 * c.i + 1 AS id FROM n AS a CROSS JOIN n AS b CROSS JOIN n AS c
                WHERE c.i < {ROWS} / 10000)
        INSERT item (id, lease_state, lease_state_time, lease_due_time, lease_token)
        SELECT id, CASE id % 20 WHEN 1 THEN 1 WHEN 2 THEN 2 WHEN 3 THEN 0 WHEN 4 THEN 0 WHEN 5 THEN 4 ELSE 3 END,
            DATEADD(second, id - {ROWS}, SYSUTCDATETIME()),
            CASE WHEN id % 20 IN (1, 2) THEN DATEADD(second, id - {ROWS} / 2, SYSUTCDATETIME()) END,
            CASE WHEN id % 20 = 1 THEN NEWID() END
        FROM ids"
    );
    batch(&mut connection, &fill).await;
    let table = QueueStatements::read(&mut connection, &spec, &lease_broker_sql::mssql::LEASE_SQL)
        .await
        .expect("a queue");
    let profile = if connection.server_info.babelfish {
        "SET BABELFISH_STATISTICS PROFILE ON"
    } else {
        "SET STATISTICS PROFILE ON"
    };
    batch(&mut connection, profile).await;
    ProfiledQueue {
        connection,
        mssql: MssqlOperations {
            pool: Pool::new(settings).expect("a pool"),
            queues: vec![table].into(),
        },
    }
}

async fn connect(settings: &Settings) -> Connection {
    let server = settings.server().expect("a connection string");
    Box::pin(Connection::open(&server, settings))
        .await
        .expect("a server")
}

async fn batch(connection: &mut Connection, sql: &str) {
    let ran = connection.batch(sql).await;
    ran.unwrap_or_else(|error| panic!("{error}: {sql}"));
}

/// Returns whether the first column of a row has this name. The results of the profiler have other names.
fn first_column_is(row: &Row, first: &str) -> bool {
    row.columns()
        .first()
        .is_some_and(|column| column.name() == first)
}

fn expect(results: &[Vec<Row>], expected: &[Expected]) {
    // Babelfish writes variables in quotes.
    let plans: Vec<String> = plans(results)
        .iter()
        .map(|plan| plan.replace('"', ""))
        .collect();
    for (begins, has, indexes) in expected {
        let mut found = plans
            .iter()
            .filter(|plan| plan.trim_start().starts_with(begins) && plan.contains(has));
        let plan = found
            .next()
            .unwrap_or_else(|| panic!("no plan of {begins} … {has}: {plans:#?}"));
        let used = indexes.iter().any(|index| plan.contains(index));
        assert!(used, "the plan uses none of {indexes:?}: {plan}");
        let scanned = plan.lines().find(|line| {
            line.contains("Seq Scan on item")
                || line.contains("Index Scan") && line.contains("[item_key]")
        });
        assert_eq!(scanned, None, "the plan reads the whole table: {plan}");
    }
}

/// Checks that no part of a search on Babelfish has read more rows than a page looks at. The text of a plan has the numbers there.
fn expect_few_rows(results: &[Vec<Row>]) {
    for plan in plans(results) {
        if !plan.trim_start().starts_with("INSERT") || !plan.contains("@found") {
            continue;
        }
        for line in plan.lines().filter(|line| line.contains(" on item ")) {
            let rows = line.split("actual ").nth(1).and_then(|actual| {
                let rows = actual.split("rows=").nth(1)?;
                let digits: String = rows.chars().take_while(char::is_ascii_digit).collect();
                digits.parse::<usize>().ok()
            });
            assert!(
                rows.is_none_or(|rows| rows <= PAGE + SORTED),
                "{line}: {plan}"
            );
        }
    }
}

/// Returns the text of each statement with its plan. SQL Server returns one result set per statement: the text, then
/// the operators. Babelfish returns lines of text, and a line that begins with "Query Text: " begins a statement.
fn plans(results: &[Vec<Row>]) -> Vec<String> {
    const BEGIN: &str = "Query Text: ";

    let mut plans: Vec<String> = Vec::new();
    for rows in results {
        let columns = rows.first().map_or(&[][..], Row::columns);
        let profile = columns
            .iter()
            .position(|column| column.name() == "StmtText");
        if profile.is_some() {
            plans.push(String::new());
        }
        for row in rows {
            let line = row.cells().nth(profile.unwrap_or(0)).map(|(_, data)| data);
            let Some(ColumnData::String(Some(line))) = line else {
                continue;
            };
            if let Some(begin) = line.strip_prefix(BEGIN) {
                plans.push(begin.to_owned());
            } else if let Some(plan) = plans.last_mut() {
                plan.extend([line, "\n"]);
            }
        }
    }
    plans
}
