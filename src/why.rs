//! Finds the reasons why an item is not being claimed.
//!
//! A new reason is a new case of [`Cause`], with its name and its sentence, and the facts from which [`causes`] finds it.

mod cause;
mod group_cause;

use lease_broker_model::item_state::State;
use lease_broker_model::millis::duration_between;
use lease_broker_model::queue::{Order, QueueSpec};
use lease_broker_store::{Ahead, ForeignLock, ItemFacts, ItemRow, Limited};

pub use self::cause::Cause;
pub(crate) use self::cause::short_duration;
pub use self::group_cause::GroupCause;

/// Returns the reasons why the item is not being claimed, the worst first.
pub fn causes(facts: &ItemFacts, queue: &QueueSpec) -> Vec<Cause> {
    let Some(row) = &facts.row else {
        return vec![Cause::NoRow(facts.has_null_keys)];
    };
    let state = of_state(row, facts.now, queue);
    match row.state {
        None | Some(State::Completed | State::Dead) => vec![state],
        Some(State::Leased | State::Delayed) => {
            let mut causes = vec![state];
            causes.extend(facts.lock.clone().map(Cause::Locked));
            causes.extend(of_brokers(facts, queue));
            causes
        }
        Some(State::Ready) => {
            let mut causes: Vec<Cause> =
                facts.pause.clone().map(Cause::Paused).into_iter().collect();
            causes.extend(
                facts
                    .group
                    .as_ref()
                    .and_then(|group| GroupCause::of(group, queue))
                    .map(Cause::Group),
            );
            causes.extend(facts.lock.clone().map(Cause::Locked));
            causes.extend(of_brokers(facts, queue));
            causes.extend(facts.limited.and_then(of_limit));
            if row.attempt > 0 && row.owner.is_none() && !row.has_token {
                causes.push(Cause::Suspect);
            }
            // The others explain more than these two.
            if causes.is_empty() || !matches!(state, Cause::First | Cause::Changing) {
                causes.push(state);
            }
            causes
        }
    }
}

fn of_limit(limit: Limited) -> Option<Cause> {
    match limit {
        Limited::MaxLeases => Some(Cause::MaxLeases),
        Limited::Rate { wait } => Some(Cause::Rate(wait)),
        Limited::GroupsBusy { .. } | Limited::Suspects => None,
    }
}

fn of_state(row: &ItemRow, now: i64, queue: &QueueSpec) -> Cause {
    let due = row.due_time.unwrap_or(now);
    let (left, since) = (duration_between(now, due), duration_between(due, now));
    match row.state {
        None => Cause::UnknownState,
        Some(State::Delayed | State::Leased) if row.due_time.is_none() => Cause::NoDueTime,
        Some(State::Delayed) if due > now => Cause::Delayed(due, left),
        Some(State::Delayed) => Cause::DelayOver(since),
        Some(State::Leased) if due > now => Cause::Leased(due, left),
        Some(State::Leased) => Cause::LeaseExpired(since),
        Some(State::Completed) => Cause::Completed,
        Some(State::Dead) => Cause::Dead,
        Some(State::Ready) => match row.ahead {
            None => Cause::Changing,
            Some(Ahead::Exactly(0)) => Cause::First,
            Some(ahead) => Cause::Behind(ahead, queue.order != Order::None),
        },
    }
}

