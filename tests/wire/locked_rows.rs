//! Settlements and heartbeats beside a row that another program has locked: the server ends the wait for the row with error 1222.

use lease_broker_model::item_state::State;
use lease_broker_store::{Leases as _, Renewed, Settled};

use crate::support::timeout::with_timeout;
use crate::wire::answers::{OPERATION, held, settled};
use crate::wire::fixture::{Fixture, QUEUE, renewals};
use crate::wire::responder::script::Reply;
use crate::wire::responder::tokens::Tokens;

fn locked() -> Reply {
    let message = "Lock request time out period exceeded.";
    Reply::Answer(Tokens::new().error(1222, message))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settlement_of_a_locked_row_is_the_only_one_not_applied() {
    let fixture = Fixture::start().await;
    let replies = vec![locked(), Reply::Answer(settled(1, 3)), locked()];
    fixture.server.on(OPERATION, replies);
    let results = fixture.complete(2).await.expect("the first is applied");
    let Settled::Refused(refusal) = &results[1] else {
        panic!("{results:?}");
    };
    assert!(refusal.problem.text.contains("locked"), "{refusal}");
    assert_eq!(results[0], Settled::Ended(State::Completed));
    assert_eq!(fixture.server.requests(OPERATION).len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settlement_alone_is_refused_for_now() {
    let fixture = Fixture::start().await;
    fixture.server.always(OPERATION, locked());
    let results = fixture.complete(1).await.expect("a refusal");
    let Settled::Refused(refusal) = &results[0] else {
        panic!("{results:?}");
    };
    assert!(refusal.problem.text.contains("locked"), "{refusal}");
    assert_eq!(fixture.server.requests(OPERATION).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn error_beside_a_locked_row_fails_the_call() {
    let fixture = Fixture::start().await;
    let full = Reply::Answer(Tokens::new().error(9002, "The transaction log is full."));
    fixture.server.on(OPERATION, vec![locked(), full]);
    fixture.complete(4).await.expect_err("the log is full");
    assert_eq!(fixture.server.requests(OPERATION).len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeat_divides_its_list_into_eight_parts() {
    let fixture = Fixture::start().await;
    let extended = || Reply::Answer(held(1));
    let replies = std::iter::once(locked()).chain((0..8).map(|_| extended()));
    fixture.server.on(OPERATION, replies.collect());
    let renewed = with_timeout(fixture.store.heartbeat(QUEUE, renewals(80))).await;
    assert_eq!(renewed.expect("sent").len(), 80);
    assert_eq!(fixture.server.requests(OPERATION).len(), 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_rows_at_the_front_keep_no_other_lease_from_its_heartbeat() {
    let fixture = Fixture::start().await;
    let parts = (0..8).map(|part| match part {
        0 | 1 => locked(),
        _ => Reply::Answer(held(1)),
    });
    let replies =
        std::iter::once(locked())
            .chain(parts)
            .chain([locked(), locked(), locked(), locked()]);
    fixture.server.on(OPERATION, replies.collect());
    let renewed = with_timeout(fixture.store.heartbeat(QUEUE, renewals(16))).await;
    let renewed = renewed.expect("the others are extended");
    let is_refused = |renewed: &Renewed| matches!(renewed, Renewed::Refused(_));
    assert!(renewed[..4].iter().all(is_refused), "{renewed:?}");
    assert_eq!(renewed.iter().filter(|one| is_refused(one)).count(), 4);
}
