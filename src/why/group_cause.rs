//! One reason why the group of a ready item gives no lease.

use lease_broker_model::group::Groups;
use lease_broker_model::key::{Key, rfc3339_of_millis as moment};
use lease_broker_model::queue::QueueSpec;
use lease_broker_model::text;
use lease_broker_store::{GroupPause, GroupState, ListedGroup};

/// A reason why the group of a ready item gives no lease. Times are in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupCause {
    /// An operator has paused the group.
    Paused(GroupPause),
    /// The dead item with this key comes before it, and halts the group.
    Halted(Key),
    /// The item with this key comes before it, and is delayed until this time. `None`: it has no due time.
    Delayed(Key, Option<i64>),
    /// The group keeps an order, and its item with this key is leased until this time. `None`: the lease has no end.
    Leased(Key, Option<i64>),
    /// The group has this number of leases, as many as it may have.
    Full(usize),
}

impl GroupCause {
    /// Finds the reason in the state of the group. `None`: the group can give an item, as far as its rate allows.
    pub(super) fn of(group: &ListedGroup, queue: &QueueSpec) -> Option<Self> {
        if let Some(pause) = &group.pause {
            return Some(Self::Paused(pause.clone()));
        }
        let head = group.head.as_ref()?;
        let key = head.key.clone();
        let is_strict = queue.groups.as_ref().is_some_and(Groups::is_strict);
        match group.state {
            GroupState::Halted => Some(Self::Halted(key)),
            GroupState::Waiting => Some(Self::Delayed(key, head.due_time)),
            GroupState::Leased if is_strict => Some(Self::Leased(key, head.due_time)),
            GroupState::Leased => Some(Self::Full(group.leases)),
            GroupState::Ready | GroupState::Paused => None,
        }
    }

    /// Returns the cause's name, for programs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Paused(_) => "group_paused",
            Self::Halted(_) => "group_halted",
            Self::Delayed(..) => "group_delayed",
            Self::Leased(..) => "group_leased",
            Self::Full(_) => "group_full",
        }
    }

    /// Returns a sentence for an operator. `queue` names the queue in commands.
    pub(super) fn sentence(&self, queue: &str) -> String {
        match self {
            Self::Paused(pause) => format!(
                "Its group is paused{}; to end the pause: lease-broker groups resume {queue} {}",
                details_of_pause(pause.until, &pause.actor, &pause.reason),
                text::shell_word(&pause.group.to_string())
            ),
            Self::Halted(key) => format!(
                "The dead item {} comes before it and halts its group; correct and redrive that item, or delete it: \
                 lease-broker redrive {queue} {}",
                text::visible(&key.to_string()),
                text::shell_word(&key.to_string())
            ),
            Self::Delayed(key, until) => format!(
                "Item {} of its group comes before it and is delayed{}.",
                text::visible(&key.to_string()),
                until_time(*until)
            ),
            Self::Leased(key, until) => format!(
                "Item {} of its group is leased{}, and the items of the group go one after the other.",
                text::visible(&key.to_string()),
                until_time(*until)
            ),
            Self::Full(leases) => format!(
                "Its group has {leases} leases, as many as it may have: lease-broker limits {queue}"
            ),
        }
    }
}

/// Describes a pause: its end, its caller and its reason, as far as they are known.
pub(super) fn details_of_pause(until: Option<i64>, actor: &str, reason: &str) -> String {
    let by = (!actor.is_empty()).then(|| format!(" by {actor}"));
    let reason = (!reason.is_empty()).then(|| format!(" ({reason})"));
    until_time(until) + &by.unwrap_or_default() + &reason.unwrap_or_default()
}

fn until_time(until: Option<i64>) -> String {
    until.map_or_else(String::new, |until| format!(" until {}", moment(until)))
}
