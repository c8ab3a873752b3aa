//! The checks of the database: the brokers on it, its clock, and the tables of the queues.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lease_broker_model::queue::QueueSpec;
use lease_broker_store::{BrokerList, Instance, StoreError};

use super::finding::{Finding, Verdict};
use crate::broker::LEFT_QUEUE;
use crate::cli::config_args::{SchemaAccess, open_schema};
use crate::cli::output::format_duration;
use crate::config::{Config, StoreKind};

/// A clock that differs by more than this can end short leases early or late. A smaller difference can be the time of the check.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(2);

/// Reads the list of brokers, and checks the tables of the queues.
pub(super) fn check(config: &Config, send: &dyn Fn(Finding)) {
    if config.store.kind == StoreKind::Sqlite && !config.store.path.exists() {
        // The checks of the file say so.
        return;
    }
    let send = |check: String, verdict, detail: String| {
        send(Finding::broker(check, verdict, detail));
    };
    let failed = |error: &dyn std::fmt::Display| {
        send("database".to_owned(), Verdict::Problem, error.to_string());
    };
    let mut schema = match open_schema(config, SchemaAccess::Read) {
        Ok(schema) => schema,
        Err(error) => return failed(&error),
    };
    match schema.brokers() {
        Ok(Some(list)) => {
            send("database".to_owned(), Verdict::Ok, "it answers".to_owned());
            check_clock(&list, &send);
            check_brokers(&list, &send);
            check_settings(&list, &send);
            check_left_queues(&list, &config.queues, &send);
        }
        Ok(None) => {
            let detail = "no broker of this version has used it".to_owned();
            send("database".to_owned(), Verdict::Warning, detail);
        }
        Err(StoreError::Misconfigured(problem)) => {
            let detail = format!("no broker of this version has used it ({problem})");
            send("database".to_owned(), Verdict::Warning, detail);
        }
        Err(error) => return failed(&error),
    }
    for queue in &config.queues {
        let check = format!("table of {}", queue.name);
        let created = queue.managed_columns.is_some();
        match schema.check(queue) {
            Ok(missing) if missing.is_empty() => send(check, Verdict::Ok, queue.table.clone()),
            Ok(_) if created => {
                let detail = "the service creates or changes it when it starts".to_owned();
                send(check, Verdict::Warning, detail);
            }
            Ok(missing) => send(check, Verdict::Problem, missing.join("; ")),
            Err(error) => send(check, Verdict::Problem, error.to_string()),
        }
    }
}

type Send<'a> = dyn Fn(String, Verdict, String) + 'a;

fn check_clock(list: &BrokerList, send: &Send<'_>) {
    let here = SystemTime::now().duration_since(UNIX_EPOCH);
    let here = here.map_or(0, |here| {
        i64::try_from(here.as_millis()).unwrap_or(i64::MAX)
    });
    let difference = Duration::from_millis(here.abs_diff(list.now));
    let future = list.brokers.iter().map(|broker| broker.ahead).max();
    let future = future.unwrap_or_default();
    let (verdict, detail) = if future > CLOCK_TOLERANCE {
        let future = format_duration(future);
        let detail = format!(
            "a broker was seen {future} in the future: the clock of the database went back"
        );
        (Verdict::Problem, detail)
    } else if difference > CLOCK_TOLERANCE {
        let difference = format_duration(difference);
        let detail =
            format!("the clocks of this machine and of the database differ by {difference}");
        (Verdict::Warning, detail)
    } else {
        (
            Verdict::Ok,
            "this machine and the database agree".to_owned(),
        )
    };
    send("clock".to_owned(), verdict, detail);
}

