//! Runs: consecutive items of a group that one claim leases together.

use std::time::Duration;

use lease_broker_model::group::{GroupOrder, Groups};
use lease_broker_model::item_state::State;
use lease_broker_model::queue::{OnComplete, QueueSpec};
use lease_broker_model::rate::Rate;
use lease_broker_store::{
    Cancellation, Cancelled, CancelledLease, ClaimCall, ClaimedItem, EndedLease, Ending, Refusal,
    SettleResults, Settled, Settlement,
};
use lease_broker_value::Value;
use uuid::Uuid;

use super::groups::{grouped, groups, insert, items};
use crate::harness::Harness;
use crate::harness::fixture::{
    Broker, Fixture, HOUR, MINUTE, SECOND, by, call, complete, fail, keys, release, text,
};
use crate::harness::table::{Kind, Table};

const RUNS: GroupOrder = GroupOrder::Strict {
    halts: false,
    run: 4,
};

/// Returns a call for runs of up to `max_run` items.
fn runs(max_run: usize, max_items: usize) -> ClaimCall {
    ClaimCall {
        max_run,
        ..call("worker", max_items)
    }
}

async fn claim(broker: &Broker, max_items: usize) -> Vec<ClaimedItem> {
    broker.claim_by(runs(9, max_items)).await
}

/// Returns the keys of items, with a line between two runs.
fn in_runs(items: &[ClaimedItem]) -> String {
    let mut texts = Vec::new();
    for run in items.chunk_by(|left, right| left.run == right.run && left.run > 0) {
        texts.push(keys(run).join(" "));
    }
    texts.join(" | ")
}

async fn settle(broker: &Broker, settlements: Vec<(&ClaimedItem, Ending)>) -> SettleResults {
    let settlements = settlements.into_iter();
    let settlements = settlements.map(|(item, ending)| Settlement::new(item.lease.clone(), ending));
    let settled = broker.store.settle(broker.queue, settlements.collect());
    settled.await.expect("settle")
}

fn refused() -> Settled {
    Settled::Refused(Refusal::out_of_order())
}

fn keys_of(ended: &[EndedLease]) -> Vec<String> {
    ended
        .iter()
        .map(|ended| ended.lease.key.to_string())
        .collect()
}

/// Returns the keys of the ready items, with their used attempts.
async fn ready<H: Harness>(fixture: &Fixture<H>) -> Vec<(String, u32)> {
    let items = fixture.list(State::Ready).await;
    let mut items: Vec<_> = items
        .into_iter()
        .map(|item| (item.key.to_string(), item.attempt))
        .collect();
    items.sort();
    items
}

fn attempts(expected: &[(&str, u32)]) -> Vec<(String, u32)> {
    let items = expected.iter();
    items
        .map(|(key, attempt)| ((*key).to_owned(), *attempt))
        .collect()
}

pub(crate) async fn claim_gets_runs_of_consecutive_items<H: Harness>() {
    let names = ["a", "a", "b", "a", "", "a", "a", "b", ""];
    let fixture = items::<H>(grouped(RUNS), &names).await;
    let claimed = claim(&fixture, 99).await;
    assert_eq!(in_runs(&claimed), "1 2 4 6 | 3 8 | 5 | 9");
    let mut numbers: Vec<u32> = claimed.iter().map(|item| item.run).collect();
    numbers.dedup();
    assert_eq!(numbers, [1, 2, 0]);
    let attempts = claimed.iter().map(|item| item.lease.attempt);
    assert_eq!(attempts.collect::<Vec<_>>(), [1; 8]);
    assert!(claim(&fixture, 99).await.is_empty(), "the group is busy");
}

pub(crate) async fn claim_that_asks_for_no_runs_gets_single_items<H: Harness>() {
    let names = ["a", "a", "b", "b"];
    let fixture = items::<H>(grouped(RUNS), &names).await;
    let claimed = fixture.claim(99).await;
    assert_eq!(keys(&claimed), ["1", "3"]);
    assert_eq!([claimed[0].run, claimed[1].run], [0, 0]);
}

pub(crate) async fn run_has_at_most_the_items_that_the_call_wants<H: Harness>() {
    let names = ["a", "a", "a", "b", "b", "b", "c"];
    let fixture = items::<H>(grouped(RUNS), &names).await;
    let two = fixture.claim_by(runs(2, 3)).await;
    assert_eq!(in_runs(&two), "1 2 | 4");
    // The turn is behind group b.
    assert_eq!(in_runs(&claim(&fixture, 9).await), "7");
}

