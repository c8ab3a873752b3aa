//! The declaration of every instrument: name, unit, description.
//!
//! Names follow the OpenTelemetry semantic conventions, version 1.42.0: <https://opentelemetry.io/schemas/1.42.0>.
//! Prometheus shows them with `_` in place of dots, and appends the unit and, for a counter, `_total`. A name therefore
//! contains neither.

use lease_broker_model::item_state::State;
use lease_broker_model::lease_trace::ReleaseReason;
use lease_broker_store::{GroupState, StoreError};
use opentelemetry::metrics::{AsyncInstrument, Histogram, Meter};

use self::Series::{Process, Queue, QueueIfFull};
use crate::broker::{HeldBack, LeaseCall, LeaseEnd, Operation};

/// An instrument's name, unit and description, and its series.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instrument {
    pub(super) name: &'static str,
    /// A unit of UCUM, such as `s` and `By`, or an annotation such as `{item}`. `""`: none.
    pub(super) unit: &'static str,
    pub(super) description: &'static str,
    pub(super) series: Series,
}

/// The series of an instrument. The number of label sets that the SDK keeps follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Series {
    /// It is not about queues, and has few series.
    Process,
    /// Each queue has at most this number of series.
    Queue(usize),
    /// The same with `telemetry.per_queue = "full"`. Otherwise all queues together have them, without the label of the queue.
    QueueIfFull(usize),
}

impl Instrument {
    /// Creates a histogram of seconds.
    pub(super) fn histogram(self, meter: &Meter, boundaries: &[f64]) -> Histogram<f64> {
        meter
            .f64_histogram(self.name)
            .with_unit(self.unit)
            .with_description(self.description)
            .with_boundaries(boundaries.to_vec())
            .build()
    }
}

