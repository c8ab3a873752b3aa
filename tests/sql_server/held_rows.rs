//! Claims beside a program that holds rows or pages in an open transaction.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_store::mssql::{MssqlStore, Settings};
use lease_broker_store::{
    Cancellation, Cancelled, CancelledLease, ClaimedItem, Ending, Renewal, Renewed, Settled,
};

use crate::harness::errors::unavailable;
use crate::harness::fixture::{Broker, Fixture, HOUR, call, complete, keys, queue};
use crate::harness::mssql::MssqlHarness;
use crate::harness::program::{Program, start, start_on_sql_server};
use crate::sql_server::statements::statement;

const TABLE: &str = "CREATE TABLE item (id int NOT NULL PRIMARY KEY, payload nvarchar(50));
    INSERT item (id) VALUES (1), (2), (3)";

/// Creates a queue of three rows, and another program whose transaction the statement begins.
async fn held_by(held: &str) -> Option<(Fixture<MssqlHarness>, Program, Program)> {
    let started = Box::pin(start_on_sql_server("READPAST")).await?;
    let (fixture, program, holder) = Box::pin(beside(started)).await;
    holder.run(&statement(held)).await;
    Some((fixture, program, holder))
}

/// Creates a queue of three rows, and another program.
async fn beside(
    (harness, program): (MssqlHarness, Program),
) -> (Fixture<MssqlHarness>, Program, Program) {
    program.run(TABLE).await;
    let fixture = Box::pin(Fixture::adopt(harness, vec![queue("item")])).await;
    let holder = program.another().await;
    (fixture, program, holder)
}

#[tokio::test]
async fn claim_skips_a_row_that_a_program_holds() {
    let Some((fixture, _program, holder)) = held_by("hold_first_row").await else {
        return;
    };
    assert_eq!(keys(&fixture.claim(9).await), ["2", "3"]);
    holder.run("ROLLBACK TRANSACTION").await;
    assert_eq!(keys(&fixture.claim(9).await), ["1"]);
}

#[tokio::test]
async fn heartbeats_do_not_wait_for_the_locked_row_of_another() {
    let Some(started) = Box::pin(start()).await else {
        return;
    };
    let (fixture, _program, holder) = Box::pin(beside(started)).await;
    let items = fixture.claim(9).await;
    holder.run(&statement("hold_first_row")).await;
    let renewals = |duration| {
        let renewal = |item: &ClaimedItem| Renewal::new(item.lease.clone(), duration);
        items.iter().map(renewal).collect::<Vec<_>>()
    };
    let renewed = fixture
        .store
        .heartbeat(fixture.queue, renewals(HOUR).into());
    let renewed = renewed.await.expect("heartbeats");
    let Renewed::Refused(refusal) = &renewed[0] else {
        panic!("{renewed:?}");
    };
    assert!(refusal.problem.text.contains("locked"), "{refusal}");
    let is_extended = |renewed: &Renewed| matches!(renewed, Renewed::Extended(_));
    assert!(renewed[1..].iter().all(is_extended), "{renewed:?}");
    // So it is without the others.
    let alone = fixture
        .store
        .heartbeat(fixture.queue, renewals(HOUR)[..1].into());
    let alone = alone.await.expect("a heartbeat");
    assert!(matches!(alone[0], Renewed::Refused(_)), "{alone:?}");
    holder.run("ROLLBACK TRANSACTION").await;
    let renewed = fixture
        .store
        .heartbeat(fixture.queue, renewals(HOUR).into());
    assert!(renewed.await.expect("free").iter().all(is_extended));
}

/// Claims three items, and locks the row of the first one.
async fn leases_beside_a_locked_row() -> Option<(Fixture<MssqlHarness>, Program, Vec<ClaimedItem>)>
{
    let started = Box::pin(start()).await?;
    let (fixture, _program, holder) = Box::pin(beside(started)).await;
    let items = fixture.claim(9).await;
    holder.run(&statement("hold_first_row")).await;
    Some((fixture, holder, items))
}

#[tokio::test]
async fn settlements_do_not_wait_for_the_locked_row_of_another() {
    let Some((fixture, holder, items)) = Box::pin(leases_beside_a_locked_row()).await else {
        return;
    };
    let endings = || {
        let failed = Ending::Fail {
            error: "no".to_owned(),
            retry: None,
        };
        let release = Ending::Release { delay: HOUR };
        let endings = [complete(), failed, release];
        let leases = items.iter().map(|item| &item.lease);
        leases.zip(endings).collect::<Vec<_>>()
    };
    let settled = fixture.try_settle(endings()).await.expect("settled");
    let Settled::Refused(refusal) = &settled[0] else {
        panic!("{settled:?}");
    };
    assert!(refusal.problem.text.contains("locked"), "{refusal}");
    let ended = [State::Dead, State::Delayed].map(Settled::Ended);
    assert_eq!(settled[1..], ended);
    holder.run("ROLLBACK TRANSACTION").await;
    // The same list can be sent again.
    let settled = fixture.try_settle(endings()).await.expect("settled");
    let repeated = [State::Dead, State::Delayed].map(Settled::Repeated);
    assert_eq!(settled[0], Settled::Ended(State::Completed));
    assert_eq!(settled[1..], repeated);
}

