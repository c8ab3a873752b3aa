//! On a warm connection an operation is one round trip.

use crate::answers::{OPERATION, claimed, enqueued, held, reaped, redriven, settled};
use crate::bench::Bench;
use crate::responder::script::Reply;
use crate::responder::tokens::Tokens;

/// A bench whose connection has been used, and that answers the next operation so.
async fn warm(answer: Tokens) -> (Bench, usize) {
    let bench = Bench::start().await;
    let replies = vec![Reply::Answer(held(1)), Reply::Answer(answer)];
    bench.server.on(OPERATION, replies);
    bench.heartbeat(1).await.expect("extended");
    let before = bench.statements();
    (bench, before)
}

macro_rules! one_round_trip {
    ($($name:ident: $answer:expr, $operation:expr, $result:expr;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let (bench, before) = warm($answer).await;
                let operation: fn(&Bench) -> std::pin::Pin<Box<dyn Future<Output = usize> + '_>> =
                    |bench| Box::pin($operation(bench));
                assert_eq!(operation(&bench).await, $result);
                assert_eq!(bench.statements() - before, 1);
            }
        )*
    };
}

one_round_trip! {
    a_claim_is_one_round_trip:
        claimed(1..=3), async |bench: &Bench| bench.claim().await.expect("claimed").len(), 3;
    a_heartbeat_of_a_thousand_leases_is_one_round_trip:
        held(1_000), async |bench: &Bench| bench.heartbeat(1_000).await.expect("extended").iter().flatten().count(), 1_000;
    a_hundred_completions_with_two_hundred_follow_ups_are_one_round_trip:
        settled(100, 3), async |bench: &Bench| {
            let states = bench.complete_and_add(100).await.expect("settled");
            states.iter().flatten().count()
        }, 100;
    a_reapers_run_is_one_round_trip:
        reaped(1..=5), async |bench: &Bench| bench.reap().await.expect("reaped").expired.len(), 5;
    an_enqueue_of_a_hundred_items_is_one_round_trip:
        enqueued(1..=100), async |bench: &Bench| bench.enqueue(100).await.expect("added").len(), 100;
    a_redrive_is_one_round_trip:
        redriven(4), async |bench: &Bench| bench.redrive().await.expect("redriven"), 4;
}
