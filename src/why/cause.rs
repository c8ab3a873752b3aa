//! One reason why an item is not being claimed: its name for programs, and its sentence for an operator.

use std::time::Duration;

use lease_broker_model::key::rfc3339_of_millis as moment;
use lease_broker_model::text;
use lease_broker_store::{Ahead, BlockingSession, ForeignLock, QueuePause};

use super::group_cause::{GroupCause, details_of_pause};

/// A reason why an item is not being claimed.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// The table has no row with this key. True: it has rows with NULL in a key column, which have no key.
    NoRow(bool),
    /// The state column has a value that is no state.
    UnknownState,
    /// The item is delayed or leased, and has no due time at which a broker would make it ready.
    NoDueTime,
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
    /// The item is ready, and an operator has paused the queue.
    Paused(QueuePause),
    /// The item is ready, and its group gives no lease.
    Group(GroupCause),
    /// The item is ready, and the queue has as many leases as it may have.
    MaxLeases,
    /// The item is ready, and the rate of the queue is used up for this time.
    Rate(Duration),
    /// The item is ready, and its last lease expired.
    Suspect,
    /// The item was ready, and another transaction was changing its row.
    Changing,
    /// Another program has locked the row or the file.
    Locked(ForeignLock),
    /// No broker has announced itself lately.
    NoBroker {
        /// Whether another program has locked the database, so that no broker can announce itself.
        cannot_write: bool,
    },
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
            Self::NoDueTime => "no_due_time",
            Self::Delayed(..) => "delayed",
            Self::DelayOver(_) => "delay_over",
            Self::Leased(..) => "leased",
            Self::LeaseExpired(_) => "lease_expired",
            Self::Completed => "completed",
            Self::Dead => "dead",
            Self::Behind(..) => "behind",
            Self::First => "first",
            Self::Paused(_) => "paused",
            Self::Group(cause) => cause.name(),
            Self::MaxLeases => "max_leases",
            Self::Rate(_) => "rate",
            Self::Suspect => "suspect",
            Self::Changing => "changing",
            Self::Locked(_) => "locked",
            Self::NoBroker { .. } => "no_broker",
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
            Self::NoDueTime => "It is delayed or leased, but has no due time, so no broker ever makes it ready: another program has \
                written the row. Give it a due time, or the state ready."
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
                text::shell_word(key)
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
                "It is the first of the ready items, so the next claim gets it: if it stays ready, no worker claims from {queue}, or a trigger \
                 or a constraint of the table refuses the lease."
            ),
            Self::Paused(pause) => format!(
                "The queue is paused{}; to end the pause: lease-broker resume {queue}",
                details_of_pause(pause.until, &pause.actor, &pause.reason)
            ),
            Self::Group(cause) => cause.sentence(queue),
            Self::MaxLeases => format!(
                "The queue has as many leases as it may have: lease-broker limits {queue}"
            ),
            Self::Rate(wait) => format!(
                "The rate of the queue is used up for {}: lease-broker limits {queue}",
                short_duration(*wait)
            ),
            Self::Suspect => "Its last lease expired, so it may have ended the process of its worker: only a worker that holds no other \
                lease gets it."
                .to_owned(),
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
            Self::NoBroker { cannot_write: true } => "No broker has announced itself to the database in the last 15 s. One may run all \
                the same: while the file is locked, it cannot announce itself."
                .to_owned(),
            Self::NoBroker { cannot_write: false } => "No broker has announced itself to the database in the last 15 s, so no broker runs: start one with \
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
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
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
    use super::*;

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
        let leased = sentence(Cause::Leased(0, Duration::from_secs(90)));
        let command = r"lease-broker cancel mail 'a '\''b'\''' --reason";
        assert!(leased.contains(command), "{leased}");
    }

    #[test]
    fn locked_file_leaves_open_if_a_broker_runs() {
        let sentence = |cannot_write| Cause::NoBroker { cannot_write }.sentence("mail", "1");
        assert!(sentence(false).contains("so no broker runs"));
        assert!(sentence(true).contains("may run all the same"));
    }

    #[test]
    fn long_numbers_have_commas() {
        let numbers = [1, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(numbers, ["1", "999", "1,000", "1,234,567"]);
    }
}
