//! Rights: the roles that a caller has on queues, and the roles that each rpc needs.

use super::patterns::fits;
use crate::config::Role;

/// Calls a macro with the table of the rpcs: their documentation, name, method, messages, and the roles of which a caller needs one.
macro_rules! rpcs {
    ($use:ident) => {
        $use! {
            Leases {
                /// Leases items.
                ClaimBatch claim_batch(ClaimBatchRequest) -> ClaimBatchResponse [Worker, Admin];
                /// Extends leases.
                Heartbeat heartbeat(HeartbeatRequest) -> HeartbeatResponse [Worker, Admin];
                /// Ends leases whose work is done.
                Complete complete(CompleteRequest) -> CompleteResponse [Worker, Admin];
                /// Ends leases whose work failed.
                Fail fail(FailRequest) -> FailResponse [Worker, Admin];
                /// Ends leases whose work was not done.
                Release release(ReleaseRequest) -> ReleaseResponse [Worker, Admin];
                /// Releases every lease of claims.
                ReleaseClaims release_claims(ReleaseClaimsRequest) -> ReleaseClaimsResponse [Worker, Admin];
                /// Wakes waiting claims.
                Wake wake(WakeRequest) -> WakeResponse [Worker, Producer, Admin];
                /// Adds items. A follow-up of Complete needs the same roles on its own queue.
                Enqueue enqueue(EnqueueRequest) -> EnqueueResponse [Producer, Admin];
            }
            Admin {
                /// Takes leases away from their workers.
                CancelLeases cancel_leases(CancelLeasesRequest) -> CancelLeasesResponse [Operator, Admin];
                /// Lists queues with their state.
                ListQueues list_queues(ListQueuesRequest) -> ListQueuesResponse [Observer, Operator, Admin];
                /// Lists items.
                ListItems list_items(ListItemsRequest) -> ListItemsResponse [Observer, Operator, Admin];
                /// Returns one item.
                GetItem get_item(GetItemRequest) -> GetItemResponse [Observer, Operator, Admin];
                /// Pauses a queue.
                PauseQueue pause_queue(PauseQueueRequest) -> PauseQueueResponse [Operator, Admin];
                /// Ends the pause of a queue.
                ResumeQueue resume_queue(ResumeQueueRequest) -> ResumeQueueResponse [Operator, Admin];
                /// Changes limits of a queue.
                SetQueueLimits set_queue_limits(SetQueueLimitsRequest) -> SetQueueLimitsResponse [Operator, Admin];
                /// Lists groups.
                ListGroups list_groups(ListGroupsRequest) -> ListGroupsResponse [Observer, Operator, Admin];
                /// Pauses a group.
                PauseGroup pause_group(PauseGroupRequest) -> PauseGroupResponse [Operator, Admin];
                /// Ends the pause of a group.
                ResumeGroup resume_group(ResumeGroupRequest) -> ResumeGroupResponse [Operator, Admin];
                /// Starts an operation on many items. A purge needs the role admin.
                StartOperation start_operation(StartOperationRequest) -> StartOperationResponse [Operator, Admin];
                /// Returns an operation.
                GetOperation get_operation(GetOperationRequest) -> GetOperationResponse [Observer, Operator, Admin];
                /// Lists operations.
                ListOperations list_operations(ListOperationsRequest) -> ListOperationsResponse [Observer, Operator, Admin];
                /// Stops an operation.
                CancelOperation cancel_operation(CancelOperationRequest) -> CancelOperationResponse [Operator, Admin];
                /// Lists broker processes.
                ListBrokers list_brokers(ListBrokersRequest) -> ListBrokersResponse [Observer, Operator, Admin];
                /// Tells a broker process to stop.
                DrainBroker drain_broker(DrainBrokerRequest) -> DrainBrokerResponse [Admin];
            }
        }
    };
}
pub(crate) use rpcs;

macro_rules! declare {
    ($($service:ident {
        $($(#[$doc:meta])* $rpc:ident $method:ident($request:ident) -> $response:ident [$($role:ident),*];)*
    })*) => {
        /// An rpc of the API, with its name there.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Rpc {
            $($($(#[$doc])* $rpc,)*)*
        }

        impl Rpc {
            /// Every rpc, in the order of declaration.
            pub const ALL: [Self; [$($(Self::$rpc),*),*].len()] = [$($(Self::$rpc),*),*];

            /// Returns the name of the rpc.
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Self::$rpc => stringify!($rpc),)*)*
                }
            }

            /// Returns the service that has the rpc.
            pub const fn service(self) -> RpcService {
                match self {
                    $($(Self::$rpc)|* => RpcService::$service,)*
                }
            }

            /// Returns the roles of which a caller needs one.
            pub const fn roles(self) -> &'static [Role] {
                match self {
                    $($(Self::$rpc => &[$(Role::$role),*],)*)*
                }
            }
        }
    };
}

rpcs!(declare);

/// A service of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RpcService {
    /// `LeaseService`, for workers and producers.
    Leases,
    /// `AdminService`, for operators.
    Admin,
}

impl Rpc {
    /// Returns whether the rpc ends or extends leases. Such calls are served also under overload, because they make place.
    pub const fn is_settlement(self) -> bool {
        matches!(
            self,
            Self::Heartbeat | Self::Complete | Self::Fail | Self::Release | Self::ReleaseClaims
        )
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
fn includes(role: Role, other: Role) -> bool {
    let mut rpcs = Rpc::ALL.iter().map(|rpc| rpc.roles());
    rpcs.all(|roles| !roles.contains(&other) || roles.contains(&role))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_includes_every_role_and_operator_the_observer() {
        for (role, included) in [
            (Role::Admin, &Role::ALL[..]),
            (Role::Operator, &[Role::Observer, Role::Operator]),
            (Role::Worker, &[Role::Worker]),
            (Role::Producer, &[Role::Producer]),
            (Role::Observer, &[Role::Observer]),
        ] {
            let all = Role::ALL.into_iter().filter(|other| includes(role, *other));
            assert!(all.eq(included.iter().copied()), "{role:?}");
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