#[tokio::test]
async fn cancellations_do_not_wait_for_the_locked_row_of_another() {
    let Some((fixture, holder, items)) = Box::pin(leases_beside_a_locked_row()).await else {
        return;
    };
    let leases = || -> Vec<CancelledLease> {
        let keys = items.iter().map(|item| item.lease.key.clone());
        keys.map(CancelledLease::from).collect()
    };
    let cancellation = Cancellation {
        delay: Duration::ZERO,
        dead_letter: true,
        reason: "no".to_owned(),
        call: None,
    };
    let cancel = || {
        let cancellation = cancellation.clone();
        fixture
            .store
            .cancel(fixture.queue, leases().into(), cancellation)
    };
    let cancelled = cancel().await.expect("cancelled").results;
    assert!(
        matches!(cancelled[0], Cancelled::Refused(_)),
        "{cancelled:?}"
    );
    let is_ended = |cancelled: &Cancelled| matches!(cancelled, Cancelled::Ended { .. });
    assert!(cancelled[1..].iter().all(is_ended), "{cancelled:?}");
    holder.run("ROLLBACK TRANSACTION").await;
    let cancelled = cancel().await.expect("cancelled").results;
    assert!(is_ended(&cancelled[0]), "{cancelled:?}");
}

#[tokio::test]
async fn releases_of_claims_do_not_wait_for_the_locked_row_of_another() {
    let Some(started) = Box::pin(start()).await else {
        return;
    };
    let (fixture, _program, holder) = Box::pin(beside(started)).await;
    let mut tokens = Vec::new();
    for _ in 0..3 {
        tokens.push(fixture.claim(1).await[0].lease.token);
    }
    let tokens: std::sync::Arc<[_]> = tokens.into();
    holder.run(&statement("hold_first_row")).await;
    let release = || fixture.store.release_claims(fixture.queue, tokens.clone());
    let released = release().await.expect("released");
    assert_eq!((released.counts, released.locked), (vec![0, 1, 1], vec![0]));
    holder.run("ROLLBACK TRANSACTION").await;
    let released = release().await.expect("released");
    assert_eq!((released.counts, released.locked), (vec![1, 0, 0], vec![]));
}

#[tokio::test]
async fn claim_gives_up_at_a_page_that_a_program_holds() {
    let Some((fixture, program, holder)) = held_by("hold_first_page").await else {
        return;
    };
    let settings = Settings {
        command_timeout: Duration::from_secs(4),
        ..program.settings()
    };
    let store = MssqlStore::open(&settings, &fixture.queues).await;
    let broker = Broker::new(std::sync::Arc::new(store.expect("a store")));
    let claimed = broker
        .store
        .claim(broker.queue, [call("worker", 9)].into(), usize::MAX)
        .await;
    let outage = unavailable(claimed);
    assert_eq!(outage.number, Some(1222), "{outage:?}");
    holder.run("ROLLBACK TRANSACTION").await;
    assert_eq!(keys(&fixture.claim(9).await), ["1", "2", "3"]);
}

#[tokio::test]
async fn claim_tells_how_long_it_waited_for_its_turn() {
    /// The shortest wait that the test must see. Claims that wait for nothing take less.
    const SEEN: Duration = Duration::from_millis(200);

    let Some((harness, program)) = Box::pin(start()).await else {
        return;
    };
    program.run(TABLE).await;
    let mut spec = queue("item");
    spec.limits.max_leases = Some(9);
    let fixture = Box::pin(Fixture::<MssqlHarness>::adopt(harness, vec![spec])).await;
    let holder = program.another().await;
    // The claim can begin late, on a busy machine. So the row is held longer until the claim has waited for it.
    let begin =
        "BEGIN TRANSACTION; UPDATE lease_broker_queue SET claims = claims + 1 WHERE queue = 'item'";
    let mut held = SEEN;
    loop {
        holder.run(begin).await;
        let broker = (*fixture).clone();
        let claim = tokio::spawn(async move { broker.results(vec![call("worker", 1)]).await });
        tokio::time::sleep(held).await;
        assert!(!claim.is_finished(), "the row is held");
        holder.run("ROLLBACK TRANSACTION").await;
        let claimed = claim.await.expect("a claim").remove(0);
        let wait = claimed.turn.wait.expect("a wait");
        if wait >= SEEN {
            break;
        }
        held *= 2;
        assert!(held < Duration::from_secs(5), "the claim waited {wait:?}");
    }
    let claimed = fixture.results(vec![call("worker", 1)]).await.remove(0);
    assert!(claimed.turn.wait.expect("a wait") < held, "{claimed:?}");
}

/// Without a row of its own, a claim on SQL Server would lock the row of the next queue.
#[tokio::test]
async fn claim_does_not_wait_for_the_row_of_another_queue() {
    let Some((harness, program)) = Box::pin(start()).await else {
        return;
    };
    program.run(TABLE).await;
    program
        .run("CREATE TABLE later (id int NOT NULL PRIMARY KEY)")
        .await;
    let queues = vec![queue("item"), queue("later")];
    let fixture = Box::pin(Fixture::<MssqlHarness>::adopt(harness, queues)).await;
    let rows = program.rows("SELECT queue FROM lease_broker_queue").await;
    assert_eq!(rows.concat(), ["item", "later"]);
    let holder = program.another().await;
    holder
        .run("BEGIN TRANSACTION; UPDATE lease_broker_queue SET claims = 1 WHERE queue = 'later'")
        .await;
    assert_eq!(keys(&fixture.claim(9).await), ["1", "2", "3"]);
    holder.run("ROLLBACK TRANSACTION").await;
}
