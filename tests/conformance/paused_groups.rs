//! Pauses of single groups.

use std::time::Duration;

use lease_broker_model::item_state::State;
use lease_broker_model::key::Key;
use lease_broker_store::{Claimed, GroupPause, Limited, MAX_PAUSED_GROUPS, NewGroupPause};
use lease_broker_value::Value;

use super::groups::{PARALLEL, STRICT, customer_table, grouped, insert, items};
use super::pause_race::last_claims;
use crate::harness::Harness;
use crate::harness::fixture::{
    Broker, Fixture, HOUR, MINUTE, SECOND, call, keys, new_item, release, text,
};
use crate::harness::table::{Kind, Table};

fn new_pause(reason: &str) -> NewGroupPause {
    NewGroupPause {
        reason: reason.to_owned(),
        actor: "anna".to_owned(),
        until: None,
    }
}

fn group(broker: &Broker, name: &str) -> Key {
    broker
        .reads
        .parse_group(broker.queue, name)
        .expect("a group")
}

async fn try_pause(broker: &Broker, name: &str, pause: NewGroupPause) -> Option<GroupPause> {
    let paused = broker
        .store
        .pause_group(broker.queue, group(broker, name), pause);
    paused.await.expect("an answer")
}

pub(crate) async fn pause(broker: &Broker, name: &str) -> GroupPause {
    let paused = try_pause(broker, name, new_pause("")).await;
    paused.expect("paused")
}

pub(crate) async fn resume(broker: &Broker, name: &str) -> Option<GroupPause> {
    let ended = broker
        .store
        .resume_group(broker.queue, group(broker, name))
        .await;
    ended.expect("an answer")
}

async fn claimed(broker: &Broker) -> Claimed {
    broker.results(vec![call("worker", 9)]).await.remove(0)
}

async fn claim_keys(broker: &Broker) -> Vec<String> {
    keys(&broker.claim(9).await)
}

pub(crate) async fn paused_group_gives_no_lease_and_others_go_on<H: Harness>() {
    let fixture = items::<H>(grouped(STRICT), &["a", "b", "a", "b", ""]).await;
    let other = fixture.another().await;
    let first = claimed(&fixture).await;
    assert_eq!(keys(&first.items), ["1", "2", "5"]);
    let paused = try_pause(&other, "a", new_pause("prices"))
        .await
        .expect("paused");
    assert_eq!(
        (&*paused.reason, &*paused.actor, paused.until),
        ("prices", "anna", None)
    );
    assert_eq!(paused.group, Key([text("a")].into()));
    // The leases go on.
    let lease = &first.items[0].lease;
    assert!(fixture.heartbeat(lease, MINUTE).await.is_some());
    assert_eq!(fixture.complete(lease).await, Some(State::Completed));
    fixture.complete(&first.items[1].lease).await;
    assert_eq!(claim_keys(&fixture).await, ["4"]);
    let busy = claimed(&other).await;
    assert_eq!(
        (busy.items.len(), busy.limited),
        (0, Some(Limited::GroupsBusy { wait: None }))
    );
    assert!(!busy.is_paused && !busy.has_more);
    assert_eq!(resume(&other, "b").await, None);
    assert_eq!(resume(&fixture, "a").await, Some(paused));
    assert_eq!(resume(&fixture, "a").await, None);
    assert_eq!(claim_keys(&other).await, ["3"]);
}

pub(crate) async fn parallel_group_can_be_paused<H: Harness>() {
    let fixture = items::<H>(grouped(PARALLEL), &["a", "a", "b", "a"]).await;
    pause(&fixture, "a").await;
    pause(&fixture, "group without items").await;
    assert_eq!(claim_keys(&fixture).await, ["3"]);
    insert(&fixture, 5, "group without items").await;
    assert!(claim_keys(&fixture).await.is_empty());
    assert!(resume(&fixture, "group without items").await.is_some());
    assert_eq!(claim_keys(&fixture).await, ["5"]);
    resume(&fixture, "a").await;
    assert_eq!(claim_keys(&fixture).await, ["1", "2", "4"]);
}

