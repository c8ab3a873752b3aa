//! Operations for operators: statistics, lists of items, the signing secret and the health probe.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::lease_id::{self, InvalidLeaseId, LeaseOrigin, LeaseOwner};
use lease_broker_store::{ItemSearch, Renewal, Renewed, Stats};
use lease_broker_value::Value;

use super::search::{find_all, keys, search};
use crate::harness::Harness;
use crate::harness::fixture::{
    Fixture, HOUR, MINUTE, about, by, fail, new_item, queue, release, text,
};
use crate::harness::table::{Kind, Table};

/// Time that the test itself may take. Ages grow by it.
const TEST_TIME: Duration = Duration::from_secs(10);

pub(crate) async fn empty_queue_has_zeros_and_no_ages<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    let stats = fixture.reads.stats(fixture.queue).await;
    assert_eq!(stats, Ok(Stats::default()));
    for state in State::ALL {
        assert_eq!(fixture.list(state).await.len(), 0);
    }
}

pub(crate) async fn stats_count_every_state<H: Harness>() {
    let fixture = Fixture::<H>::items(9).await;
    let items = fixture.claim(7).await;
    fixture.complete(&items[0].lease).await;
    fixture.settle(&items[1].lease, fail(None)).await;
    fixture.settle(&items[2].lease, fail(Some(HOUR))).await;
    fixture.settle(&items[3].lease, release(HOUR)).await;
    let stats = fixture.reads.stats(fixture.queue).await.expect("stats");
    assert_eq!(stats.count, [2, 3, 2, 1, 1]);
    assert_eq!(stats.count_of(State::Leased), 3);
    let other = fixture.another().await;
    assert_eq!(other.counts().await, stats.count);
}

pub(crate) async fn exact_stats_equal_stats_for_few_items<H: Harness>() {
    for filtered in [true, false] {
        let fixture = Fixture::<H>::with(9, |spec| spec.filtered_indexes = filtered).await;
        let items = fixture.claim(7).await;
        fixture.complete(&items[0].lease).await;
        fixture.settle(&items[1].lease, fail(None)).await;
        fixture.settle(&items[2].lease, fail(Some(HOUR))).await;
        fixture.settle(&items[3].lease, release(HOUR)).await;
        let exact = fixture
            .reads
            .exact_stats(fixture.queue)
            .await
            .expect("stats");
        assert_eq!(exact.count, [2, 3, 2, 1, 1]);
        assert_eq!(fixture.counts().await, exact.count);
        assert_eq!(exact.is_lower_bound, [false; 5]);
        let stats = fixture.reads.stats(fixture.queue).await.expect("stats");
        assert_eq!(stats.is_lower_bound, [false; 5]);
    }
}

pub(crate) async fn row_with_a_state_that_is_none_stops_no_other_row<H: Harness>() {
    let fixture = Fixture::<H>::items(3).await;
    let [strange, leased] = <[_; 2]>::try_from(fixture.claim(2).await).expect("two items");
    let id = ("id", strange.lease.key.0[0].clone());
    let set = ("lease_state", Value::Int(77));
    fixture.harness.update("item", set, id).await;
    assert_eq!(fixture.counts().await, [1, 1, 0, 0, 0]);
    let exact = fixture.reads.exact_stats(fixture.queue).await;
    assert_eq!(exact.expect("stats").count, [1, 1, 0, 0, 0]);
    let renewals = [&strange, &leased].map(|item| Renewal::new(item.lease.clone(), HOUR));
    let renewed = fixture.store.heartbeat(fixture.queue, renewals.into());
    let renewed = renewed.await.expect("results");
    assert_eq!(renewed[0], Renewed::UNKNOWN);
    assert!(matches!(renewed[1], Renewed::Extended(_)));
    assert_eq!(fixture.complete(&strange.lease).await, None);
    assert_eq!(
        fixture.complete(&leased.lease).await,
        Some(State::Completed)
    );
}

pub(crate) async fn stats_contain_age_of_oldest_ready_item_and_lease<H: Harness>() {
    for filtered in [true, false] {
        let fixture = Fixture::<H>::with(0, |spec| spec.filtered_indexes = filtered).await;
        for id in 1..=4 {
            fixture.enqueue(new_item(&[("id", Value::Int(id))])).await;
            fixture.advance(MINUTE).await;
        }
        fixture.claim(1).await;
        fixture.advance(MINUTE).await;
        let delayed = fixture.one().await;
        fixture.settle(&delayed.lease, fail(Some(HOUR))).await;
        let stats = fixture.reads.stats(fixture.queue).await.expect("stats");
        let (ready, lease) = (stats.oldest_ready, stats.oldest_lease);
        assert!(about(ready.expect("ready"), 3 * MINUTE + TEST_TIME));
        assert!(about(lease.expect("leased"), MINUTE + TEST_TIME));
    }
}

