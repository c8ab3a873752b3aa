//! Random changes of the rows that a server answers with. An operation returns an answer or an error, whatever the rows hold: its
//! task does not panic. The seed is printed.

use lease_broker_store::StoreError;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use uuid::Uuid;

use crate::wire::answers::{
    OPERATION, TOKEN, claimed_row, earlier_row, expired_row, held_row, next_due_row, settled_row,
};
use crate::wire::fixture::Fixture;
use crate::wire::responder::script::Reply;
use crate::wire::responder::tokens::{Cell, Tokens};

const ROUNDS: usize = 300;
/// The times that a `datetime2` can hold, in milliseconds since 1970.
const TIMES: std::ops::RangeInclusive<i64> = -62_135_596_800_000..=253_402_300_799_999;

fn random_cell(random: &mut StdRng) -> Cell {
    let kind = random.random_range(0..10);
    let cell = match kind {
        0 => Cell::TinyInt(Some(random.random())),
        1 => Cell::SmallInt(Some(random.random())),
        2 => Cell::Int(Some(random.random())),
        3 => Cell::BigInt(Some(random.random())),
        4 => Cell::Bit(Some(random.random())),
        5 => Cell::text("text"),
        6 => Cell::Units(
            (0..random.random_range(0..9))
                .map(|_| random.random())
                .collect(),
        ),
        7 => Cell::Bytes(Some(
            (0..random.random_range(0..40))
                .map(|_| random.random())
                .collect(),
        )),
        8 => Cell::Guid(Some(Uuid::from_u128(random.random()))),
        _ => Cell::Time(Some(random.random_range(TIMES))),
    };
    if random.random_range(0..5) == 0 {
        cell.null()
    } else {
        cell
    }
}

/// Changes a row: replaces, removes or adds cells.
fn change(row: &mut Vec<Cell>, random: &mut StdRng) {
    for _ in 0..random.random_range(0..4) {
        let place = random.random_range(0..=row.len());
        match random.random_range(0..6) {
            0 if place < row.len() => drop(row.remove(place)),
            1 => row.insert(place, random_cell(random)),
            _ if place < row.len() => row[place] = random_cell(random),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_rows_end_no_operation_early() {
    let seed: u64 = rand::random();
    eprintln!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let fixture = Fixture::start().await;
    for round in 0..ROUNDS {
        let operation = random.random_range(0..6);
        let row = match operation {
            0 => claimed_row(TOKEN, 1),
            1 => held_row(0),
            2 if random.random() => earlier_row(0, 3),
            2 => settled_row(0, 3),
            3 => expired_row(1),
            4 => vec![Cell::BigInt(Some(1))],
            _ => vec![Cell::Int(Some(1))],
        };
        let mut answer = Tokens::new();
        for _ in 0..random.random_range(1..3) {
            let mut row = row.clone();
            change(&mut row, &mut random);
            if row.is_empty() {
                continue;
            }
            // All rows of a result set have the types of the first.
            let rows = vec![row; random.random_range(1..3)];
            answer = answer.rows(&rows);
        }
        if operation == 3 {
            let mut row = next_due_row();
            change(&mut row, &mut random);
            if !row.is_empty() {
                answer = answer.rows(&[row]);
            }
        }
        let shown = format!("round {round}: {answer:?}");
        fixture.server.on(OPERATION, vec![Reply::Answer(answer)]);
        let ended = match operation {
            0 => fixture.claim().await.map(drop),
            1 => fixture.heartbeat(1).await.map(drop),
            2 => fixture.complete(1).await.map(drop),
            3 => fixture.reap().await.map(drop),
            4 => fixture.enqueue(1).await.map(drop),
            _ => fixture.redrive().await.map(drop),
        };
        if let Err(StoreError::Bug(text)) = ended {
            assert!(!text.contains("ended early"), "{text}, {shown}");
        }
    }
}