pub(crate) async fn calls_of_one_operation_share_no_run<H: Harness>() {
    let names = ["a", "a", "a", "b", "b", "c"];
    let fixture = items::<H>(grouped(RUNS), &names).await;
    let calls = vec![runs(9, 2), runs(9, 2), call("other", 9)];
    let mut claimed: Vec<_> = fixture
        .calls(calls)
        .await
        .iter()
        .map(|one| in_runs(one))
        .collect();
    claimed.sort();
    assert_eq!(claimed, ["1 2", "4 5", "6"]);
}

pub(crate) async fn items_of_a_run_are_completed_in_their_order<H: Harness>() {
    let fixture = items::<H>(grouped(RUNS), &["a"; 5]).await;
    let run = claim(&fixture, 9).await;
    assert_eq!(in_runs(&run), "1 2 3 4");
    for ending in [complete(), fail(None)] {
        assert_eq!(fixture.outcome(&run[1].lease, ending).await, refused());
    }
    assert_eq!(fixture.counts().await, [1, 4, 0, 0, 0]);
    for item in &run {
        let completed = fixture.complete(&item.lease).await;
        assert_eq!(completed, Some(State::Completed));
    }
    assert_eq!(in_runs(&claim(&fixture, 9).await), "5");
}

pub(crate) async fn one_call_completes_a_run_in_its_order<H: Harness>() {
    let fixture = items::<H>(grouped(RUNS), &["a"; 4]).await;
    let run = claim(&fixture, 9).await;
    let order = [0, 2, 1, 3].map(|index| (&run[index], complete()));
    let settled = settle(&fixture, order.into()).await;
    let ended = Settled::Ended(State::Completed);
    assert_eq!(
        settled.results,
        [ended.clone(), refused(), ended.clone(), refused()]
    );
    let rest = [2, 3].map(|index| (&run[index], complete()));
    let settled = settle(&fixture, rest.into()).await;
    assert_eq!(settled.results, [ended.clone(), ended]);
}

pub(crate) async fn several_runs_are_settled_together<H: Harness>() {
    let names = ["a", "b", "a", "b", "", "c"];
    let fixture = items::<H>(grouped(RUNS), &names).await;
    let claimed = claim(&fixture, 9).await;
    assert_eq!(in_runs(&claimed), "1 3 | 2 4 | 6 | 5");
    let settlements = vec![
        (&claimed[1], complete()),
        (&claimed[2], fail(Some(Duration::ZERO))),
        (&claimed[0], complete()),
        (&claimed[3], complete()),
        (&claimed[4], complete()),
        (&claimed[5], complete()),
    ];
    let settled = settle(&fixture, settlements).await;
    let ended = Settled::Ended(State::Completed);
    assert_eq!(settled.results[0], refused());
    assert!(matches!(settled.results[1], Settled::Ended(_)));
    assert_eq!(settled.results[2], ended);
    assert_eq!(settled.results[3], Settled::Lost);
    assert_eq!(settled.results[4..], [ended.clone(), ended]);
    assert_eq!(keys_of(&settled.released), ["4"]);
}

pub(crate) async fn failure_releases_the_rest_of_its_run<H: Harness>() {
    let fixture = items::<H>(grouped(RUNS), &["a"; 5]).await;
    let run = claim(&fixture, 9).await;
    fixture.complete(&run[0].lease).await;
    let settled = settle(&fixture, vec![(&run[1], fail(Some(HOUR)))]).await;
    assert_eq!(settled.results, [Settled::Ended(State::Delayed)]);
    assert_eq!(keys_of(&settled.released), ["3", "4"]);
    assert_eq!(settled.released[0].owner.as_deref(), Some("worker"));
    assert_eq!(
        ready(&fixture).await,
        attempts(&[("3", 0), ("4", 0), ("5", 0)])
    );
    for (item, ending) in [(&run[2], complete()), (&run[3], fail(None))] {
        assert_eq!(fixture.outcome(&item.lease, ending).await, Settled::Lost);
    }
    assert_eq!(fixture.heartbeat(&run[2].lease, HOUR).await, None);
    assert!(claim(&fixture, 9).await.is_empty(), "item 2 is delayed");
}

pub(crate) async fn worker_can_fail_an_item_and_release_the_rest<H: Harness>() {
    let fixture = items::<H>(grouped(RUNS), &["a"; 3]).await;
    let run = claim(&fixture, 9).await;
    let settlements = vec![
        (&run[0], fail(None)),
        (&run[1], release(Duration::ZERO)),
        (&run[2], release(Duration::ZERO)),
    ];
    let settled = settle(&fixture, settlements).await;
    assert_eq!(
        settled.results,
        [
            Settled::Ended(State::Dead),
            Settled::Repeated(State::Ready),
            Settled::Repeated(State::Ready)
        ]
    );
    assert_eq!(keys_of(&settled.released), ["2", "3"]);
    assert_eq!(in_runs(&claim(&fixture, 9).await), "2 3");
}