pub(crate) async fn starving_item_is_the_oldest_ready_one<H: Harness>() {
    let table = Table::new("item")
        .required("id", Kind::BigInt)
        .column("rank", Kind::Int)
        .key(&["id"]);
    let mut spec = queue("item");
    spec.order = by(&["-rank"]);
    let fixture = Fixture::<H>::over(&[table], vec![spec]).await;
    let item = |id, rank| new_item(&[("id", Value::Int(id)), ("rank", Value::Int(rank))]);
    fixture.enqueue(item(0, 1)).await;
    fixture.advance(HOUR).await;
    for (ids, is_sampled) in [(1..=1_100, false), (1_101..=2_200, true)] {
        let urgent = ids.map(|id| item(id, 9)).collect();
        fixture.try_enqueue(urgent).await.expect("enqueue");
        let stats = fixture.reads.stats(fixture.queue).await.expect("stats");
        let age = stats.oldest_ready.expect("an age");
        assert!(about(age, HOUR + TEST_TIME), "{age:?}");
        assert_eq!(stats.oldest_ready_is_sampled, is_sampled);
        assert!(!stats.oldest_lease_is_sampled);
    }
}

pub(crate) async fn list_starts_with_the_oldest_and_keeps_its_limit<H: Harness>() {
    let fixture = Fixture::<H>::items(4).await;
    let items = fixture.claim(4).await;
    for at in [2, 0, 3, 1] {
        fixture.settle(&items[at].lease, fail(None)).await;
        fixture.advance(MINUTE).await;
    }
    let listed = fixture.list(State::Dead).await;
    let keys: Vec<_> = listed.iter().map(|item| item.key.to_string()).collect();
    assert_eq!(keys, ["3", "1", "4", "2"]);
    assert!(listed[0].age.expect("an age") >= 4 * MINUTE);
    assert!(listed[0].age > listed[3].age);
    let two = fixture
        .reads
        .list(fixture.queue, State::Dead, 2)
        .await
        .expect("list");
    let keys: Vec<_> = two.iter().map(|item| item.key.to_string()).collect();
    assert_eq!(keys, ["3", "1"]);
    let none = fixture
        .reads
        .list(fixture.queue, State::Dead, 0)
        .await
        .expect("list");
    assert_eq!(none.len(), 0);
}

pub(crate) async fn listed_lease_shows_holder_and_time_left<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    fixture.claim_for(1, HOUR).await;
    fixture.advance(10 * MINUTE).await;
    let listed = fixture.list(State::Leased).await.remove(0);
    assert_eq!(listed.owner.as_deref(), Some("worker"));
    assert!(about(listed.due_in.expect("a due time"), 50 * MINUTE));
    assert!(listed.age.expect("an age") >= 10 * MINUTE);
    assert_eq!(listed.error, None);
}

pub(crate) async fn unreaped_expired_lease_is_due_in_zero<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    fixture.claim_for(1, MINUTE).await;
    fixture.advance(HOUR).await;
    let listed = fixture.list(State::Leased).await.remove(0);
    assert_eq!(listed.due_in, Some(Duration::ZERO));
}

pub(crate) async fn pages_list_every_item_in_the_order_of_the_key<H: Harness>() {
    let table = Table::new("item")
        .required("area", Kind::Text)
        .required("number", Kind::Int)
        .key(&["area", "number"]);
    for filtered in [true, false] {
        let mut spec = queue("item");
        (spec.order, spec.filtered_indexes) = (by(&["-number"]), filtered);
        let fixture = Fixture::<H>::over(std::slice::from_ref(&table), vec![spec]).await;
        for (area, number) in [("b", 1), ("a", 3), ("b", 0), ("a", 1), ("c", 9)] {
            let row = [("area", text(area)), ("number", Value::Int(number))];
            fixture.harness.insert("item", &row).await;
        }
        // The first in the order of the queue.
        assert_eq!(fixture.one().await.lease.key.to_string(), "[\"c\",9]");
        for limit in 1..=5 {
            let pages = ItemSearch {
                limit,
                ..search(State::Ready)
            };
            let found = find_all(&fixture, pages).await;
            let expected = ["[\"a\",1]", "[\"a\",3]", "[\"b\",0]", "[\"b\",1]"];
            assert_eq!(keys(&found), expected, "{limit} per page");
        }
        let found = find_all(&fixture, search(State::Leased)).await;
        assert_eq!(found.len(), 1);
        let leased = &found[0].listed;
        assert_eq!(leased.owner.as_deref(), Some("worker"));
        assert!(leased.due_time.is_some() && leased.state_time.is_some());
    }
}

pub(crate) async fn brokers_of_one_database_share_the_secret<H: Harness>() {
    let fixture = Fixture::<H>::items(1).await;
    let lease = fixture.one().await.lease;
    let origin = LeaseOrigin::new(0, HOUR, None);
    let owner = LeaseOwner::default();
    let id = lease_id::encode(
        fixture.store.signing_secrets(),
        "item",
        &owner,
        &lease,
        &origin,
    );
    let id = id.expect("an id");
    let other = fixture.another().await;
    let read = lease_id::decode(other.store.signing_secrets(), "item", &owner, &id)
        .expect("the same secret");
    assert_eq!(read.lease, lease);
    let stranger = Fixture::<H>::items(0).await;
    let secret = stranger.store.signing_secrets();
    let read = lease_id::decode(secret, "item", &owner, &id);
    assert_eq!(read, Err(InvalidLeaseId::Unknown));
}

pub(crate) async fn probe_of_a_working_store_succeeds<H: Harness>() {
    let fixture = Fixture::<H>::items(0).await;
    for _ in 0..3 {
        assert_eq!(fixture.store.probe().await, Ok(()));
    }
    assert_eq!(fixture.another().await.store.probe().await, Ok(()));
}