fn of_brokers(facts: &ItemFacts, queue: &QueueSpec) -> Option<Cause> {
    let Some(brokers) = &facts.brokers else {
        return Some(Cause::BrokersUnknown);
    };
    let mut serving = brokers
        .iter()
        .filter(|broker| broker.settings.contains_key(&queue.name))
        .peekable();
    if brokers.is_empty() {
        Some(Cause::NoBroker {
            cannot_write: facts.lock == Some(ForeignLock::File),
        })
    } else if serving.peek().is_none() {
        Some(Cause::NotServed)
    } else {
        serving
            .all(|broker| broker.draining)
            .then_some(Cause::Draining)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use crate::config::{Config, Sources};
    use lease_broker_store::{Instance, SettingsHash};

    use super::*;

    const NOW: i64 = 1_000_000;

    /// Returns the facts of an item in this state, which one broker serves. The due time is `due` seconds from now.
    fn facts(state: Option<State>, due: i64, ahead: Option<Ahead>) -> ItemFacts {
        let settings = [("mail".to_owned(), SettingsHash::new(&queue()))].into();
        ItemFacts {
            now: NOW,
            row: Some(ItemRow {
                state,
                owner: None,
                state_time: None,
                due_time: Some(NOW + due * 1_000),
                attempt: 0,
                fence: 0,
                error: None,
                has_token: true,
                ahead,
            }),
            has_null_keys: false,
            lock: None,
            pause: None,
            limited: None,
            group: None,
            brokers: Some(vec![Instance {
                id: Uuid::nil(),
                version: String::new(),
                address: String::new(),
                draining: false,
                settings,
                activity: std::collections::BTreeMap::new(),
            }]),
        }
    }

    fn queue() -> QueueSpec {
        let text = "[queues.mail]\nmanaged_columns = { body = 'text' }";
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("queues.toml");
        std::fs::write(&file, text).expect("a file");
        let sources = Sources {
            file: Some(file),
            environment: Vec::new(),
            flags: Vec::new(),
            ..Sources::default()
        };
        let config: Config = sources.load().expect("a configuration");
        config.queues[0].clone()
    }

    fn names(facts: &ItemFacts) -> Vec<&'static str> {
        causes(facts, &queue()).iter().map(Cause::name).collect()
    }

    #[test]
    fn each_state_has_its_cause() {
        let ready = |ahead| facts(Some(State::Ready), 0, Some(ahead));
        assert_eq!(names(&ready(Ahead::Exactly(0))), ["first"]);
        assert_eq!(names(&ready(Ahead::Exactly(3))), ["behind"]);
        assert_eq!(names(&ready(Ahead::AtLeast(1_000))), ["behind"]);
        assert_eq!(names(&facts(Some(State::Ready), 0, None)), ["changing"]);
        for (state, due, name) in [
            (Some(State::Delayed), 5, "delayed"),
            (Some(State::Delayed), 0, "delay_over"),
            (Some(State::Leased), 5, "leased"),
            (Some(State::Leased), -5, "lease_expired"),
            (Some(State::Completed), 0, "completed"),
            (Some(State::Dead), 0, "dead"),
            (None, 0, "unknown_state"),
        ] {
            assert_eq!(names(&facts(state, due, None)), [name]);
        }
        for state in [State::Delayed, State::Leased] {
            let mut endless = facts(Some(state), 0, None);
            endless.row.as_mut().expect("a row").due_time = None;
            assert_eq!(names(&endless), ["no_due_time"]);
        }
        let mut absent = facts(None, 0, None);
        absent.row = None;
        assert_eq!(causes(&absent, &queue()), [Cause::NoRow(false)]);
        absent.has_null_keys = true;
        assert_eq!(causes(&absent, &queue()), [Cause::NoRow(true)]);
    }

    #[test]
    fn locks_and_missing_brokers_are_named_beside_the_state() {
        let mut item = facts(Some(State::Ready), 0, Some(Ahead::Exactly(1)));
        item.lock = Some(ForeignLock::File);
        assert_eq!(names(&item), ["locked", "behind"]);
        item.brokers = Some(Vec::new());
        let cause = Cause::NoBroker { cannot_write: true };
        assert!(causes(&item, &queue()).contains(&cause));
        let mut first = facts(Some(State::Ready), 0, Some(Ahead::Exactly(0)));
        let brokers = first.brokers.as_mut().expect("brokers");
        brokers[0].draining = true;
        assert_eq!(names(&first), ["draining"]);
        first.brokers.as_mut().expect("brokers")[0].settings.clear();
        assert_eq!(names(&first), ["not_served"]);
        first.brokers = Some(Vec::new());
        assert_eq!(names(&first), ["no_broker"]);
        first.brokers = None;
        assert_eq!(names(&first), ["brokers_unknown"]);
        // A dead item waits for an operator, not for a broker.
        let mut dead = facts(Some(State::Dead), 0, None);
        dead.brokers = Some(Vec::new());
        assert_eq!(names(&dead), ["dead"]);
    }
}
