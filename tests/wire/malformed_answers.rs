//! Answers that no statement of the broker can have. The store returns an error. It does not panic, and it does not guess.

use std::ops::Range;

use lease_broker_store::StoreError;
use uuid::Uuid;

use crate::wire::answers::{
    OPERATION, TOKEN, claimed_row, expired_row, held_row, next_due_row, settled_row,
};
use crate::wire::fixture::Fixture;
use crate::wire::responder::script::Reply;
use crate::wire::responder::tokens::{Cell, Tokens};

/// Answers an operation with these result sets, and returns a description if the store does not report a bug.
async fn problem(
    fixture: &Fixture,
    description: &str,
    answer: Tokens,
    operation: impl AsyncFn(&Fixture) -> Result<(), StoreError>,
) -> Option<String> {
    fixture.server.on(OPERATION, vec![Reply::Answer(answer)]);
    match operation(fixture).await {
        Ok(()) => Some(format!("accepted: {description}")),
        Err(StoreError::Bug(text)) if text.contains("ended early") => {
            Some(format!("panicked: {description}: {text}"))
        }
        Err(StoreError::Bug(_)) => None,
        Err(error) => Some(format!("not reported as a bug: {description}: {error:?}")),
    }
}

/// Returns the row with its last columns removed, once for each number of remaining columns.
fn with_fewer_columns(row: &[Cell], left: Range<usize>) -> Vec<(String, Vec<Cell>)> {
    left.map(|left| (format!("{left} columns"), row[..left].to_vec()))
        .collect()
}

/// Returns the row with NULL, and with bytes, in each of these columns.
fn with_wrong_values(row: &[Cell], columns: &[usize]) -> Vec<(String, Vec<Cell>)> {
    let mut wrong = Vec::new();
    for column in columns {
        let cells = [
            ("NULL", row[*column].null()),
            ("bytes", Cell::Bytes(Some(vec![1, 2, 3]))),
        ];
        for (description, cell) in cells {
            let mut row = row.to_vec();
            row[*column] = cell;
            wrong.push((format!("{description} in column {column}"), row));
        }
    }
    wrong
}

/// Answers an operation with each of these rows, alone or followed by another result set. Returns all problems.
async fn problems(
    rows: Vec<(String, Vec<Cell>)>,
    then: Option<Vec<Cell>>,
    operation: impl AsyncFn(&Fixture) -> Result<(), StoreError>,
) -> Vec<String> {
    let fixture = Fixture::start().await;
    let mut problems = Vec::new();
    for (description, row) in rows {
        let answer = Tokens::new().rows(&[row]);
        let answer = match &then {
            Some(row) => answer.rows(std::slice::from_ref(row)),
            None => answer,
        };
        problems.extend(problem(&fixture, &description, answer, &operation).await);
    }
    problems
}

const NO_PROBLEMS: [String; 0] = [];

async fn claim(fixture: &Fixture) -> Result<(), StoreError> {
    fixture.claim().await.map(drop)
}

async fn heartbeat(fixture: &Fixture) -> Result<(), StoreError> {
    fixture.heartbeat(1).await.map(drop)
}

async fn complete(fixture: &Fixture) -> Result<(), StoreError> {
    fixture.complete(1).await.map(drop)
}

async fn reap(fixture: &Fixture) -> Result<(), StoreError> {
    fixture.reap().await.map(drop)
}

async fn enqueue(fixture: &Fixture) -> Result<(), StoreError> {
    fixture.enqueue(1).await.map(drop)
}

