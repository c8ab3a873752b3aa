//! On a connection that was used before, each operation is one round trip.

use lease_broker_store::Settled;

use crate::wire::answers::{OPERATION, changed, claimed, enqueued, held, reaped, settled};
use crate::wire::fixture::Fixture;
use crate::wire::responder::script::Reply;
use crate::wire::responder::tokens::Tokens;

/// Returns a fixture whose connection has run one operation, and the number of statements so far. The next operation gets
/// this answer.
async fn fixture_with_warm_connection(answer: Tokens) -> (Fixture, usize) {
    let fixture = Fixture::start().await;
    let replies = vec![Reply::Answer(held(1)), Reply::Answer(answer)];
    fixture.server.on(OPERATION, replies);
    fixture.heartbeat(1).await.expect("extended");
    let before = fixture.statements();
    (fixture, before)
}

macro_rules! one_round_trip {
    ($($name:ident: $answer:expr, $operation:expr, $result:expr;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let (fixture, before) = fixture_with_warm_connection($answer).await;
                let operation: fn(&Fixture) -> std::pin::Pin<Box<dyn Future<Output = usize> + '_>> =
                    |fixture| Box::pin($operation(fixture));
                assert_eq!(operation(&fixture).await, $result);
                assert_eq!(fixture.statements() - before, 1);
            }
        )*
    };
}

one_round_trip! {
    a_claim_is_one_round_trip:
        claimed(1..=3), async |fixture: &Fixture| fixture.claim().await.expect("claimed").len(), 3;
    a_heartbeat_of_a_thousand_leases_is_one_round_trip:
        held(1_000), async |fixture: &Fixture| fixture.heartbeat(1_000).await.expect("extended").iter().flatten().count(), 1_000;
    completions_with_follow_ups_are_one_round_trip:
        settled(100, 3), async |fixture: &Fixture| {
            let results = fixture.complete_and_add(100).await.expect("settled");
            results.iter().filter(|result| **result != Settled::Lost).count()
        }, 100;
    a_reapers_run_is_one_round_trip:
        reaped(1..=5), async |fixture: &Fixture| fixture.reap().await.expect("reaped").expired.len(), 5;
    an_enqueue_of_a_hundred_items_is_one_round_trip:
        enqueued(1..=100), async |fixture: &Fixture| fixture.enqueue(100).await.expect("added").len(), 100;
    a_batch_of_an_operation_is_one_round_trip:
        changed(4), async |fixture: &Fixture| fixture.redrive().await.expect("redriven").expect("applied"), 4;
}
