//! The reasons of failed calls, which clients read in `google.rpc.ErrorInfo`. `lease_broker.proto` explains them.

use lease_broker_model::named_enum;

named_enum! {
    /// Why a call has failed. Clients read the name, such as `LEASE_ID_TOO_NEW`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Reason {
        InvalidField = "INVALID_FIELD",
        LimitExceeded = "LIMIT_EXCEEDED",
        QueueNotFound = "QUEUE_NOT_FOUND",
        RequestIncomplete = "REQUEST_INCOMPLETE",
        CompressionUnsupported = "COMPRESSION_UNSUPPORTED",
        Overloaded = "OVERLOADED",
        CredentialsMissing = "CREDENTIALS_MISSING",
        CredentialsInvalid = "CREDENTIALS_INVALID",
        RoleMissing = "ROLE_MISSING",
        IdentityLimit = "IDENTITY_LIMIT",
        StoreUnavailable = "STORE_UNAVAILABLE",
        StoreMisconfigured = "STORE_MISCONFIGURED",
        LeaseIdTooNew = "LEASE_ID_TOO_NEW",
        Draining = "DRAINING",
        DeadlineExceeded = "DEADLINE_EXCEEDED",
        AlreadyExists = "ALREADY_EXISTS",
        QueuePaused = "QUEUE_PAUSED",
        OperationRunning = "OPERATION_RUNNING",
        PurgeNotAllowed = "PURGE_NOT_ALLOWED",
        ItemNotFound = "ITEM_NOT_FOUND",
        OperationNotFound = "OPERATION_NOT_FOUND",
        BrokerNotFound = "BROKER_NOT_FOUND",
        RpcUnknown = "RPC_UNKNOWN",
        Internal = "INTERNAL",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use regex::Regex;

    use super::*;

    fn names() -> BTreeSet<String> {
        let names = Reason::ALL.iter().map(|reason| reason.name().to_owned());
        names.collect()
    }

    fn read(path: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Returns the first group of each match.
    fn find(pattern: &str, text: &str) -> BTreeSet<String> {
        let pattern = Regex::new(pattern).expect("a pattern");
        let matches = pattern.captures_iter(text);
        matches.map(|found| found[1].to_owned()).collect()
    }

    #[test]
    fn reasons_are_those_of_the_proto_file() {
        let proto = read("proto/leasebroker/v1/lease_broker.proto");
        let (header, rpcs) = proto.split_once("syntax =").expect("a header");
        let mut documented = find(r"(?m)^//   [A-Z_]+ +([A-Z_]+)  +\S", header);
        assert!(documented.len() > 10, "{documented:?}");
        // The table has the reasons of every rpc. Those of one rpc stand in its comment.
        documented.extend(find("with the reason ([A-Z_]+)", rpcs));
        assert_eq!(documented, names());
    }

    #[test]
    fn worker_libraries_know_only_existing_reasons() {
        // The part of each file that has the names.
        let decisions = [
            ("clients/python/src/lease_broker/calls.py", "reason == (.*)"),
            ("clients/node/src/details.ts", "reason === (.*)"),
            ("clients/go/calls.go", "reason == (.*)"),
            (
                "clients/java/src/main/java/com/example/leasebroker/Failure.java",
                r"reason\.equals(.*)",
            ),
            ("clients/rust/src/failure.rs", "reason == (.*)"),
        ];
        for (file, part) in decisions {
            let parts: Vec<String> = find(part, &read(file)).into_iter().collect();
            let known = find(r#""([A-Z_]+)""#, &parts.join("\n"));
            assert!(!known.is_empty(), "{file}: {part:?} finds no reason");
            assert!(known.is_subset(&names()), "{file}: {known:?}");
        }
    }
}
