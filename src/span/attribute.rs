//! The names of the attributes of spans and metrics.
//!
//! A fact for which OpenTelemetry's semantic conventions have a name has that name. All other names begin with `lease_broker.`.

pub use opentelemetry_semantic_conventions::SCHEMA_URL;

macro_rules! conventions {
    ($($name:ident)*) => {
        pub use opentelemetry_semantic_conventions::attribute::{$($name),*};

        /// The names of the conventions that the broker uses.
        #[cfg(test)]
        const CONVENTIONS: &[&str] = &[$($name),*];
    };
}

conventions! {
    DB_CLIENT_CONNECTION_POOL_NAME
    DB_CLIENT_CONNECTION_STATE
    DB_COLLECTION_NAME
    DB_NAMESPACE
    DB_OPERATION_BATCH_SIZE
    DB_OPERATION_NAME
    DB_SYSTEM_NAME
    ERROR_TYPE
    MESSAGING_CLIENT_ID
    MESSAGING_DESTINATION_NAME
    MESSAGING_MESSAGE_ID
    MESSAGING_OPERATION_NAME
    MESSAGING_OPERATION_TYPE
    MESSAGING_SYSTEM
    RPC_METHOD
    RPC_RESPONSE_STATUS_CODE
    RPC_SYSTEM_NAME
    SERVER_ADDRESS
    SERVER_PORT
    SERVICE_INSTANCE_ID
    SERVICE_NAME
    SERVICE_VERSION
}

macro_rules! own {
    ($($name:ident $text:literal)*) => {
        $(
            #[doc = concat!("`", $text, "`, which `docs/observability.md` explains.")]
            pub const $name: &str = $text;
        )*

        #[cfg(test)]
        const OWN: &[&str] = &[$($text),*];
    };
}

own! {
    QUEUE_NAME "lease_broker.queue.name"
    ITEM_STATE "lease_broker.item.state"
    ITEM_DEAD_CAUSE "lease_broker.item.dead.cause"
    ITEM_ERROR "lease_broker.item.error"
    LEASE_OUTCOME "lease_broker.lease.outcome"
    LEASE_ATTEMPT "lease_broker.lease.attempt"
    LEASE_FENCING_TOKEN "lease_broker.lease.fencing_token"
    LEASE_DURATION "lease_broker.lease.duration"
    LEASE_TIME_LEFT "lease_broker.lease.time_left"
    RELEASE_REASON "lease_broker.release.reason"
    GROUP_STATE "lease_broker.group.state"
    HELD_BACK_REASON "lease_broker.held_back.reason"
    SETTLEMENT_OPERATION "lease_broker.settlement.operation"
    SETTLEMENT_REASON "lease_broker.settlement.reason"
    REAP_DELAY "lease_broker.reap.delay"
    REAP_EXPIRED "lease_broker.reap.expired"
    REAP_PROMOTED "lease_broker.reap.promoted"
    SAMPLING "lease_broker.sampling"
    LINK_KIND "lease_broker.link.kind"
    LINK_LEFT_OUT "lease_broker.link.left_out"
    STATEMENT_CALLS "lease_broker.statement.calls"
    ERROR_REASON "lease_broker.error.reason"
    OVERLOAD_LIMIT "lease_broker.overload.limit"
    RETRY_REASON "lease_broker.retry.reason"
    CONNECTION_REFUSAL "lease_broker.connection.refusal"
    STORE_CAUSE "lease_broker.store.cause"
    FETCH_RESULT "lease_broker.fetch.result"
    KEY_USE "lease_broker.key.use"
    LOG_RESULT "lease_broker.log.result"
    SPAN_RESULT "lease_broker.span.result"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The copy of the conventions' names with which the tests compare what brokers export.
    const COPY: &str = include_str!("../../tests/telemetry/semantic_conventions.txt");

    #[test]
    fn names_and_version_are_those_of_the_copy() {
        let mut lines = COPY.lines();
        assert_eq!(lines.next(), Some(SCHEMA_URL));
        let attributes = lines.filter_map(|line| line.strip_prefix("attribute "));
        assert_eq!(attributes.collect::<Vec<_>>(), CONVENTIONS);
    }

    #[test]
    fn other_names_have_the_namespace_of_the_broker() {
        for name in OWN {
            assert!(name.starts_with("lease_broker."), "{name}");
            let is_documented = include_str!("../../docs/observability.md").contains(&**name);
            let as_label = name.replace('.', "_");
            let is_label = include_str!("../../docs/observability.md").contains(&as_label);
            assert!(is_documented || is_label, "{name} is not documented");
        }
    }
}