pub(crate) async fn released_item_comes_again_with_the_rest_of_its_run<H: Harness>() {
    let fixture = items::<H>(grouped(RUNS), &["a"; 3]).await;
    let run = claim(&fixture, 9).await;
    let settled = settle(&fixture, vec![(&run[0], release(Duration::ZERO))]).await;
    assert_eq!(keys_of(&settled.released), ["2", "3"]);
    let again = claim(&fixture, 9).await;
    assert_eq!(in_runs(&again), "1 2 3");
    assert_eq!(again[2].lease.attempt, 1);
    assert_eq!(again[2].lease.fence, run[2].lease.fence + 1);
}

pub(crate) async fn worker_can_release_the_end_of_a_run<H: Harness>() {
    let fixture = items::<H>(grouped(RUNS), &["a"; 4]).await;
    let run = claim(&fixture, 9).await;
    let settlements = vec![
        (&run[2], release(Duration::ZERO)),
        (&run[3], complete()),
        (&run[0], complete()),
    ];
    let settled = settle(&fixture, settlements).await;
    assert_eq!(
        settled.results,
        [
            Settled::Ended(State::Ready),
            Settled::Lost,
            Settled::Ended(State::Completed)
        ]
    );
    assert_eq!(keys_of(&settled.released), ["4"]);
    assert!(claim(&fixture, 9).await.is_empty(), "item 2 is leased");
    fixture.complete(&run[1].lease).await;
    assert_eq!(in_runs(&claim(&fixture, 9).await), "3 4");
}

pub(crate) async fn releases_of_a_run_count_in_any_order<H: Harness>() {
    let fixture = items::<H>(grouped(RUNS), &["a"; 4]).await;
    let run = claim(&fixture, 9).await;
    let settlements = vec![
        (&run[2], release(Duration::ZERO)),
        (&run[1], release(Duration::ZERO)),
        (&run[3], release(Duration::ZERO)),
        (&run[0], release(Duration::ZERO)),
    ];
    let settled = settle(&fixture, settlements).await;
    let ended = Settled::Ended(State::Ready);
    let repeated = Settled::Repeated(State::Ready);
    assert_eq!(
        settled.results,
        [ended.clone(), ended.clone(), repeated, ended]
    );
    assert_eq!(keys_of(&settled.released), ["4"]);
    let again = claim(&fixture, 9).await;
    assert_eq!(in_runs(&again), "1 2 3 4");
    let attempts = again.iter().map(|item| item.lease.attempt);
    assert_eq!(attempts.collect::<Vec<_>>(), [1; 4]);
}

pub(crate) async fn expired_run_counts_one_attempt<H: Harness>() {
    let fixture = items::<H>(grouped(RUNS), &["a", "a", "a", "b", "b"]).await;
    let mut crashed = runs(9, 9);
    crashed.duration = SECOND;
    assert_eq!(fixture.claim_by(crashed).await.len(), 5);
    fixture.advance(MINUTE).await;
    let mut reaped = fixture.reap(99).await;
    reaped
        .expired
        .sort_by_key(|ended| ended.lease.key.to_string());
    reaped
        .released
        .sort_by_key(|ended| ended.lease.key.to_string());
    assert_eq!(keys_of(&reaped.expired), ["1", "4"]);
    assert_eq!(keys_of(&reaped.released), ["2", "3", "5"]);
    assert_eq!(
        ready(&fixture).await,
        attempts(&[("1", 1), ("2", 0), ("3", 0), ("4", 1), ("5", 0)])
    );
    // The first items are suspects: each is leased alone.
    let alone = fixture.claim_by(runs(9, 9)).await;
    assert_eq!((&*in_runs(&alone), alone[0].run), ("1", 0));
}