pub(crate) async fn pause_of_a_group_ends_at_its_time<H: Harness>() {
    let fixture = items::<H>(grouped(STRICT), &["a"]).await;
    let first = pause(&fixture, "a").await;
    let hour = i64::try_from(HOUR.as_millis()).expect("milliseconds");
    let mut ending = new_pause("for an hour");
    ending.until = Some(first.pause_time + hour);
    let second = try_pause(&fixture, "a", ending.clone()).await;
    assert_eq!(second.expect("paused").until, ending.until);
    assert!(claim_keys(&fixture).await.is_empty());
    fixture.advance(2 * HOUR).await;
    assert_eq!(resume(&fixture, "a").await, None, "it has ended");
    ending.until = Some(0);
    try_pause(&fixture, "a", ending).await.expect("paused");
    assert_eq!(
        claim_keys(&fixture).await,
        ["1"],
        "it ended before it began"
    );
}

pub(crate) async fn claim_forgets_pauses_that_have_ended<H: Harness>() {
    let fixture = items::<H>(grouped(STRICT), &["a", "b"]).await;
    let first = pause(&fixture, "a").await;
    let mut ending = new_pause("");
    ending.until = Some(first.pause_time + 60_000);
    try_pause(&fixture, "a", ending).await.expect("paused");
    pause(&fixture, "b").await;
    assert!(claim_keys(&fixture).await.is_empty());
    fixture.advance(HOUR).await;
    assert_eq!(claim_keys(&fixture).await, ["1"]);
    assert!(claim_keys(&fixture).await.is_empty(), "b stays paused");
    assert!(resume(&fixture, "b").await.is_some());
    assert_eq!(claim_keys(&fixture).await, ["2"]);
}

pub(crate) async fn pause_holds_back_what_the_database_calls_equal<H: Harness>() {
    let fixture = items::<H>(grouped(STRICT), &["ada", "ADA"]).await;
    let leased = claimed(&fixture).await.items;
    for item in &leased {
        fixture.settle(&item.lease, release(Duration::ZERO)).await;
    }
    pause(&fixture, "ADA").await;
    let are_two = leased.len() == 2;
    assert_eq!(claim_keys(&fixture).await.is_empty(), !are_two);
    // The pause of an equal name replaces the first one.
    pause(&fixture, "ada").await;
    assert!(resume(&fixture, "ADA").await.is_some());
    assert_eq!(resume(&fixture, "ada").await.is_some(), are_two);
}

pub(crate) async fn group_of_every_kind_can_be_paused<H: Harness>() {
    let value = |kind: Kind, number: i64| match kind {
        Kind::Text => text(&format!("it's \"{number}\" ☂")),
        Kind::Decimal => Value::Decimal(format!("{number}.5000")),
        _ => Value::Int(number),
    };
    for kind in [Kind::Int, Kind::BigInt, Kind::Text, Kind::Decimal] {
        let table = Table::new("item")
            .required("id", Kind::BigInt)
            .column("customer", kind)
            .key(&["id"]);
        let fixture = Fixture::<H>::over(&[table], vec![grouped(STRICT)]).await;
        for id in 1..=2 {
            let row = [("id", Value::Int(id)), ("customer", value(kind, id))];
            fixture.harness.insert("item", &row).await;
        }
        let name = Key([value(kind, 1)].into()).to_string();
        pause(&fixture, &name).await;
        assert_eq!(claim_keys(&fixture).await, ["2"], "{kind:?} {name}");
        let key = fixture.reads.parse_key(fixture.queue, "1").expect("a key");
        let facts = fixture.reads.item_facts(fixture.queue, key).await;
        let listed = facts.expect("facts").group.expect("a group");
        let named = listed.pause.expect("a pause");
        let ended = resume(&fixture, &named.group.to_string()).await;
        assert!(ended.is_some(), "{kind:?} {name}");
        assert_eq!(claim_keys(&fixture).await, ["1"], "{kind:?}");
    }
    let fixture = items::<H>(grouped(STRICT), &[]).await;
    let plain = Fixture::<H>::items(1).await;
    assert!(plain.reads.parse_group(plain.queue, "a").is_err());
    assert!(fixture.reads.parse_group(fixture.queue, "a").is_ok());
}

