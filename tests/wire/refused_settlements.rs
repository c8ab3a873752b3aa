//! The number of batches with which the broker finds the settlements that the server refuses.

use lease_broker_store::Settled;

use crate::wire::answers::OPERATION;
use crate::wire::fixture::Fixture;
use crate::wire::responder::script::Reply;
use crate::wire::responder::tokens::Tokens;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn search_takes_less_than_two_batches_per_settlement() {
    let fixture = Fixture::start().await;
    let message = "Violation of PRIMARY KEY constraint 'pk'. The duplicate key value is (7).";
    let refused = Reply::Answer(Tokens::new().error(2627, message));
    fixture.server.always(OPERATION, refused);
    let results = fixture.complete(100).await.expect("settled");
    for result in results {
        let Settled::Refused(refusal) = result else {
            panic!("{result:?}");
        };
        assert_eq!(
            refusal.to_string(),
            "Violation of PRIMARY KEY constraint 'pk'."
        );
    }
    assert_eq!(fixture.server.requests(OPERATION).len(), 199);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outage_during_the_search_fails_the_call() {
    let fixture = Fixture::start().await;
    let refused = Reply::Answer(Tokens::new().error(547, "conflict"));
    let full = Reply::Answer(Tokens::new().error(9002, "The transaction log is full."));
    fixture.server.on(OPERATION, vec![refused, full]);
    fixture.complete(4).await.expect_err("the log is full");
    assert_eq!(fixture.server.requests(OPERATION).len(), 2);
}
