//! Rights: the roles that a caller has on queues, and the roles that each rpc needs.

use lease_broker_model::named_enum;

use super::patterns::fits;
use crate::config::Role;

named_enum! {
    /// An rpc of the API, with its name there.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Rpc {
        /// Leases items.
        ClaimBatch = "ClaimBatch",
        /// Extends leases.
        Heartbeat = "Heartbeat",
        /// Ends leases whose work is done.
        Complete = "Complete",
        /// Ends leases whose work failed.
        Fail = "Fail",
        /// Ends leases whose work was not done.
        Release = "Release",
        /// Releases every lease of claims.
        ReleaseClaims = "ReleaseClaims",
        /// Wakes waiting claims.
        Wake = "Wake",
        /// Adds items. A follow-up of Complete needs the same roles on its own queue.
        Enqueue = "Enqueue",
        /// Takes leases away from their workers.
        CancelLeases = "CancelLeases",
        /// Lists queues with their state.
        ListQueues = "ListQueues",
        /// Lists items.
        ListItems = "ListItems",
        /// Returns one item.
        GetItem = "GetItem",
        /// Pauses a queue.
        PauseQueue = "PauseQueue",
        /// Ends the pause of a queue.
        ResumeQueue = "ResumeQueue",
        /// Changes limits of a queue.
        SetQueueLimits = "SetQueueLimits",
        /// Lists groups.
        ListGroups = "ListGroups",
        /// Pauses a group.
        PauseGroup = "PauseGroup",
        /// Ends the pause of a group.
        ResumeGroup = "ResumeGroup",
        /// Starts an operation on many items. A purge needs the role admin.
        StartOperation = "StartOperation",
        /// Returns an operation.
        GetOperation = "GetOperation",
        /// Lists operations.
        ListOperations = "ListOperations",
        /// Stops an operation.
        CancelOperation = "CancelOperation",
        /// Lists broker processes.
        ListBrokers = "ListBrokers",
        /// Tells a broker process to stop.
        DrainBroker = "DrainBroker",
    }
}

/// A service of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RpcService {
    /// `LeaseService`, for workers and producers.
    Leases,
    /// `AdminService`, for operators.
    Admin,
}

impl Rpc {
    /// Returns the service that has the rpc.
    pub const fn service(self) -> RpcService {
        match self {
            Self::CancelLeases
            | Self::ListQueues
            | Self::ListItems
            | Self::GetItem
            | Self::PauseQueue
            | Self::ResumeQueue
            | Self::SetQueueLimits
            | Self::ListGroups
            | Self::PauseGroup
            | Self::ResumeGroup
            | Self::StartOperation
            | Self::GetOperation
            | Self::ListOperations
            | Self::CancelOperation
            | Self::ListBrokers
            | Self::DrainBroker => RpcService::Admin,
            _ => RpcService::Leases,
        }
    }

    /// Returns whether the rpc ends or extends leases. Such calls are served also under overload, because they make place.
    pub const fn is_settlement(self) -> bool {
        matches!(
            self,
            Self::Heartbeat | Self::Complete | Self::Fail | Self::Release | Self::ReleaseClaims
        )
    }

    /// Returns the roles of which a caller needs one.
    pub const fn roles(self) -> &'static [Role] {
        use Role::{Admin, Observer, Operator, Producer, Worker};
        match self {
            Self::ClaimBatch
            | Self::Heartbeat
            | Self::Complete
            | Self::Fail
            | Self::Release
            | Self::ReleaseClaims => &[Worker, Admin],
            Self::CancelLeases
            | Self::PauseQueue
            | Self::ResumeQueue
            | Self::SetQueueLimits
            | Self::PauseGroup
            | Self::ResumeGroup
            | Self::StartOperation
            | Self::CancelOperation => &[Operator, Admin],
            Self::ListQueues
            | Self::ListItems
            | Self::GetItem
            | Self::ListGroups
            | Self::GetOperation
            | Self::ListOperations
            | Self::ListBrokers => &[Observer, Operator, Admin],
            Self::DrainBroker => &[Admin],
            Self::Wake => &[Worker, Producer, Admin],
            Self::Enqueue => &[Producer, Admin],
        }
    }
}

/// Roles, each with patterns for the queues on which the caller has it.
#[derive(Clone, Debug, Default)]
pub struct Rights(Vec<(Role, Vec<String>)>);

