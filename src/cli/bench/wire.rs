//! The messages of the API with only what a load generator looks at. Texts and whole items stay bytes: they are neither
//! copied nor checked, so that the cores are left to the broker.

use prost::Message;
use prost::bytes::Bytes;

#[derive(Clone, PartialEq, Message)]
pub(super) struct ClaimBatchRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) queue: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) worker_id: Bytes,
    #[prost(int32, tag = "3")]
    pub(super) max_items: i32,
    #[prost(message, optional, tag = "4")]
    pub(super) lease_duration: Option<prost_types::Duration>,
    #[prost(message, optional, tag = "5")]
    pub(super) wait_timeout: Option<prost_types::Duration>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ClaimBatchResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) leases: Vec<Lease>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Lease {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) lease_id: Bytes,
    #[prost(message, optional, tag = "2")]
    pub(super) item: Option<Item>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Item {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
}

/// Heartbeat's and Release's, whose first fields are the same.
#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseIds {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) queue: Bytes,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(super) ids: Vec<Bytes>,
    /// Heartbeat's `lease_duration`, Release's `delay`.
    #[prost(message, optional, tag = "3")]
    pub(super) duration: Option<prost_types::Duration>,
}

/// Complete's and Fail's.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Endings {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) queue: Bytes,
    #[prost(message, repeated, tag = "2")]
    pub(super) endings: Vec<Ending>,
}

/// A `Completion` or, with a delay, a `Failure`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Ending {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) lease_id: Bytes,
    #[prost(message, optional, tag = "3")]
    pub(super) retry_delay: Option<prost_types::Duration>,
}

/// Complete's with a claim.
#[derive(Clone, PartialEq, Message)]
pub(super) struct CompleteRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) queue: Bytes,
    #[prost(message, repeated, tag = "2")]
    pub(super) completions: Vec<Ending>,
    #[prost(message, optional, tag = "3")]
    pub(super) next: Option<NextClaim>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NextClaim {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) worker_id: Bytes,
    #[prost(int32, tag = "2")]
    pub(super) max_items: i32,
    #[prost(message, optional, tag = "3")]
    pub(super) lease_duration: Option<prost_types::Duration>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CompleteResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) results: Vec<Outcome>,
    #[prost(message, repeated, tag = "2")]
    pub(super) next_leases: Vec<Lease>,
}

/// Every answer about leases.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Outcomes {
    #[prost(message, repeated, tag = "1")]
    pub(super) results: Vec<Outcome>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Outcome {
    #[prost(int32, tag = "2")]
    pub(super) outcome: i32,
}