macro_rules! observed {
    ($($(#[$document:meta])* $name:ident: $builder:ident of $number:ty;)*) => {
        impl Instrument {$(
            $(#[$document])*
            pub(super) fn $name(
                self,
                meter: &Meter,
                read: impl Fn(&dyn AsyncInstrument<$number>) + Send + Sync + 'static,
            ) {
                let instrument = meter.$builder(self.name).with_callback(read);
                let instrument = instrument.with_description(self.description);
                instrument.with_unit(self.unit).build();
            }
        )*}
    };
}

observed! {
    /// Registers a counter that `read` observes at each collection.
    counter: u64_observable_counter of u64;
    /// Registers a gauge of whole numbers that `read` observes at each collection.
    gauge: u64_observable_gauge of u64;
    /// Registers a gauge of seconds that `read` observes at each collection.
    seconds: f64_observable_gauge of f64;
}

macro_rules! instruments {
    ($($constant:ident $name:literal $unit:literal $series:expr; $description:literal)*) => {
        $(
            pub(super) const $constant: Instrument = Instrument {
                name: $name,
                unit: $unit,
                description: $description,
                series: $series,
            };
        )*

        /// Every instrument.
        pub(super) const ALL: &[Instrument] = &[$($constant),*];
    };
}

instruments! {
    LEASES_CLAIMED "lease_broker.lease.claimed" "{lease}" Queue(1); "Leases that claims got"
    LEASES_ENDED "lease_broker.lease.ended" "{lease}" Queue(LeaseEnd::ALL.len()); "Leases that ended, by the way in which they ended"
    LEASES_EXTENDED "lease_broker.lease.extended" "{lease}" QueueIfFull(1); "Leases that heartbeats extended"
    LEASE_HELD "lease_broker.lease.held.duration" "s" QueueIfFull(LeaseEnd::ALL.len()); "Time from a lease's claim to its end"
    LEASES_UNDELIVERED "lease_broker.lease.undelivered" "{lease}" Queue(ReleaseReason::ALL.len()); "Leases that the broker released because no worker received them"
    SETTLEMENTS_REPEATED "lease_broker.settlement.repeated" "{settlement}" QueueIfFull(LeaseCall::ALL.len()); "Settlements that an earlier one of the same kind had made"
    SETTLEMENTS_REFUSED "lease_broker.settlement.refused" "{settlement}" QueueIfFull(3 * LeaseCall::ALL.len()); "Settlements and heartbeats of leases that are not held, or that the database refused, and completions that found no row"
    UNKNOWN_LEASE_IDS "lease_broker.lease_id.unknown" "{id}" QueueIfFull(1); "Lease ids that the brokers of this database never gave for the queue"
    ITEMS_ENQUEUED "lease_broker.item.enqueued" "{item}" Queue(1); "Items that clients added"
    ITEMS_PROMOTED "lease_broker.item.promoted" "{item}" QueueIfFull(1); "Delayed items that the reaper made ready"
    ITEMS_PURGED "lease_broker.item.purged" "{item}" QueueIfFull(1); "Completed and dead items, and archived rows, that this broker deleted because of keep_for"
    ITEMS_DEAD "lease_broker.item.dead" "{item}" Queue(4); "Items that became dead, by cause"
    ITEM_WAIT "lease_broker.item.wait.duration" "s" QueueIfFull(1); "Time from when an item became ready to its claim"
    REAP_DELAY "lease_broker.reap.delay" "s" QueueIfFull(1); "Time from a lease's expiry to its end by the reaper"
    CLAIMS_HELD_BACK "lease_broker.claim.held_back" "{claim}" QueueIfFull(HeldBack::ALL.len()); "Claims that got no lease, by reason"
    GROUPS_VISITED "lease_broker.claim.groups_visited" "{group}" QueueIfFull(1); "Groups that claims looked at, to find some that can give items"
    WALKS_CUT "lease_broker.claim.walk_cut" "{claim}" QueueIfFull(1); "Walks over groups that were cut, because too few groups could give items"
    TURN_WAIT "lease_broker.claim.turn_wait.duration" "s" Queue(1); "Time that claims waited for claims of other brokers on the same queue"
    CLAIMS_WAITING "lease_broker.claim.waiting" "{call}" QueueIfFull(1); "Claim calls that wait for an item"

    ITEMS "lease_broker.items" "{item}" Queue(State::ALL.len()); "Items in each state, at the last refresh"
    ITEMS_CAPPED "lease_broker.item.capped" "" Queue(State::ALL.len()); "1 if the state can have more items than were counted"
    OLDEST_READY_AGE "lease_broker.oldest_ready.age" "s" Queue(1); "Time since the oldest ready item became ready"
    OLDEST_LEASE_AGE "lease_broker.oldest_lease.age" "s" Queue(1); "Time since the oldest lease was claimed"
    OLDEST_SAMPLED "lease_broker.oldest.sampled" "" Queue(2); "1 if the oldest item of the state was searched in a sample"
    GROUPS "lease_broker.groups" "{group}" Queue(GroupState::ALL.len()); "Groups in each state, among the first 1,000"
    GROUPS_CAPPED "lease_broker.group.capped" "" Queue(1); "1 if the queue has more groups than were looked at"
    OLDEST_HEAD_AGE "lease_broker.group.oldest_head.age" "s" Queue(1); "Longest time for which a group, not paused, has been at the same item"
    LEASES_OVER_AGE "lease_broker.lease.over_age" "{lease}" Queue(1); "Leases older than max_lease_age, at most 21"
    MAX_LEASE_AGE "lease_broker.max_lease_age" "s" Queue(1); "The setting max_lease_age of the queue"
    STATS_AGE "lease_broker.stats.age" "s" Queue(1); "Time since the last refresh of the statistics, or since the start"

    CALL_DURATION "rpc.server.call.duration" "s" Process; "Duration of calls"
    CALLS_ACTIVE "lease_broker.call.active" "{call}" Process; "Running calls, waiting claims included"
    CALLS_REFUSED "lease_broker.call.refused" "{call}" Process; "Calls that were refused or failed, by the reason in google.rpc.ErrorInfo"
    CERTIFICATE_END "lease_broker.tls.certificate.not_after" "s" Process; "End of the certificate of server.tls that is in use, as seconds since 1970; 0 without TLS"
    TOKEN_KEYS "lease_broker.jwt.keys" "{key}" Process; "Keys in the last set of the issuer of JSON Web Tokens that could be used, by whether they verify tokens"
    TOKEN_KEY_FETCHES "lease_broker.jwt.key.fetches" "{fetch}" Process; "Fetches of the keys from auth.jwt.jwks_url, by their result"

    CONNECTIONS_OPEN "lease_broker.connection.open" "{connection}" Process; "Open connections of clients"
    CONNECTIONS_REFUSED "lease_broker.connection.refused" "{connection}" Process; "Connections of clients that were refused, by reason"

    OPERATION_DURATION "db.client.operation.duration" "s" QueueIfFull(Operation::ALL.len() * (1 + StoreError::KINDS)); "Duration of store operations"
    STATEMENT_CALLS "lease_broker.statement.calls" "{call}" QueueIfFull(Operation::ALL.len()); "Calls that store operations served"
    STATEMENTS "lease_broker.statements" "{statement}" QueueIfFull(Operation::ALL.len()); "Store operations started"
    STATEMENT_ITEMS "lease_broker.statement.items" "{item}" QueueIfFull(Operation::ALL.len()); "Items in the results of store operations"
    DIFFERING_QUEUES "lease_broker.queue.differing" "{queue}" Process; "Queues whose settings differ from those of another broker on the database"
    STORE_UP "lease_broker.store.up" "" Process; "1 while the store is healthy, otherwise 0"
    STORE_FAILURES "lease_broker.store.failures" "{failure}" Process; "Store operations and probes that failed because the store was not available, by cause"
    STORE_OLDEST_OPERATION "lease_broker.store.oldest_operation.age" "s" Process; "Time for which the oldest store operation has run; 0 if none runs"
    STORE_CONNECTIONS "lease_broker.store.connections" "{connection}" Process; "Connections to the database server, by state"
    STORE_CONNECTIONS_MAX "lease_broker.store.connection.max" "{connection}" Process; "The maximum number of connections to the database server"
    STORE_CONNECTIONS_WAITING "lease_broker.store.connection.waiting" "{request}" Process; "Store operations that wait for a connection"
    CONNECTION_TIMEOUTS "db.client.connection.timeouts" "{timeout}" Process; "Store operations that got no connection in time"
    STORE_RETRIES "lease_broker.store.retries" "{retry}" Process; "Store operations that were run again, by reason"
    STORE_CLOCK_STEPS "lease_broker.store.clock_steps" "{step}" QueueIfFull(1); "Steps of the database's clock by more than half of the shortest lease in use, or 30 s"
    STORE_CLOCK_OFFSET "lease_broker.store.clock_offset" "s" Process; "The database's clock minus the broker's, at the last claim that got a lease"

    SPANS_EMITTED "lease_broker.telemetry.span.emitted" "{span}" Process; "Spans that the broker has made"
    SPANS "lease_broker.telemetry.spans" "{span}" Process; "Spans by what became of them; rejected is a part of exported"
    SPAN_QUEUE_SIZE "lease_broker.telemetry.queue.size" "{span}" Process; "Spans that wait to be sent"
    SPAN_QUEUE_CAPACITY "lease_broker.telemetry.queue.capacity" "{span}" Process; "Spans that can wait to be sent"

    LOG_LINES "lease_broker.log.lines" "{line}" Process; "Log lines that were not written, by the reason"

    CPU_TIME "process.cpu.time" "s" Process; "CPU time that the process has used"
    MEMORY_USAGE "process.memory.usage" "By" Process; "Memory that the process uses"
    OPEN_FILE_DESCRIPTORS "lease_broker.process.open_file_descriptors" "{file_descriptor}" Process; "File descriptors that the process has open"
    PAUSES "lease_broker.process.pauses" "{pause}" Process; "Times for which the whole process was stopped, each a second or more"
    UPTIME "process.uptime" "s" Process; "Time since the process started"
}
