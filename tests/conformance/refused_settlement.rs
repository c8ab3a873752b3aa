//! Settlements that the database refuses: only they fail, and the others of the list are applied.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::OnComplete;
use lease_broker_store::{ClaimedItem, Ending, FollowUp, QueueIndex, Refusal, Settled};
use lease_broker_value::Value;

use crate::harness::Harness;
use crate::harness::fixture::{
    Fixture, complete, complete_with, fail, item_table, keys, new_item, queue, text,
};

const COMPLETED: Settled = Settled::Ended(State::Completed);

fn refusal(result: &Settled) -> &Refusal {
    match result {
        Settled::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

/// Creates a queue with items 1 to `rows` and the archive `done`, which already has rows with the keys in `archived`.
async fn archiving<H: Harness>(rows: i64, archived: &[i64]) -> Fixture<H> {
    let mut spec = queue("item");
    spec.on_complete = OnComplete::Archive("done".to_owned());
    let tables = [item_table("item"), item_table("done")];
    let fixture = Fixture::<H>::over(&tables, vec![spec]).await;
    fixture.insert(1..=rows).await;
    for id in archived {
        let row = [("id", Value::Int(*id)), ("payload", text("secret"))];
        fixture.harness.insert("done", &row).await;
    }
    fixture
}

async fn complete_all<H: Harness>(fixture: &Fixture<H>, items: &[ClaimedItem]) -> Vec<Settled> {
    let completions = items.iter().map(|item| (&item.lease, complete()));
    let results = fixture.try_settle(completions.collect()).await;
    results.expect("settle")
}

pub(crate) async fn archive_key_refuses_its_own_completion<H: Harness>() {
    let fixture = archiving::<H>(9, &[2, 3, 9]).await;
    let items = fixture.claim(9).await;
    let results = complete_all(&fixture, &items).await;
    for (result, item) in results.iter().zip(&items) {
        if ["2", "3", "9"].contains(&&*item.lease.key.to_string()) {
            let refusal = refusal(result);
            assert_eq!(refusal.field, None, "{refusal}");
            assert!(refusal.problem.text.contains("done"), "{refusal}");
        } else {
            assert_eq!(*result, COMPLETED);
        }
    }
    assert_eq!(fixture.counts().await, [0, 3, 0, 0, 0]);
    assert_eq!(fixture.harness.rows("done", &["id"]).await.len(), 9);
    // The leases are still held.
    let failed = fixture.settle(&items[1].lease, fail(None)).await;
    assert_eq!(failed, Some(State::Dead));
}

pub(crate) async fn refused_follow_ups_leave_the_others_of_a_list<H: Harness>() {
    let tables = [item_table("item"), item_table("next")];
    let fixture = Fixture::<H>::over(&tables, vec![queue("item"), queue("next")]).await;
    fixture.insert(1..=60).await;
    let next = |id| FollowUp {
        queue: QueueIndex(1),
        item: new_item(&[("id", Value::Int(id)), ("payload", text("next"))]),
    };
    fixture.at(1).enqueue(next(1_000).item).await;
    let items = fixture.claim(60).await;
    // Every twentieth completion adds a follow-up whose key is taken.
    let ending = |number: usize| {
        let id = 2_000 + 10 * i64::try_from(number).expect("small");
        let third = if number % 20 == 7 { 1_000 } else { id + 2 };
        complete_with(vec![next(id), next(id + 1), next(third)])
    };
    let settlements: Vec<_> = items
        .iter()
        .enumerate()
        .map(|(number, item)| (&item.lease, ending(number)))
        .collect();
    let results = fixture.try_settle(settlements).await.expect("settle");
    for (number, result) in results.iter().enumerate() {
        if number % 20 == 7 {
            let field = Some("follow_ups[2].item.columns[\"id\"]");
            assert_eq!(refusal(result).field.as_deref(), field);
        } else {
            assert_eq!(*result, COMPLETED);
        }
    }
    assert_eq!(fixture.counts().await, [0, 3, 0, 57, 0]);
    assert_eq!(fixture.at(1).counts().await, [57 * 3 + 1, 0, 0, 0, 0]);
}

pub(crate) async fn every_settlement_of_a_list_can_be_refused<H: Harness>() {
    let fixture = archiving::<H>(5, &[1, 2, 3, 4, 5]).await;
    let items = fixture.claim(5).await;
    for result in complete_all(&fixture, &items).await {
        refusal(&result);
    }
    assert_eq!(fixture.counts().await, [0, 5, 0, 0, 0]);
}

pub(crate) async fn refused_completion_can_be_failed_in_the_same_list<H: Harness>() {
    let fixture = archiving::<H>(2, &[1]).await;
    let items = fixture.claim(2).await;
    let settlements: Vec<(_, Ending)> = vec![
        (&items[0].lease, complete()),
        (&items[1].lease, complete()),
        (&items[0].lease, fail(None)),
    ];
    let results = fixture.try_settle(settlements).await.expect("settle");
    refusal(&results[0]);
    assert_eq!(results[1..], [COMPLETED, Settled::Ended(State::Dead)]);
    assert_eq!(keys(&fixture.claim(9).await), [""; 0]);
}

pub(crate) async fn problem_has_no_value_of_a_column<H: Harness>() {
    let table = item_table("next").unique(&["payload"]);
    let queues = vec![queue("item"), queue("next")];
    let fixture = Fixture::<H>::over(&[item_table("item"), table], queues).await;
    fixture.insert([1]).await;
    let secret = [("id", Value::Int(77_001)), ("payload", text("s3cret"))];
    fixture.at(1).enqueue(new_item(&secret)).await;
    let lease = fixture.one().await.lease;
    let same_key = [secret[0].clone(), ("payload", text("x"))];
    let same_payload = [("id", Value::Int(1)), secret[1].clone()];
    for columns in [same_key, same_payload] {
        let follow_up = FollowUp {
            queue: QueueIndex(1),
            item: new_item(&columns),
        };
        let ending = complete_with(vec![follow_up]);
        let result = fixture.outcome(&lease, ending).await;
        let text = refusal(&result).to_string();
        assert!(text.starts_with("follow_ups[0].item"), "{text}");
        assert!(!text.contains("77001"), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
}