impl Rights {
    /// Creates the rights with these roles on the queues whose names fit the patterns.
    pub fn new(roles: impl IntoIterator<Item = (Role, Vec<String>)>) -> Self {
        let roles = roles.into_iter();
        Self(roles.filter(|(_, patterns)| !patterns.is_empty()).collect())
    }

    /// Returns whether there is no role on any queue.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the caller may send the rpc for this queue. The queue need not exist.
    pub fn allow(&self, rpc: Rpc, queue: &str) -> bool {
        self.roles_on(queue).any(|role| rpc.roles().contains(&role))
    }

    /// Returns whether the caller may delete items of this queue, besides starting operations on it.
    pub fn allow_purge(&self, queue: &str) -> bool {
        self.roles_on(queue).any(|role| role == Role::Admin)
    }

    /// Returns whether there can be a queue for which the caller may send the rpc.
    pub fn allow_somewhere(&self, rpc: Rpc) -> bool {
        let mut roles = self.0.iter();
        roles.any(|(role, _)| rpc.roles().contains(role))
    }

    /// Returns whether these rights allow every rpc that others allow, on all of their queues.
    pub(super) fn include(&self, others: &Self) -> bool {
        // A pattern that fits another pattern fits whatever that one fits: only a `*` fits a `*`.
        let has = |role, pattern: &str| {
            let mut roles = self.0.iter();
            roles.any(|(own, patterns)| {
                includes(*own, role) && patterns.iter().any(|wide| fits(wide, pattern))
            })
        };
        let mut others = others.0.iter();
        others.all(|(role, patterns)| patterns.iter().all(|pattern| has(*role, pattern)))
    }

    /// Returns the roles on a queue.
    pub fn roles_on(&self, queue: &str) -> impl Iterator<Item = Role> {
        let roles = self.0.iter();
        roles
            .filter(move |(_, patterns)| patterns.iter().any(|pattern| fits(pattern, queue)))
            .map(|(role, _)| *role)
    }
}

/// Returns whether a role allows every rpc that another role allows.
const fn includes(role: Role, other: Role) -> bool {
    matches!(
        (role, other),
        (Role::Admin, _)
            | (Role::Operator, Role::Operator | Role::Observer)
            | (Role::Observer, Role::Observer)
            | (Role::Worker, Role::Worker)
            | (Role::Producer, Role::Producer)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_includes_another_if_each_of_its_rpcs_has_both() {
        for role in Role::ALL {
            for other in Role::ALL {
                let mut rpcs = Rpc::ALL.iter().map(|rpc| rpc.roles());
                let all = rpcs.all(|roles| !roles.contains(&other) || roles.contains(&role));
                assert_eq!(includes(role, other), all, "{role:?} {other:?}");
            }
        }
    }

    #[test]
    fn role_counts_only_for_its_queues() {
        let rights = Rights::new([
            (Role::Worker, vec!["rain*".to_owned()]),
            (Role::Producer, vec!["transfer".to_owned()]),
            (Role::Admin, Vec::new()),
        ]);
        assert!(rights.allow(Rpc::ClaimBatch, "rainfall"));
        assert!(!rights.allow(Rpc::ClaimBatch, "transfer"));
        assert!(rights.allow(Rpc::Enqueue, "transfer"));
        assert!(!rights.allow(Rpc::Enqueue, "rainfall"));
        assert!(!rights.allow_somewhere(Rpc::CancelLeases));
    }

    #[test]
    fn wider_rights_include_narrower_ones() {
        let worker = |patterns: &[&str]| {
            let patterns = patterns.iter().map(|pattern| (*pattern).to_owned());
            Rights::new([(Role::Worker, patterns.collect())])
        };
        for (wide, narrow, includes) in [
            (&["a", "b"][..], &["b"][..], true),
            (&["*"], &["a", "b*"], true),
            (&["rain*"], &["rain*", "rainfall*"], true),
            (&["rain"], &["rain*"], false),
            (&["a*"], &["*"], false),
            (&["a*"], &["b", "a"], false),
            (&[], &["a"], false),
        ] {
            assert_eq!(worker(wide).include(&worker(narrow)), includes, "{wide:?}");
        }
        let producer = Rights::new([(Role::Producer, vec!["*".to_owned()])]);
        assert!(!producer.include(&worker(&["a"])));
    }
}
