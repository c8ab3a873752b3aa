//! Tables declared WITHOUT ROWID.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::OnComplete;
use lease_broker_value::Value;
use uuid::Uuid;

use crate::harness::fixture::{
    Fixture, HOUR, MINUTE, call, fail, keys, new_item, queue, release, text,
};
use crate::harness::sqlite::SqliteHarness;

const TABLE: &str = "CREATE TABLE item (
        shop TEXT, number INT, digest BLOB, payload TEXT, PRIMARY KEY (shop, number, digest)
    ) WITHOUT ROWID;
    INSERT INTO item VALUES ('a', 2, x'00', 'x'), ('a', 1, x'', 'y'), ('b', 1, x'ff', 'z'), ('', 9, x'00', 'w')";

async fn fixture(on_complete: OnComplete) -> Fixture<SqliteHarness> {
    let harness = SqliteHarness::with(TABLE).await;
    let mut spec = queue("item");
    spec.on_complete = on_complete;
    Fixture::adopt(harness, vec![spec]).await
}

#[tokio::test]
async fn table_without_rowid_works_as_a_queue() {
    for on_complete in [
        OnComplete::Keep,
        OnComplete::Delete,
        OnComplete::Archive("done".to_owned()),
        OnComplete::Recur(HOUR),
    ] {
        let fixture = fixture(on_complete.clone()).await;
        let token = Uuid::new_v4();
        let items = fixture.request(token, 3).await;
        let expected = ["[\"\",9,\"00\"]", "[\"a\",1,\"\"]", "[\"a\",2,\"00\"]"];
        assert_eq!(keys(&items), expected);
        assert_eq!(keys(&fixture.request(token, 3).await), expected);
        assert!(fixture.complete(&items[0].lease).await.is_some());
        assert_eq!(
            fixture.settle(&items[1].lease, fail(None)).await,
            Some(State::Dead)
        );
        let released = fixture.settle(&items[2].lease, release(MINUTE)).await;
        assert_eq!(released, Some(State::Delayed));
        let last = fixture.claim_for(9, MINUTE).await;
        assert_eq!(keys(&last), ["[\"b\",1,\"ff\"]"]);
        fixture.advance(10 * MINUTE).await;
        assert_eq!(fixture.heartbeat(&last[0].lease, HOUR).await, None);
        let reaped = fixture.reap(9).await;
        assert_eq!((reaped.expired.len(), reaped.promoted), (1, 1));
        assert_eq!(fixture.redrive(9).await, 1);
        // The item whose lease expired is leased alone.
        assert_eq!(fixture.claim(9).await.len(), 1, "{on_complete:?}");
        let others = fixture.claim_by(call("other", 9)).await;
        assert_eq!(others.len(), 2, "{on_complete:?}");
    }
}

#[tokio::test]
async fn item_of_a_table_without_rowid_needs_its_whole_key() {
    let fixture = fixture(OnComplete::Keep).await;
    let short = new_item(&[("shop", text("c")), ("number", Value::Int(1))]);
    let error = fixture
        .try_enqueue(vec![short.clone()])
        .await
        .expect_err("refused");
    assert!(error.to_string().contains("digest"), "{error}");
    let mut whole = short;
    whole
        .columns
        .push(("digest".to_owned(), Value::Bytes(vec![1])));
    assert_eq!(fixture.enqueue(whole).await.to_string(), "[\"c\",1,\"01\"]");
}