/// The same where the state is told: not by Heartbeat, whose third field is a time.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SettleResults {
    #[prost(message, repeated, tag = "1")]
    pub(super) results: Vec<SettleResult>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SettleResult {
    #[prost(int32, tag = "2")]
    pub(super) outcome: i32,
    #[prost(int32, tag = "3")]
    pub(super) state: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct EnqueueRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) queue: Bytes,
    /// Items as they are encoded.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(super) items: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct EnqueueResponse {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(super) keys: Vec<Bytes>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::proto;

    fn half_a_minute() -> prost_types::Duration {
        prost_types::Duration {
            seconds: 30,
            nanos: 0,
        }
    }

    #[test]
    fn requests_read_as_the_apis_own() {
        let claim = ClaimBatchRequest {
            queue: "q".into(),
            worker_id: "w".into(),
            max_items: 7,
            lease_duration: Some(half_a_minute()),
            wait_timeout: Some(half_a_minute()),
        };
        let claim = proto::ClaimBatchRequest::decode(&*claim.encode_to_vec()).expect("a claim");
        assert_eq!(
            (&*claim.queue, &*claim.worker_id, claim.max_items),
            ("q", "w", 7)
        );
        assert_eq!(claim.lease_duration, Some(half_a_minute()));
        assert_eq!(claim.wait_timeout, Some(half_a_minute()));

        let complete = CompleteRequest {
            queue: "q".into(),
            completions: vec![Ending {
                lease_id: "l".into(),
                retry_delay: None,
            }],
            next: Some(NextClaim {
                worker_id: "w".into(),
                max_items: 7,
                lease_duration: Some(half_a_minute()),
            }),
        };
        let complete = proto::CompleteRequest::decode(&*complete.encode_to_vec());
        let complete = complete.expect("a completion");
        assert_eq!(complete.completions[0].lease_id, "l");
        let next = complete.next.expect("a claim");
        assert_eq!((&*next.worker_id, next.max_items), ("w", 7));
        assert_eq!(next.lease_duration, Some(half_a_minute()));

        let endings = Endings {
            queue: "q".into(),
            endings: vec![Ending {
                lease_id: "l".into(),
                retry_delay: Some(half_a_minute()),
            }],
        };
        let fail = proto::FailRequest::decode(&*endings.encode_to_vec()).expect("a failure");
        assert_eq!(fail.failures[0].lease_id, "l");
        assert_eq!(fail.failures[0].retry_delay, Some(half_a_minute()));

        let ids = LeaseIds {
            queue: "q".into(),
            ids: vec!["l".into()],
            duration: Some(half_a_minute()),
        };
        let encoded = ids.encode_to_vec();
        let heartbeat = proto::HeartbeatRequest::decode(&*encoded).expect("a heartbeat");
        assert_eq!(heartbeat.lease_duration, Some(half_a_minute()));
        let release = proto::ReleaseRequest::decode(&*encoded).expect("a release");
        assert_eq!(release.lease_ids, ["l"]);

        let item = proto::NewItem {
            delay: Some(half_a_minute()),
            ..proto::NewItem::default()
        };
        let enqueue = EnqueueRequest {
            queue: "q".into(),
            items: vec![item.encode_to_vec().into()],
        };
        let enqueue = proto::EnqueueRequest::decode(&*enqueue.encode_to_vec()).expect("items");
        assert_eq!(enqueue.items, [item]);
    }

    #[test]
    fn the_apis_own_answers_can_be_read() {
        let lease = proto::Lease {
            lease_id: "l".to_owned(),
            item: Some(proto::Item {
                key: "17".to_owned(),
                columns: [("payload".to_owned(), proto::Value::default())].into(),
            }),
            attempt: 1,
            time_left: Some(half_a_minute()),
            ..proto::Lease::default()
        };
        let next_leases = vec![lease.clone()];
        let complete = proto::CompleteResponse {
            next_leases,
            ..proto::CompleteResponse::default()
        };
        let complete = CompleteResponse::decode(&*complete.encode_to_vec()).expect("leases");
        assert_eq!(complete.next_leases[0].lease_id, "l");
        let answer = proto::ClaimBatchResponse {
            leases: vec![lease],
        };
        let answer = ClaimBatchResponse::decode(&*answer.encode_to_vec()).expect("leases");
        assert_eq!(answer.leases[0].lease_id, "l");
        let item = answer.leases[0].item.as_ref().expect("an item");
        assert_eq!(item.key, "17");

        let results = vec![proto::SettleResult {
            lease_id: "l".to_owned(),
            outcome: proto::Outcome::Applied.into(),
            state: proto::ItemState::Dead.into(),
        }];
        let settled = proto::FailResponse { results }.encode_to_vec();
        let settled = SettleResults::decode(&*settled).expect("results");
        let dead = SettleResult {
            outcome: proto::Outcome::Applied.into(),
            state: proto::ItemState::Dead.into(),
        };
        assert_eq!(settled.results, [dead]);

        let results = vec![proto::HeartbeatResult {
            outcome: proto::Outcome::LeaseLost.into(),
            time_left: Some(half_a_minute()),
            ..proto::HeartbeatResult::default()
        }];
        let extended = proto::HeartbeatResponse { results }.encode_to_vec();
        let extended = Outcomes::decode(&*extended).expect("results");
        assert_eq!(
            extended.results[0].outcome,
            proto::Outcome::LeaseLost as i32
        );
    }
}