pub(crate) async fn run_that_expires_in_parts_ends_as_one<H: Harness>() {
    let fixture = items::<H>(grouped(RUNS), &["a"; 4]).await;
    let mut short = runs(9, 9);
    short.duration = MINUTE;
    let run = fixture.claim_by(short).await;
    for item in [&run[0], &run[3]] {
        assert!(fixture.heartbeat(&item.lease, HOUR).await.is_some());
    }
    fixture.advance(2 * MINUTE).await;
    let reaped = fixture.reap(99).await;
    assert_eq!(keys_of(&reaped.expired), [""; 0], "the first item is held");
    assert_eq!(keys_of(&reaped.released), ["2", "3", "4"]);
    assert_eq!(
        ready(&fixture).await,
        attempts(&[("2", 0), ("3", 0), ("4", 0)])
    );
    fixture.complete(&run[0].lease).await;
    assert_eq!(in_runs(&claim(&fixture, 9).await), "2 3 4");
}

pub(crate) async fn reaper_with_a_limit_ends_whole_runs<H: Harness>() {
    let fixture = items::<H>(grouped(RUNS), &["a"; 4]).await;
    let mut crashed = runs(9, 9);
    crashed.duration = SECOND;
    fixture.claim_by(crashed).await;
    fixture.advance(MINUTE).await;
    let mut expired = 0;
    for _ in 0..4 {
        expired += fixture.reap(1).await.expired.len();
    }
    assert_eq!(expired, 1);
    let used: u32 = ready(&fixture).await.iter().map(|(_, used)| used).sum();
    assert_eq!(used, 1);
}

pub(crate) async fn cancellation_releases_the_rest_of_its_run<H: Harness>() {
    let fixture = items::<H>(grouped(RUNS), &["a"; 4]).await;
    let run = claim(&fixture, 9).await;
    let cancellation = Cancellation {
        delay: Duration::ZERO,
        dead_letter: false,
        reason: "stuck".to_owned(),
        call: None,
    };
    let leases = [2, 1].map(|index| CancelledLease::from(run[index].lease.key.clone()));
    let cancelled = fixture
        .store
        .cancel(fixture.queue, leases.into(), cancellation);
    let cancelled = cancelled.await.expect("cancel");
    assert_eq!(keys_of(&cancelled.ended), ["2"]);
    assert_eq!(keys_of(&cancelled.released), ["3", "4"]);
    assert_eq!(cancelled.results[0], Cancelled::NotHeld(State::Ready));
    assert_eq!(
        ready(&fixture).await,
        attempts(&[("2", 1), ("3", 0), ("4", 0)])
    );
    assert_eq!(
        fixture.complete(&run[0].lease).await,
        Some(State::Completed)
    );
}

pub(crate) async fn group_with_a_delayed_item_gives_single_items<H: Harness>() {
    let fixture = items::<H>(grouped(RUNS), &["a"; 4]).await;
    let run = claim(&fixture, 9).await;
    fixture.settle(&run[0].lease, complete()).await;
    fixture.settle(&run[1].lease, fail(Some(HOUR))).await;
    insert(&fixture, 0, "a").await;
    insert(&fixture, 1_000, "b").await;
    insert(&fixture, 1_001, "b").await;
    assert_eq!(in_runs(&claim(&fixture, 9).await), "1000 1001 | 0");
}

pub(crate) async fn rate_of_the_group_bounds_a_run<H: Harness>() {
    let mut of_customer = groups(RUNS);
    of_customer.rate = Some(Rate {
        items: 2,
        per: HOUR,
        burst: 2,
    });
    let mut spec = grouped(RUNS);
    spec.groups = Some(Groups { ..of_customer });
    let fixture = items::<H>(spec, &["a", "a", "a", "b"]).await;
    assert_eq!(in_runs(&claim(&fixture, 9).await), "1 2 | 4");
}

pub(crate) async fn limit_of_the_queue_bounds_a_run<H: Harness>() {
    let mut spec = grouped(RUNS);
    spec.limits.max_leases = Some(2);
    let fixture = items::<H>(spec, &["a", "a", "a", "b"]).await;
    let run = claim(&fixture, 9).await;
    assert_eq!(in_runs(&run), "1 2");
    settle(&fixture, vec![(&run[0], complete())]).await;
    assert_eq!(in_runs(&claim(&fixture, 9).await), "4");
}

pub(crate) async fn order_of_the_queue_decides_about_a_run<H: Harness>() {
    let spec = QueueSpec {
        order: by(&["-rank", "id"]),
        ..grouped(RUNS)
    };
    let fixture = items::<H>(spec, &["a", "a", "a"]).await;
    for (id, rank) in [(1, 5), (2, 9), (3, 7)] {
        let row = ("id", Value::Int(id));
        let rank = ("rank", Value::Int(rank));
        fixture.harness.update("item", rank, row).await;
    }
    let run = claim(&fixture, 9).await;
    assert_eq!(in_runs(&run), "2 3 1");
    let settled = settle(&fixture, vec![(&run[0], fail(None))]).await;
    assert_eq!(keys_of(&settled.released), ["3", "1"]);
}

