//! The settings `group`, `max_leases` and `rate`.

use std::time::Duration;

use lease_broker_model::group::{GroupOrder, Groups, QueueLimits};
use lease_broker_model::queue::QueueSpec;
use lease_broker_model::rate::Rate;

use crate::configuration::test_sources::from_file;

fn queue(settings: &'static str) -> QueueSpec {
    let config = from_file(settings).expect(settings);
    config.queues[0].clone()
}

fn groups(settings: &'static str) -> Option<Groups> {
    queue(settings).groups
}

fn of_customer(order: GroupOrder) -> Groups {
    let column = "Customer".to_owned();
    Groups {
        column,
        order,
        rate: None,
    }
}

#[test]
fn groups_are_strict_by_default() {
    let strict = Some(of_customer(GroupOrder::Strict {
        halts: false,
        run: 1,
    }));
    assert_eq!(groups("[queues.a]\ngroup = 'Customer'"), strict);
    assert_eq!(
        groups("[queues.a]\ngroup = { column = 'Customer', max_leases = 1, on_dead = 'continue' }"),
        strict
    );
    assert_eq!(
        groups("[queues.a.group]\ncolumn = 'Customer'\non_dead = 'halt'"),
        Some(of_customer(GroupOrder::Strict {
            halts: true,
            run: 1
        }))
    );
    assert_eq!(groups("[queues.a]"), None);
    assert!(!queue("[queues.a]").takes_turns());
}

#[test]
fn strict_groups_can_have_runs() {
    for (settings, run) in [
        ("[queues.a]\ngroup = { column = 'Customer', run = 1 }", 1),
        ("[queues.a]\ngroup = { column = 'Customer', run = 10 }", 10),
        (
            "[queues.a]\ngroup = { column = 'Customer', run = 100 }",
            100,
        ),
    ] {
        let expected = of_customer(GroupOrder::Strict { halts: false, run });
        assert_eq!(groups(settings), Some(expected));
        assert_eq!(queue(settings).max_run(), run as usize);
    }
    let halts = "[queues.a]\ngroup = { column = 'Customer', on_dead = 'halt', run = 5 }";
    let policy = groups(halts).map(|groups| groups.policy());
    let expected = "strict, halts at dead items, runs of up to 5, by Customer";
    assert_eq!(policy.as_deref(), Some(expected));
    let parallel = "[queues.a]\ngroup = { column = 'Customer', order = 'none', run = 1 }";
    assert_eq!(queue(parallel).max_run(), 1);
}

#[test]
fn runs_that_a_group_cannot_have_are_refused() {
    for (settings, problem) in [
        (
            "[queues.a]\ngroup = { column = 'C', run = 0 }",
            "is not between 1 and 100",
        ),
        (
            "[queues.a]\ngroup = { column = 'C', run = 101 }",
            "is not between 1 and 100",
        ),
        (
            "[queues.a]\ngroup = { column = 'C', order = 'none', run = 2 }",
            "needs order = \"strict\"",
        ),
    ] {
        let error = from_file(settings).expect_err(settings);
        assert_eq!(error.key, "queues.a.group.run", "{settings}");
        assert!(error.to_string().contains(problem), "{settings}: {error}");
    }
}

#[test]
fn groups_without_an_order_can_have_several_leases() {
    for (settings, max_leases) in [
        (
            "[queues.a]\norder = 'none'\ngroup = { column = 'Customer', order = 'none' }",
            None,
        ),
        (
            "[queues.a]\ngroup = { column = 'Customer', order = 'none', max_leases = 0 }",
            None,
        ),
        (
            "[queues.a]\ngroup = { column = 'Customer', order = 'none', max_leases = 7 }",
            Some(7),
        ),
    ] {
        let expected = Some(of_customer(GroupOrder::Parallel {
            max_leases,
            bursts: false,
        }));
        assert_eq!(groups(settings), expected);
    }
}

#[test]
fn groups_can_burst() {
    let settings =
        "[queues.a]\ngroup = { column = 'Customer', order = 'none', max_leases = 7, burst = true }";
    let expected = of_customer(GroupOrder::Parallel {
        max_leases: Some(7),
        bursts: true,
    });
    assert_eq!(expected.policy(), "parallel with burst, by Customer");
    assert_eq!(groups(settings), Some(expected));
}

#[test]
fn limits_of_a_queue_are_read() {
    let limited = queue("[queues.a]\nmax_leases = 500\nrate = { items = 100, per = '1m' }");
    let rate = Rate {
        items: 100,
        per: Duration::from_secs(60),
        burst: 100,
    };
    let limits = QueueLimits {
        max_leases: Some(500),
        rate: Some(rate),
    };
    assert_eq!(limited.limits, limits);
    assert!(limited.takes_turns());
    let burst = queue("[queues.a]\nrate = { items = 100, per = '1s', burst = 3 }");
    assert_eq!(burst.limits.rate.map(|rate| rate.burst), Some(3));
}

#[test]
fn rate_of_each_group_is_read() {
    let settings = "[queues.a]\ngroup = { column = 'Customer', rate = { items = 5, per = '1s' } }";
    let rate = Rate {
        items: 5,
        per: Duration::from_secs(1),
        burst: 5,
    };
    assert_eq!(groups(settings).and_then(|groups| groups.rate), Some(rate));
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    for (settings, key) in [
        (
            "group = { column = 'C', max_leases = 2 }",
            "group.max_leases",
        ),
        (
            "group = { column = 'C', order = 'none', max_leases = 1001 }",
            "group.max_leases",
        ),
        (
            "group = { column = 'C', order = 'none', on_dead = 'halt' }",
            "group.on_dead",
        ),
        ("group = { column = 'C', burst = true }", "group.burst"),
        ("group = 'C'\norder = 'none'", "group.order"),
        ("group = 'C'\non_complete = { recur = '1m' }", "group.order"),
        ("group = 'C'\nwritable = ['c']", "group.column"),
        ("group = 'C'\nmirror.completed = { c = 1 }", "group.column"),
        ("group = 'lease_owner'", "group.column"),
        (
            "group = { column = 'C', rate = { items = 1, per = '2days' } }",
            "group.rate.per",
        ),
        ("group = ''", "group.column"),
        ("max_leases = 10001", "max_leases"),
        ("rate = { items = 0, per = '1s' }", "rate.items"),
        ("rate = { items = 1, per = '1s', burst = 0 }", "rate.burst"),
        ("rate = { items = 1, per = '2days' }", "rate.per"),
        ("rate = { items = 1 }", "rate"),
    ] {
        let text: &'static str = format!("[queues.a]\n{settings}").leak();
        let error = from_file(text).expect_err(text);
        assert!(
            error.key.starts_with(&format!("queues.a.{key}")),
            "{settings}: {error}"
        );
    }
}

#[test]
fn wrong_part_of_a_group_is_named() {
    for (text, key, reason) in [
        (
            "[queues.a]\ngroup = { column = 'a', order = 'fast' }",
            "queues.a.group.order",
            "expected `strict` or `none`",
        ),
        (
            "[queues.a]\ngroup = { column = 'a', rate = { items = 5 } }",
            "queues.a.group.rate",
            "missing field `per`",
        ),
        (
            "[queues.a]\ngroup = { column = 'a', ordr = 'none' }",
            "queues.a.group.ordr",
            "unknown field",
        ),
        (
            "[queues.a]\ngroup = 5",
            "queues.a.group",
            "expected a column such as \"Customer_ID\"",
        ),
    ] {
        let error = from_file(text).expect_err(text);
        assert_eq!(error.key, key, "{error}");
        assert!(error.reason.contains(reason), "{error}");
    }
}