fn check_brokers(list: &BrokerList, send: &Send<'_>) {
    if list.brokers.is_empty() {
        let detail = "none was seen within the last day".to_owned();
        return send("brokers".to_owned(), Verdict::Warning, detail);
    }
    for broker in &list.brokers {
        let silence = format_duration(broker.silence);
        let Instance {
            address,
            version,
            draining,
            ..
        } = &broker.instance;
        let (verdict, detail) = if *draining {
            (
                Verdict::Ok,
                format!("version {version}, stopped or stopping {silence} ago"),
            )
        } else if broker.is_live() {
            (
                Verdict::Ok,
                format!("version {version}, seen {silence} ago"),
            )
        } else if broker.ahead > broker.silence {
            let ahead = format_duration(broker.ahead);
            let detail = format!(
                "version {version}, seen {ahead} in the future and not since the clock of the database went back: it was killed, is \
                 stopped, or cannot write"
            );
            (Verdict::Warning, detail)
        } else {
            let detail = format!(
                "version {version}, writes its row no more since {silence}: it was killed, is stopped, or cannot write"
            );
            (Verdict::Warning, detail)
        };
        send(format!("broker {address}"), verdict, detail);
    }
}

/// Compares the settings of the brokers that run.
fn check_settings(list: &BrokerList, send: &Send<'_>) {
    let live: Vec<_> = list.brokers.iter().filter(|one| one.is_live()).collect();
    let mut reported = BTreeSet::new();
    for (index, one) in live.iter().enumerate() {
        for other in &live[..index] {
            let (one, other) = (&one.instance, &other.instance);
            for (queue, settings) in &one.settings {
                let others = other.settings.get(queue);
                let differ = others.is_some_and(|others| settings.difference(others).is_some());
                if differ && reported.insert(queue) {
                    let detail = format!(
                        "the brokers {} and {} have different ones: give both the same",
                        other.address, one.address
                    );
                    send(format!("settings of {queue}"), Verdict::Warning, detail);
                }
            }
        }
    }
}

/// Names the queues that brokers have left.
fn check_left_queues(list: &BrokerList, configured: &[QueueSpec], send: &Send<'_>) {
    for queue in list.left_queues(configured) {
        let check = format!("queue {queue}");
        send(check, Verdict::Warning, LEFT_QUEUE.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use lease_broker_store::{ListedBroker, SettingsHash};
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn broker(address: &str, silence: Duration, rules: &str) -> ListedBroker {
        let hash = json!({"format": 1, "rows": "a", "rules": rules});
        let hash: SettingsHash = serde_json::from_value(hash).expect("a hash");
        ListedBroker {
            instance: Instance {
                id: Uuid::nil(),
                address: address.to_owned(),
                version: "0.2.0".to_owned(),
                draining: false,
                settings: [("work".to_owned(), hash)].into(),
                activity: BTreeMap::new(),
            },
            silence,
            ahead: Duration::ZERO,
            start_time: 0,
        }
    }

    #[test]
    fn queue_that_no_broker_serves_any_more_is_named() {
        let day = Duration::from_secs(86_000);
        let mut list = BrokerList {
            now: 0,
            brokers: vec![broker("a:1", day, "x")],
        };
        assert_eq!(
            list.left_queues(&[]).into_iter().collect::<Vec<_>>(),
            ["work"]
        );
        list.brokers.push(broker("b:1", Duration::ZERO, "x"));
        assert!(list.left_queues(&[]).is_empty(), "another broker serves it");
    }

    #[test]
    fn brokers_with_different_settings_are_named() {
        let day = Duration::from_secs(86_000);
        let brokers = vec![
            broker("a:1", Duration::ZERO, "x"),
            broker("b:1", Duration::ZERO, "x"),
            broker("c:1", Duration::ZERO, "y"),
            broker("d:1", day, "z"),
        ];
        let found = RefCell::new(Vec::new());
        check_settings(
            &BrokerList { now: 0, brokers },
            &|check, verdict, detail| {
                found.borrow_mut().push((check, verdict, detail));
            },
        );
        let [(check, Verdict::Warning, detail)] = &found.borrow()[..] else {
            panic!("{found:?}");
        };
        assert_eq!(check, "settings of work");
        assert!(detail.contains("the brokers a:1 and c:1"), "{detail}");
    }
}