pub(crate) async fn suspect_of_a_paused_group_is_not_leased<H: Harness>() {
    for order in [STRICT, PARALLEL] {
        let fixture = items::<H>(grouped(order), &["a", "b"]).await;
        fixture.claim_for(2, SECOND).await;
        fixture.advance(MINUTE).await;
        assert_eq!(fixture.reap(9).await.expired.len(), 2);
        pause(&fixture, "a").await;
        let leased = fixture.calls(vec![call("x", 9)]).await.concat();
        assert_eq!(keys(&leased), ["2"]);
        let none = fixture.calls(vec![call("y", 9)]).await.concat();
        assert!(none.is_empty(), "{none:?}");
        resume(&fixture, "a").await;
        let leased = fixture.calls(vec![call("y", 9)]).await.concat();
        assert_eq!(keys(&leased), ["1"]);
    }
}

pub(crate) async fn other_groups_by_schema_apply_end_the_pauses<H: Harness>() {
    let fixture = items::<H>(grouped(STRICT), &["a", "a"]).await;
    pause(&fixture, "a").await;
    let spec = grouped(PARALLEL);
    fixture.harness.apply(&spec).await.expect("applied");
    let opened = fixture.harness.open(std::slice::from_ref(&spec)).await;
    let other = Broker::new(opened.expect("open"));
    assert_eq!(claim_keys(&other).await, ["1", "2"]);
}

pub(crate) async fn too_many_paused_groups_are_refused<H: Harness>() {
    let table = [customer_table()];
    let fixture = Fixture::<H>::over(&table, vec![grouped(STRICT)]).await;
    for number in 0..MAX_PAUSED_GROUPS {
        pause(&fixture, &number.to_string()).await;
    }
    let more = try_pause(&fixture, "one more", new_pause("")).await;
    assert_eq!(more, None);
    insert(&fixture, 1, "one more").await;
    insert(&fixture, 2, "7").await;
    assert_eq!(claim_keys(&fixture).await, ["1"]);
    // A replaced pause is none more.
    pause(&fixture, "7").await;
    assert!(resume(&fixture, "7").await.is_some());
    pause(&fixture, "one more").await;
    assert_eq!(claim_keys(&fixture).await, ["2"]);
}

pub(crate) async fn claim_after_the_answer_leases_nothing_of_the_group<H: Harness>() {
    const ROUNDS: usize = 10;
    const ITEMS: i64 = 900;

    let table = [customer_table()];
    let fixture = Fixture::<H>::over(&table, vec![grouped(PARALLEL)]).await;
    let new = (0..ITEMS).map(|id| {
        let customer = text(if id % 2 == 0 { "a" } else { "b" });
        new_item(&[("id", Value::Int(id)), ("customer", customer)])
    });
    let added = fixture.try_enqueue(new.collect()).await;
    assert_eq!(added.map(|keys| keys.len()), Ok(900));
    let brokers = [(*fixture).clone(), fixture.another().await];
    for round in 0..ROUNDS {
        let pause = async {
            pause(&fixture, "a").await;
        };
        for claimed in last_claims(&brokers, 2, pause).await {
            let leased = keys(&claimed.items);
            let of_group = |key: &String| key.parse::<i64>().expect("a number") % 2 == 0;
            assert!(!leased.iter().any(of_group), "{round}: {leased:?}");
        }
        assert!(resume(&fixture, "a").await.is_some());
    }
    let done = fixture.counts().await[State::Completed as usize];
    assert!(done > 0, "no claim ran beside a pause");
}

pub(crate) async fn name_that_is_no_number_is_no_group_of_numbers<H: Harness>() {
    for kind in [Kind::Int, Kind::BigInt, Kind::Decimal] {
        let table = Table::new("item")
            .required("id", Kind::BigInt)
            .column("customer", kind)
            .key(&["id"]);
        let fixture = Fixture::<H>::over(&[table], vec![grouped(STRICT)]).await;
        let is_group = |name| {
            let group = fixture.reads.parse_group(fixture.queue, name)?;
            fixture.reads.check_group_type(fixture.queue, &group)
        };
        assert_eq!(is_group("7"), Ok(()), "{kind:?}");
        for name in ["", "x"] {
            assert!(is_group(name).is_err(), "{kind:?} {name:?}");
        }
    }
}
