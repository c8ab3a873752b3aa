//! The reasons why an item is not being claimed, each with one sentence for an operator.
//!
//! A new reason is a new case of [`Cause`]: with its name, its sentence, and the facts from which [`causes`] finds it.

use std::time::Duration;

use crate::item_state::State;
use crate::queue::{Order, QueueSpec};
use crate::store::millis::duration_between;
use crate::store::{Ahead, BlockingSession, ForeignLock, ItemFacts, ItemRow};
use crate::text;
use crate::value::rfc3339_of_millis as moment;

/// A reason why an item is not being claimed.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// The table has no row with this key. True: it has rows with NULL in a key column, which have no key.
    NoRow(bool),
    /// The state column has a value that is no state.
    UnknownState,
    /// The item becomes ready at this time, after this time.
    Delayed(i64, Duration),
    /// The delay is over since this time, and no broker has made the item ready.
    DelayOver(Duration),
    /// A worker holds the lease until this time, for this time more.
    Leased(i64, Duration),
    /// The lease has expired this time ago, and no broker has ended it.
    LeaseExpired(Duration),
    /// The item is completed.
    Completed,
    /// The item is dead.
    Dead,
    /// The item is ready, and claims take others first. True: the queue has an order.
    Behind(Ahead, bool),
    /// The item is ready and the first of its queue.
    First,
    /// The item was ready, and another transaction was changing its row.
    Changing,
    /// Another program has locked the row or the file.
    Locked(ForeignLock),
    /// No broker has announced itself lately.
    NoBroker,
    /// Brokers run, and the queue is not among those that they serve.
    NotServed,
    /// Every broker that serves the queue will stop soon.
    Draining,
    /// The running brokers are not known.
    BrokersUnknown,
}

impl Cause {
    /// Returns the cause's name, for programs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NoRow(_) => "no_row",
            Self::UnknownState => "unknown_state",
            Self::Delayed(..) => "delayed",
            Self::DelayOver(_) => "delay_over",
            Self::Leased(..) => "leased",
            Self::LeaseExpired(_) => "lease_expired",
            Self::Completed => "completed",
            Self::Dead => "dead",
            Self::Behind(..) => "behind",
            Self::First => "first",
            Self::Changing => "changing",
            Self::Locked(_) => "locked",
            Self::NoBroker => "no_broker",
            Self::NotServed => "not_served",
            Self::Draining => "draining",
            Self::BrokersUnknown => "brokers_unknown",
        }
    }

    /// Returns a sentence for an operator. `queue` and `key` name the item in commands.
    pub fn sentence(&self, queue: &str, key: &str) -> String {
        match self {
            Self::NoRow(false) => "No row has this key: it was never added, or it was deleted; completed rows can also be deleted or \
                archived, as on_complete and keep_for of the queue say."
                .to_owned(),
            Self::NoRow(true) => "No row has this key, but the table has rows with NULL in a key column: no worker can get these until \
                the column has a value."
                .to_owned(),
            Self::UnknownState => "Its state column has a value that is no state (0 to 4), so no broker touches it: another program has \
                written it."
                .to_owned(),
            Self::Delayed(until, left) => format!(
                "It is delayed and becomes ready in {}, at {}.",
                short_duration(*left),
                moment(*until)
            ),
            Self::DelayOver(since) => format!(
                "Its delay is over since {}, but no broker has made it ready yet; a running broker does that within seconds.",
                short_duration(*since)
            ),
            Self::Leased(until, left) => format!(
                "Its lease lasts for {} more, until {}, unless the worker extends it; to take the item away from the worker: \
                 lease-broker cancel {queue} {} --reason TEXT",
                short_duration(*left),
                moment(*until),
                shell_word(key)
            ),
            Self::LeaseExpired(since) => format!(
                "Its lease has expired {} ago, but no broker has ended it yet; a running broker does that within seconds.",
                short_duration(*since)
            ),
            Self::Completed => "Completed items are not claimed again.".to_owned(),
            Self::Dead => format!(
                "Dead items are not claimed; to make the dead items of the queue ready again, those that died first: \
                 lease-broker redrive {queue} [--limit N]"
            ),
            Self::Behind(Ahead::Exactly(1), true) => {
                "1 ready item comes before it in the order of the queue.".to_owned()
            }
            Self::Behind(ahead, true) => {
                format!("{} ready items come before it in the order of the queue.", describe_ahead(*ahead))
            }
            Self::Behind(ahead, false) => format!(
                "{} other ready items would be claimed first now; the queue has no order.",
                describe_ahead(*ahead)
            ),
            Self::First => format!(
                "It is the first of the ready items, so the next claim gets it: if it stays ready, no worker claims from {queue}."
            ),
            Self::Changing => "A transaction was changing its row, perhaps a claim: run the command again.".to_owned(),
            Self::Locked(ForeignLock::File) => "Another connection has held the write lock of the SQLite file for a second, so no claim \
                can be written: end the transaction of that program."
                .to_owned(),
            Self::Locked(ForeignLock::Row(None)) => "A transaction of another program has held a lock on its row for a second, so claims \
                skip it or wait: end that transaction."
                .to_owned(),
            Self::Locked(ForeignLock::Row(Some(session))) => format!(
                "A transaction has held a lock on its row for a second, so claims skip it or wait: end the transaction of {}.",
                describe_session(session)
            ),
            Self::NoBroker => "No broker has announced itself to the database in the last 15 s, so no broker runs: start one with \
                lease-broker serve."
                .to_owned(),
            Self::NotServed => {
                format!("Brokers run on the database, but they do not serve {queue}: compare their configurations.")
            }
            Self::Draining => format!("Every broker that serves {queue} is stopping."),
            Self::BrokersUnknown => "It is not known if a broker runs, because the table lease_broker_instance does not exist or this \
                login may not read it."
                .to_owned(),
        }
    }
}