async fn redrive(fixture: &Fixture) -> Result<(), StoreError> {
    fixture.redrive().await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_claim_answer_is_an_error() {
    let row = claimed_row(TOKEN, 1);
    // Another test covers the key. The trace context and the columns of the queue may be NULL.
    let mut rows = with_wrong_values(&row, &[0, 1, 3, 4, 5]);
    rows.extend(with_fewer_columns(&row, 0..7));
    assert_eq!(problems(rows, None, claim).await, NO_PROBLEMS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_of_another_claim_is_ignored() {
    let fixture = Fixture::start().await;
    let rows = [claimed_row(Uuid::from_u128(8), 1), claimed_row(TOKEN, 2)];
    let answer = Reply::Answer(Tokens::new().rows(&rows));
    fixture.server.on(OPERATION, vec![answer]);
    let items = fixture.claim().await.expect("claimed");
    let keys: Vec<String> = items
        .iter()
        .map(|item| item.lease.key.to_string())
        .collect();
    assert_eq!(keys, ["2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn item_with_unexpected_columns_is_an_error() {
    let row = claimed_row(TOKEN, 1);
    let mut rows = with_fewer_columns(&row, 7..9);
    let more = row.into_iter().chain([Cell::text("more")]);
    rows.push(("one more".to_owned(), more.collect()));
    assert_eq!(problems(rows, None, claim).await, NO_PROBLEMS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_heartbeat_answer_is_an_error() {
    let row = held_row(0);
    let mut rows = with_wrong_values(&row, &[0, 1, 2]);
    rows.extend(with_fewer_columns(&row, 0..3));
    assert_eq!(problems(rows, None, heartbeat).await, NO_PROBLEMS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_settlement_answer_is_an_error() {
    let row = settled_row(0, 3);
    let mut rows = with_wrong_values(&row, &[0, 1]);
    rows.extend(with_fewer_columns(&row, 0..3));
    assert_eq!(problems(rows, None, complete).await, NO_PROBLEMS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_reaper_answer_is_an_error() {
    let row = expired_row(1);
    // Other tests cover the key and the token. Owner, times of the lease and trace context may be NULL.
    let mut rows = with_wrong_values(&row, &[1, 2, 8, 9, 10]);
    rows.extend(with_fewer_columns(&row, 0..11));
    let next = Some(next_due_row());
    assert_eq!(problems(rows, next, reap).await, NO_PROBLEMS);
    let mut rows = with_wrong_values(&next_due_row(), &[0, 1, 2]);
    // NULL: nothing will be due.
    rows.retain(|(description, _)| description != "NULL in column 1");
    rows.extend(with_fewer_columns(&next_due_row(), 0..3));
    for (description, next) in rows {
        let first = vec![(description, expired_row(1))];
        assert_eq!(problems(first, Some(next), reap).await, NO_PROBLEMS);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enqueue_answer_without_keys_is_an_error() {
    let row = vec![Cell::BigInt(Some(1))];
    assert_eq!(
        problems(with_fewer_columns(&row, 0..1), None, enqueue).await,
        NO_PROBLEMS
    );
    let fixture = Fixture::start().await;
    let problem = problem(&fixture, "nothing", Tokens::new(), enqueue).await;
    assert_eq!(problem, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batch_answer_without_a_count_is_an_error() {
    let rows = with_wrong_values(&[Cell::Int(Some(1))], &[0]);
    assert_eq!(problems(rows, None, redrive).await, NO_PROBLEMS);
    // An answer without a result says that the batch was not applied.
    let fixture = Fixture::start().await;
    let answer = Reply::Answer(Tokens::new());
    fixture.server.on(OPERATION, vec![answer]);
    assert_eq!(fixture.redrive().await, Ok(None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn null_or_mistyped_key_is_an_error() {
    let rows = with_wrong_values(&claimed_row(TOKEN, 1), &[2]);
    let mut found = problems(rows, None, claim).await;
    let rows = with_wrong_values(&expired_row(1), &[0]);
    found.extend(problems(rows, Some(next_due_row()), reap).await);
    let rows = with_wrong_values(&[Cell::BigInt(Some(1))], &[0]);
    found.extend(problems(rows, None, enqueue).await);
    assert_eq!(found, NO_PROBLEMS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_lease_whose_token_was_removed_is_reaped() {
    let rows = with_wrong_values(&expired_row(1), &[3]);
    let next = Some(next_due_row());
    let accepted = ["accepted: NULL in column 3"];
    assert_eq!(problems(rows, next, reap).await, accepted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answer_for_an_unknown_index_is_an_error() {
    let indexes = [-1, 1, 1_000];
    let held = indexes.map(|index| (format!("held {index}"), held_row(index)));
    let mut found = problems(held.into(), None, heartbeat).await;
    let settled = indexes.map(|index| (format!("settled {index}"), settled_row(index, 3)));
    found.extend(problems(settled.into(), None, complete).await);
    assert_eq!(found, NO_PROBLEMS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_state_is_an_error() {
    let settled = vec![("settled to 9".to_owned(), settled_row(0, 9))];
    let mut found = problems(settled, None, complete).await;
    let mut row = expired_row(1);
    row[10] = Cell::TinyInt(Some(9));
    let expired = vec![("expired to 9".to_owned(), row)];
    found.extend(problems(expired, Some(next_due_row()), reap).await);
    assert_eq!(found, NO_PROBLEMS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answer_without_a_result_set_is_an_error() {
    let fixture = Fixture::start().await;
    let mut found = Vec::new();
    found.extend(problem(&fixture, "claim", Tokens::new(), claim).await);
    found.extend(problem(&fixture, "heartbeat", Tokens::new(), heartbeat).await);
    found.extend(problem(&fixture, "complete", Tokens::new(), complete).await);
    found.extend(problem(&fixture, "reap", Tokens::new(), reap).await);
    assert_eq!(found, NO_PROBLEMS);
}

/// SQL Server stores any UTF-16 units. An answer with half a surrogate pair must not be lost, because the server has leased its
/// items.
#[tokio::test]
async fn half_a_surrogate_pair_is_replaced_and_the_items_are_kept() {
    let fixture = Fixture::start().await;
    let mut row = claimed_row(TOKEN, 1);
    row[8] = Cell::Units(vec![0x61, 0xD800, 0x62]);
    let answer = Tokens::new().rows(&[row, claimed_row(TOKEN, 2)]);
    fixture.server.on(OPERATION, vec![Reply::Answer(answer)]);
    let items = fixture.claim().await.expect("two items");
    assert_eq!(items.len(), 2);
    let text = |text: &str| lease_broker_value::Value::Text(text.to_owned());
    assert_eq!(items[0].columns[1], text("a\u{FFFD}b"));
    assert_eq!(items[1].columns[1], text("payload"));
}
