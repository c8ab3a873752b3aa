//! Claims that name the groups from which they want items.

use lease_broker_model::key::Key;
use lease_broker_store::{ClaimCall, Claimed, Limited};

use super::groups::{NAMED_KINDS, PARALLEL, STRICT, grouped, items, three_groups};
use super::listed_groups::list;
use crate::harness::Harness;
use crate::harness::fixture::{Broker, SECOND, call, keys, text};

/// Returns a call for up to `max_items` items of these groups.
pub(super) fn of(groups: &[&str], max_items: usize) -> ClaimCall {
    ClaimCall {
        groups: groups.iter().map(|name| Key([text(name)].into())).collect(),
        ..call("worker", max_items)
    }
}

async fn claimed(broker: &Broker, call: ClaimCall) -> Claimed {
    broker.results(vec![call]).await.remove(0)
}

async fn claim_keys(broker: &Broker, call: ClaimCall) -> Vec<String> {
    keys(&claimed(broker, call).await.items)
}

pub(crate) async fn claim_of_named_groups_gets_only_their_items<H: Harness>() {
    let names = ["a", "b", "c", "", "a", "b"];
    let fixture = items::<H>(grouped(STRICT), &names).await;
    assert_eq!(
        claim_keys(&fixture, of(&["c", "nobody", "a"], 9)).await,
        ["3", "1"]
    );
    assert_eq!(claim_keys(&fixture, of(&["nobody"], 9)).await, [""; 0]);
    // Group a has a lease now, and c has no further item.
    let busy = claimed(&fixture, of(&["c", "a"], 9)).await;
    assert_eq!(
        (busy.items.len(), busy.limited),
        (0, Some(Limited::GroupsBusy { wait: None }))
    );
    assert!(busy.is_held_back, "other claims may get other items");
    assert_eq!(keys(&fixture.claim(9).await), ["2", "4"]);
}

pub(crate) async fn group_that_is_named_twice_gives_its_items_once<H: Harness>() {
    let fixture = items::<H>(grouped(STRICT), &["a", "a", "b"]).await;
    assert_eq!(
        claim_keys(&fixture, of(&["a", "a", "b", "a"], 9)).await,
        ["1", "3"]
    );
    let fixture = items::<H>(grouped(PARALLEL), &["a", "a", "b", "a"]).await;
    let mut all = claim_keys(&fixture, of(&["a", "b", "a"], 9)).await;
    all.sort();
    assert_eq!(all, ["1", "2", "3", "4"]);
}

pub(crate) async fn named_groups_without_order_give_their_items_evenly<H: Harness>() {
    let names = ["a", "a", "a", "b", "b", "c"];
    let fixture = items::<H>(grouped(PARALLEL), &names).await;
    assert_eq!(
        claim_keys(&fixture, of(&["b", "a"], 4)).await,
        ["4", "1", "5", "2"]
    );
    assert_eq!(claim_keys(&fixture, of(&["b", "a"], 4)).await, ["3"]);
}

pub(crate) async fn claim_of_named_groups_takes_no_turn<H: Harness>() {
    let names = ["a", "b", "c", "a", "b", "c"];
    let fixture = items::<H>(grouped(PARALLEL), &names).await;
    assert_eq!(keys(&fixture.claim(1).await), ["1"]);
    assert_eq!(claim_keys(&fixture, of(&["c"], 1)).await, ["3"]);
    assert_eq!(keys(&fixture.claim(1).await), ["2"]);
}

pub(crate) async fn claims_with_and_without_groups_share_an_operation<H: Harness>() {
    let names = ["a", "b", "c", "d"];
    let fixture = items::<H>(grouped(STRICT), &names).await;
    let calls = vec![
        of(&["nobody"], 9),
        of(&["d"], 9),
        call("worker", 9),
        of(&["a"], 9),
    ];
    let results = fixture.results(calls).await;
    let mut all: Vec<String> = results.iter().flat_map(|one| keys(&one.items)).collect();
    all.sort();
    assert_eq!(all, ["1", "2", "3", "4"]);
    assert_eq!(keys(&results[0].items), [""; 0]);
    assert!(
        results[1]
            .items
            .iter()
            .all(|item| item.lease.key.to_string() == "4")
    );
}

pub(crate) async fn suspect_goes_only_to_a_claim_of_its_group<H: Harness>() {
    let fixture = items::<H>(grouped(STRICT), &["a", "b"]).await;
    let short = ClaimCall {
        duration: SECOND,
        ..of(&["a"], 1)
    };
    assert_eq!(claim_keys(&fixture, short).await, ["1"]);
    fixture.advance(2 * SECOND).await;
    fixture.reap(9).await;
    assert_eq!(claim_keys(&fixture, of(&["b"], 9)).await, ["2"]);
    let other = |groups: &[&str]| ClaimCall {
        worker: "other".to_owned(),
        ..of(groups, 9)
    };
    assert_eq!(claim_keys(&fixture, other(&["b"])).await, [""; 0]);
    let alone = ClaimCall {
        max_items: 1,
        ..other(&["nobody", "a"])
    };
    let alone = fixture.results(vec![alone]).await.remove(0);
    assert_eq!(keys(&alone.items), ["1"]);
    assert!(alone.is_held_back);
}

pub(crate) async fn groups_of_every_kind_can_be_named<H: Harness>() {
    for kind in NAMED_KINDS {
        let fixture = three_groups::<H>(kind).await;
        let name = list(&fixture).await[1].group.to_string();
        let group = fixture.reads.parse_group(fixture.queue, &name);
        let call = ClaimCall {
            groups: vec![group.expect("a group")],
            ..call("worker", 9)
        };
        assert_eq!(claim_keys(&fixture, call).await, ["2"], "{kind:?}");
    }
}