/// Returns the reasons why the item is not being claimed, the state first.
pub fn causes(facts: &ItemFacts, queue: &QueueSpec) -> Vec<Cause> {
    let Some(row) = &facts.row else {
        return vec![Cause::NoRow(facts.has_null_keys)];
    };
    let mut causes = vec![of_state(row, facts.now, queue)];
    let waits_for_broker = !matches!(row.state, None | Some(State::Completed | State::Dead));
    if waits_for_broker {
        causes.extend(facts.lock.clone().map(Cause::Locked));
        causes.extend(of_brokers(facts, queue));
        // A lock or a missing broker explains more.
        if causes.len() > 1 {
            causes.retain(|cause| !matches!(cause, Cause::First | Cause::Changing));
        }
    }
    causes
}

fn of_state(row: &ItemRow, now: i64, queue: &QueueSpec) -> Cause {
    let due = row.due_time.unwrap_or(now);
    let (left, since) = (duration_between(now, due), duration_between(due, now));
    match row.state {
        None => Cause::UnknownState,
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
        Some(Cause::NoBroker)
    } else if serving.peek().is_none() {
        Some(Cause::NotServed)
    } else {
        serving
            .all(|broker| broker.draining)
            .then_some(Cause::Draining)
    }
}

fn describe_session(session: &BlockingSession) -> String {
    let part = |name: &str, value: &Option<String>| {
        let value = value.as_deref().map(str::trim);
        let value = value.filter(|value| !value.is_empty());
        value.map(|value| format!(", {name} {}", text::visible(value)))
    };
    let parts = [
        Some(format!("session {}", session.id)),
        part("login", &session.login),
        part("host", &session.host),
        part("program", &session.program),
        session
            .since_request
            .map(|time| format!(", last request {} ago", short_duration(time))),
    ];
    parts.into_iter().flatten().collect()
}

fn describe_ahead(ahead: Ahead) -> String {
    match ahead {
        Ahead::Exactly(items) => grouped(items),
        Ahead::AtLeast(items) => format!("At least {}", grouped(items)),
    }
}

/// Writes a number with commas between groups of three digits.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes a word as a shell takes it.
fn shell_word(word: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "-_./:".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", text::visible(word).replace('\'', r"'\''"))
}

/// Writes a duration in whole seconds, or in milliseconds if it is shorter than a second.
pub(crate) fn short_duration(duration: Duration) -> String {
    let shown = match duration.as_secs() {
        0 => Duration::from_millis(u64::from(duration.subsec_millis())),
        seconds => Duration::from_secs(seconds),
    };
    humantime::format_duration(shown).to_string()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use crate::config::{Config, Sources};
    use crate::store::{Instance, SettingsHash};

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
                ahead,
            }),
            has_null_keys: false,
            lock: None,
            brokers: Some(vec![Instance {
                id: Uuid::nil(),
                version: String::new(),
                address: String::new(),
                draining: false,
                settings,
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
        assert_eq!(names(&item), ["behind", "locked"]);
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

    #[test]
    fn sentences_name_numbers_sessions_and_commands() {
        let sentence = |cause: Cause| cause.sentence("mail", "a 'b'");
        let behind = sentence(Cause::Behind(Ahead::AtLeast(1_000), true));
        assert!(
            behind.starts_with("At least 1,000 ready items come before"),
            "{behind}"
        );
        let session = BlockingSession {
            id: 61,
            login: Some("sa".to_owned()),
            host: Some("pc-7\u{1b}".to_owned()),
            program: None,
            since_request: Some(Duration::from_millis(185_500)),
        };
        let locked = sentence(Cause::Locked(ForeignLock::Row(Some(session))));
        let named = "of session 61, login sa, host pc-7\\u{1b}, last request 3m 5s ago.";
        assert!(locked.ends_with(named), "{locked}");
        let leased = sentence(Cause::Leased(NOW, Duration::from_secs(90)));
        let command = r"lease-broker cancel mail 'a '\''b'\''' --reason";
        assert!(leased.contains(command), "{leased}");
    }

    #[test]
    fn long_numbers_have_commas() {
        let numbers = [1, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(numbers, ["1", "999", "1,000", "1,234,567"]);
    }
}