pub(crate) async fn repeated_claim_returns_its_runs<H: Harness>() {
    let names = ["a", "b", "a", "b", "", "a"];
    let fixture = items::<H>(grouped(RUNS), &names).await;
    let request = ClaimCall {
        has_request_id: true,
        token: Uuid::new_v4(),
        ..runs(9, 9)
    };
    let first = fixture.claim_by(request.clone()).await;
    assert_eq!(in_runs(&first), "1 3 6 | 2 4 | 5");
    let without_runs = ClaimCall {
        max_run: 1,
        ..request.clone()
    };
    for request in [request, without_runs] {
        let again = fixture.claim_by(request).await;
        assert_eq!(in_runs(&again), "1 3 6 | 2 4 | 5");
        assert_eq!(again.last().map(|item| item.run), Some(0));
    }
}

pub(crate) async fn repeated_claim_of_single_items_returns_no_runs<H: Harness>() {
    let fixture = items::<H>(grouped(RUNS), &["a", "b", "a"]).await;
    let request = ClaimCall {
        has_request_id: true,
        ..call("worker", 9)
    };
    for _ in 0..2 {
        let claimed = fixture.claim_by(request.clone()).await;
        assert_eq!(keys(&claimed), ["1", "2"]);
        assert_eq!([claimed[0].run, claimed[1].run], [0, 0]);
    }
}

pub(crate) async fn named_groups_give_runs<H: Harness>() {
    let names = ["a", "a", "b", "b", "c"];
    let fixture = items::<H>(grouped(RUNS), &names).await;
    let of_b = ClaimCall {
        max_run: 9,
        ..super::named_groups::of(&["b"], 9)
    };
    assert_eq!(in_runs(&fixture.claim_by(of_b).await), "3 4");
    assert_eq!(in_runs(&claim(&fixture, 9).await), "1 2 | 5");
}

pub(crate) async fn run_stops_before_an_item_that_does_not_fit<H: Harness>() {
    let table = Table::new("item")
        .required("id", Kind::BigInt)
        .column("customer", Kind::Text)
        .column("payload", Kind::LongText)
        .key(&["id"]);
    let fixture = Fixture::<H>::over(&[table], vec![grouped(RUNS)]).await;
    for (id, customer, kibibytes) in [
        (1, "a", 1),
        (2, "a", 40),
        (3, "a", 1),
        (4, "b", 40),
        (5, "b", 1),
        (6, "c", 1),
        (7, "c", 1),
    ] {
        let row = [
            ("id", Value::Int(id)),
            ("customer", text(customer)),
            ("payload", Value::Text("x".repeat(kibibytes << 10))),
        ];
        fixture.harness.insert("item", &row).await;
    }
    let small = ClaimCall {
        max_bytes: 20 << 10,
        ..runs(9, 9)
    };
    for _ in 0..2 {
        let claimed = fixture.results(vec![small.clone()]).await.remove(0);
        assert_eq!(in_runs(&claimed.items), "1 | 6 7");
        let too_large = claimed.too_large.iter().map(|item| item.key.to_string());
        assert_eq!(too_large.collect::<Vec<_>>(), ["2", "4"]);
        for item in &claimed.items {
            fixture.settle(&item.lease, release(Duration::ZERO)).await;
        }
    }
}

pub(crate) async fn run_works_where_completions_remove_rows<H: Harness>() {
    let spec = QueueSpec {
        on_complete: OnComplete::Delete,
        ..grouped(RUNS)
    };
    let fixture = items::<H>(spec, &["a"; 4]).await;
    let run = claim(&fixture, 9).await;
    let settlements = vec![
        (&run[0], complete()),
        (&run[1], complete()),
        (&run[2], fail(None)),
    ];
    let settled = settle(&fixture, settlements).await;
    assert_eq!(keys_of(&settled.released), ["4"]);
    assert_eq!(fixture.counts().await, [1, 0, 0, 0, 1]);
}

pub(crate) async fn unfiltered_indexes_serve_runs<H: Harness>() {
    let spec = QueueSpec {
        filtered_indexes: false,
        ..grouped(RUNS)
    };
    let fixture = items::<H>(spec, &["a", "a", "b", "a"]).await;
    let run = claim(&fixture, 9).await;
    assert_eq!(in_runs(&run), "1 2 4 | 3");
    let settled = settle(&fixture, vec![(&run[0], fail(None))]).await;
    assert_eq!(keys_of(&settled.released), ["2", "4"]);
}
