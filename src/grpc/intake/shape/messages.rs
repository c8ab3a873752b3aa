//! The messages that a request of the API can contain, as the check of their shape needs them.
//!
//! A unit test compares them with the descriptors of the API.

use prost::encoding::WireType;

use crate::security::Rpc;

/// The number of lists in all messages of a request. Each has an index below.
pub(super) const LISTS: usize = 3;
/// The list of the request itself.
const ITEMS: usize = 0;
/// The follow-ups of all completions.
const FOLLOW_UPS: usize = 1;
/// The groups of a claim.
const GROUPS: usize = 2;

/// A message type.
pub(crate) struct Schema {
    pub(super) fields: &'static [Field],
    /// The size of the decoded message without its texts and lists.
    pub(super) decoded_bytes: usize,
}

/// A field of a message.
pub(super) struct Field {
    pub(super) number: u32,
    /// The path of the field, as an error names it.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

/// The type of a field.
pub(super) enum Kind {
    /// An integer, a truth value or a constant.
    Number,
    Double,
    /// A text that names something.
    Name,
    /// Any other text.
    Text,
    Bytes,
    Message(&'static Schema),
    /// A list of texts that name something, and its index.
    Names(usize),
    /// A list of other texts, and its index.
    Texts(usize),
    /// A list of messages, and its index.
    List(usize, &'static Schema),
    /// A map with names as keys. The message has the key and the value.
    Map(&'static Schema),
}

impl Kind {
    /// Returns whether a message can have several fields of this kind with one number.
    pub(super) fn is_list(&self) -> bool {
        matches!(
            self,
            Self::Names(_) | Self::Texts(_) | Self::List(..) | Self::Map(_)
        )
    }

    pub(super) fn wire_type(&self) -> WireType {
        match self {
            Self::Number => WireType::Varint,
            Self::Double => WireType::SixtyFourBit,
            _ => WireType::LengthDelimited,
        }
    }
}

impl Schema {
    pub(super) fn field(&self, number: u32) -> Option<&Field> {
        self.fields.iter().find(|field| field.number == number)
    }
}

const fn field(number: u32, name: &'static str, kind: Kind) -> Field {
    Field { number, name, kind }
}

macro_rules! schema {
    ($name:ident, $message:ty, $($number:literal $field:literal $kind:expr),* $(,)?) => {
        static $name: Schema = Schema {
            fields: &[$(field($number, $field, $kind)),*],
            decoded_bytes: size_of::<$message>(),
        };
    };
}

use Kind::{Bytes, Double, List, Map, Message, Name, Names, Number, Text, Texts};
use lease_broker_proto as proto;
use prost::Message as _;

macro_rules! requests {
    ($($rpc:ident($request:ident) $($number:literal $field:literal $kind:expr),*;)*) => {
        /// Returns the message type of an rpc.
        pub(crate) fn message_of(rpc: Rpc) -> &'static Schema {
            match rpc {
                $(Rpc::$rpc => {
                    schema!(REQUEST, proto::$request, $($number $field $kind),*);
                    &REQUEST
                })*
            }
        }

        /// Decodes a request. Returns false if it cannot be decoded.
        pub(crate) fn decodes(rpc: Rpc, request: &[u8]) -> bool {
            match rpc {
                $(Rpc::$rpc => proto::$request::decode(request).is_ok(),)*
            }
        }
    };
}

requests! {
    ClaimBatch(ClaimBatchRequest)
        1 "queue" Name, 2 "worker_id" Name, 3 "max_items" Number, 4 "lease_duration" Message(&TIME),
        5 "wait_timeout" Message(&TIME), 6 "request_id" Name, 7 "max_bytes" Number, 8 "groups" Texts(GROUPS),
        9 "max_run" Number;
    Heartbeat(HeartbeatRequest) 1 "queue" Name, 2 "renewals" List(ITEMS, &RENEWAL), 3 "lease_duration" Message(&TIME);
    Complete(CompleteRequest) 1 "queue" Name, 2 "completions" List(ITEMS, &COMPLETION), 3 "next" Message(&NEXT_CLAIM);
    Fail(FailRequest) 1 "queue" Name, 2 "failures" List(ITEMS, &FAILURE), 3 "next" Message(&NEXT_CLAIM);
    Release(ReleaseRequest) 1 "queue" Name, 2 "releases" List(ITEMS, &RELEASED);
    ReleaseClaims(ReleaseClaimsRequest) 1 "queue" Name, 2 "worker_id" Name, 3 "request_ids" Names(ITEMS);
    Wake(WakeRequest) 1 "queue" Name;
    Enqueue(EnqueueRequest) 1 "queue" Name, 2 "items" List(ITEMS, &NEW_ITEM), 3 "request_id" Name;
    CancelLeases(CancelLeasesRequest)
        1 "queue" Name, 3 "delay" Message(&TIME), 4 "dead_letter" Number, 5 "reason" Text,
        6 "cancellations" List(ITEMS, &CANCELLATION);
    ListQueues(ListQueuesRequest) 1 "queues" Names(ITEMS), 2 "exact" Number;
    ListItems(ListItemsRequest)
        1 "queue" Name, 2 "state" Number, 3 "filter" Message(&FILTER), 4 "page_size" Number, 5 "page_token" Text,
        6 "newest_first" Number;
    GetItem(GetItemRequest) 1 "queue" Name, 2 "key" Text;
    PauseQueue(PauseQueueRequest) 1 "queue" Name, 2 "mode" Number, 3 "reason" Text, 4 "until" Message(&TIME);
    ResumeQueue(ResumeQueueRequest) 1 "queue" Name, 2 "reason" Text;
    SetQueueLimits(SetQueueLimitsRequest) 1 "queue" Name, 2 "limits" Message(&QUEUE_LIMITS), 3 "reason" Text;
    ListGroups(ListGroupsRequest) 1 "queue" Name, 2 "state" Number, 3 "page_size" Number, 4 "page_token" Text;
    PauseGroup(PauseGroupRequest) 1 "queue" Name, 2 "group" Text, 3 "reason" Text, 4 "until" Message(&TIME);
    ResumeGroup(ResumeGroupRequest) 1 "queue" Name, 2 "group" Text, 3 "reason" Text;
    StartOperation(StartOperationRequest)
        1 "queue" Name, 2 "filter" Message(&FILTER), 3 "redrive" Message(&REDRIVE), 4 "cancel_leases" Message(&CANCEL_HELD),
        5 "purge" Message(&PURGE), 6 "limit" Number, 7 "max_per_second" Number, 8 "dry_run" Number, 9 "request_id" Name,
        10 "reason" Text;
    GetOperation(GetOperationRequest) 1 "operation_id" Name;
    ListOperations(ListOperationsRequest) 1 "queue" Name, 2 "running_only" Number, 3 "page_size" Number, 4 "page_token" Text;
    CancelOperation(CancelOperationRequest) 1 "operation_id" Name, 2 "reason" Text;
    ListBrokers(ListBrokersRequest);
    DrainBroker(DrainBrokerRequest) 1 "broker_id" Name, 2 "reason" Text;
}

schema!(TIME, prost_types::Duration, 1 "seconds" Number, 2 "nanos" Number);
schema!(VALUE, proto::ColumnValue,
    1 "bool_value" Number, 2 "int64_value" Number, 3 "double_value" Double, 4 "string_value" Text,
    5 "bytes_value" Bytes, 6 "timestamp_value" Message(&TIME), 7 "decimal_value" Text, 8 "null_value" Number);
schema!(COLUMN, (String, proto::ColumnValue), 1 "columns" Name, 2 "columns" Message(&VALUE));
schema!(RENEWAL, proto::Renewal, 1 "renewals.lease_id" Text, 2 "renewals.checkpoint" Bytes);
schema!(NEXT_CLAIM, proto::NextClaim,
    1 "next.worker_id" Name, 2 "next.max_items" Number, 3 "next.lease_duration" Message(&TIME),
    4 "next.request_id" Name, 5 "next.max_bytes" Number, 6 "next.groups" Texts(GROUPS),
    7 "next.max_run" Number);
schema!(COMPLETION, proto::Completion,
    1 "completions.lease_id" Text, 2 "completions.follow_ups" List(FOLLOW_UPS, &FOLLOW_UP),
    3 "completions.columns" Map(&COLUMN));
schema!(FOLLOW_UP, proto::FollowUp,
    1 "completions.follow_ups.queue" Name, 2 "completions.follow_ups.item" Message(&FOLLOW_UP_ITEM));
schema!(FOLLOW_UP_ITEM, proto::NewItem,
    1 "completions.follow_ups.item.columns" Map(&COLUMN), 2 "completions.follow_ups.item.delay" Message(&TIME),
    3 "completions.follow_ups.item.trace_parent" Text);
schema!(FAILURE, proto::Failure,
    1 "failures.lease_id" Text, 2 "failures.error_message" Text, 3 "failures.retry_delay" Message(&TIME),
    4 "failures.dead_letter" Number, 5 "failures.columns" Map(&COLUMN), 6 "failures.checkpoint" Bytes);
schema!(RELEASED, proto::Release,
    1 "releases.lease_id" Text, 2 "releases.delay" Message(&TIME), 3 "releases.checkpoint" Bytes);
schema!(CANCELLATION, proto::Cancellation, 1 "cancellations.key" Text, 2 "cancellations.fencing_token" Number);
schema!(FILTER, proto::ItemFilter,
    1 "filter.keys" Texts(ITEMS), 2 "filter.owner" Name, 3 "filter.error_contains" Text, 4 "filter.state_since" Message(&TIME),
    5 "filter.state_before" Message(&TIME), 6 "filter.min_attempt" Number, 7 "filter.columns" Map(&COLUMN));
schema!(QUEUE_LIMITS, proto::QueueLimits,
    1 "limits.max_leases" Number, 2 "limits.rate" Message(&QUEUE_RATE), 3 "limits.group_max_leases" Number,
    4 "limits.group_rate" Message(&GROUP_RATE));
schema!(GROUP_RATE, proto::QueueRate,
    1 "limits.group_rate.items" Number, 2 "limits.group_rate.per" Message(&TIME), 3 "limits.group_rate.burst" Number);
schema!(QUEUE_RATE, proto::QueueRate,
    1 "limits.rate.items" Number, 2 "limits.rate.per" Message(&TIME), 3 "limits.rate.burst" Number);
schema!(REDRIVE, proto::Redrive,
    1 "redrive.delay" Message(&TIME), 2 "redrive.keep_attempts" Number, 3 "redrive.clear_checkpoint" Number);
schema!(CANCEL_HELD, proto::CancelHeld, 1 "cancel_leases.delay" Message(&TIME), 2 "cancel_leases.dead_letter" Number);
schema!(PURGE, proto::Purge, 1 "purge.state" Number);
schema!(NEW_ITEM, proto::NewItem,
    1 "items.columns" Map(&COLUMN), 2 "items.delay" Message(&TIME), 3 "items.trace_parent" Text);
