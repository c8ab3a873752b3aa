//! `brokers` and `drain`: lists broker processes, and stops one.

use std::cmp::Reverse;
use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;
use lease_broker_proto as proto;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::admin::Admin;
use super::audit_args::AuditArgs;
use super::complete;
use super::place_args::{PlaceArgs, with_place};
use crate::cli::CommandError;
use crate::cli::output::{Row, proto_moment};
use crate::grpc::broker_state;

/// The time between two looks at a broker that drains.
const INTERVAL: Duration = Duration::from_millis(500);
/// The time after which a broker that gives no sign of life is gone. The list of brokers has the same limit.
const SILENCE: Duration = Duration::from_secs(15);

/// List the broker processes that were seen in the last day
#[derive(Debug, Args)]
#[command(after_help = with_place("\
Fields of --output json and csv: broker_id; address; version; state (running, draining, or gone: it has ended, or was not seen for 15 s); start_time, \
seen_time; is_self (it has answered this command); differing_queues (queues with other settings than those of the broker that \
answers or, with --config, those of the configuration).

Examples:
  lease-broker brokers
  lease-broker brokers --config queues.toml --output json"))]
pub(in crate::cli) struct Brokers {
    #[command(flatten)]
    place: PlaceArgs,
}

impl Brokers {
    pub(in crate::cli) async fn run(self) -> Result<(), CommandError> {
        let admin = self.place.look(None).await?;
        let brokers = list(&admin).await?;
        let rows: Vec<Row> = brokers.iter().map(broker_row).collect();
        self.place.output().print(&rows, "no brokers");
        Ok(())
    }
}

/// Stop one broker, as SIGTERM does
///
/// The broker gives no more leases, finishes its calls, and ends. Any broker takes this call. The named one obeys within 2 seconds.
/// Its supervisor may start it again, as those of the files in `deploy` do: to keep it stopped, stop it by its supervisor. The role for
/// this command is admin.
#[derive(Debug, Args)]
#[command(after_help = with_place("\
Examples:
  lease-broker drain 018f3a52
  lease-broker drain broker-2:50051 --wait"))]
pub(in crate::cli) struct Drain {
    /// Id of the broker, the beginning of the id, or its address, as `brokers` prints them
    #[arg(add = ArgValueCandidates::new(complete::brokers))]
    broker: String,
    #[command(flatten)]
    audit: AuditArgs,
    /// Wait until the broker has ended, or was not seen for 15 seconds. If it answers this command itself: until it answers no more for
    /// 15 seconds
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

impl Drain {
    pub(in crate::cli) async fn run(self) -> Result<(), CommandError> {
        let admin = self.place.change(None).await?;
        let found = find(list(&admin).await?, &self.broker)?;
        let request = proto::DrainBrokerRequest {
            broker_id: found.broker_id.clone(),
            reason: self.audit.reason,
        };
        let told = admin.drain_broker(request).await?.broker;
        let told = told.unwrap_or_default();
        let (id, address) = (&told.broker_id, &told.address);
        if self.wait {
            wait_until_gone(&admin, &found).await?;
            let sentence = format!("broker {id} at {address} is gone");
            let row = Row::default()
                .field("broker_id", id.clone())
                .field("address", address.clone())
                .field("state", "gone");
            self.place.output().print_result(&sentence, &row);
        } else {
            let sentence = format!("broker {id} at {address} was told to stop");
            self.place
                .output()
                .print_result(&sentence, &broker_row(&told));
        }
        Ok(())
    }
}

async fn list(admin: &Admin) -> Result<Vec<proto::BrokerInstance>, CommandError> {
    let request = proto::ListBrokersRequest {};
    Ok(admin.list_brokers(request).await?.brokers)
}

/// Finds the broker with this id, an id that begins so, or this address. Brokers that have ended count only if no other fits. Of several
/// at the address it is the last one that started: a killed one counts as running for 15 s.
fn find(
    brokers: Vec<proto::BrokerInstance>,
    name: &str,
) -> Result<proto::BrokerInstance, CommandError> {
    if name.is_empty() {
        return Err(CommandError::usage(
            "the id of the broker is empty; `lease-broker brokers` lists them",
        ));
    }
    let fits = |broker: &proto::BrokerInstance| {
        broker.broker_id.starts_with(name) || broker.is_live && broker.address == name
    };
    let mut found: Vec<_> = brokers.into_iter().filter(fits).collect();
    if found.iter().any(|broker| broker.is_live) {
        found.retain(|broker| broker.is_live);
    }
    if found.iter().all(|broker| broker.address == name) {
        let start = |broker: &proto::BrokerInstance| {
            broker.start_time.map(|time| (time.seconds, time.nanos))
        };
        found.sort_by_key(|broker| Reverse(start(broker)));
        found.truncate(1);
    }
    let Some(first) = found.first() else {
        return Err(CommandError::failed(format!(
            "no broker has the id or the address {name:?}; `lease-broker brokers` lists them"
        )));
    };
    match found.len() {
        1 if first.is_live => Ok(found.remove(0)),
        1 => Err(CommandError::failed(format!(
            "broker {} has ended already",
            first.broker_id
        ))),
        count => {
            let ids = found.iter().map(|broker| &*broker.broker_id);
            Err(CommandError::usage(format!(
                "{count} brokers fit {name:?}; give the id of one of them, or its beginning: {}",
                ids.collect::<Vec<_>>().join(", ")
            )))
        }
    }
}

/// Waits until the broker has ended or was not seen for some time. The service that answers can be the one that stops. Then its list ends with it, and
/// its answers are the signs of life.
async fn wait_until_gone(
    admin: &Admin,
    broker: &proto::BrokerInstance,
) -> Result<(), CommandError> {
    let mut last_seen = LastSeen(Instant::now());
    loop {
        match list(admin).await {
            Ok(brokers) => {
                let is_it = |other: &&proto::BrokerInstance| other.broker_id == broker.broker_id;
                if brokers
                    .iter()
                    .find(is_it)
                    .is_none_or(|found| !found.is_live)
                {
                    return Ok(());
                }
                last_seen = LastSeen(Instant::now());
            }
            Err(error) if error.is_outage() && broker.is_self => {
                if last_seen.is_long_ago(&error, Instant::now()) {
                    return Ok(());
                }
            }
            Err(error) => return Err(error),
        }
        sleep(INTERVAL).await;
    }
}

/// The last sign of life of a broker.
struct LastSeen(Instant);

impl LastSeen {
    /// Returns whether the broker is gone after this outage. A broker that answers runs, even if it cannot read its database. One that
    /// cannot be reached can still run: it may have closed its port to finish its calls.
    fn is_long_ago(&mut self, outage: &CommandError, now: Instant) -> bool {
        if outage.is_answer_of_service() {
            self.0 = now;
        }
        now.duration_since(self.0) >= SILENCE
    }
}

/// Returns the row of a broker.
pub(super) fn broker_row(broker: &proto::BrokerInstance) -> Row {
    Row::default()
        .field("broker_id", broker.broker_id.clone())
        .field("address", broker.address.clone())
        .field("version", broker.version.clone())
        .field("state", broker_state(broker))
        .field("start_time", proto_moment(broker.start_time))
        .field("seen_time", proto_moment(broker.seen_time))
        .data("is_self", broker.is_self)
        .field("differing_queues", json!(broker.differing_queues))
}

#[cfg(test)]
mod tests {
    use tonic::{Code, Status};
    use tonic_types::{ErrorDetails, StatusExt as _};

    use super::*;

    #[test]
    fn broker_that_answers_or_was_seen_lately_is_not_gone() {
        let start = Instant::now();
        let mut last_seen = LastSeen(start);
        let mut after = |seconds, outage: CommandError| {
            last_seen.is_long_ago(&outage, start + Duration::from_secs(seconds))
        };
        let refused = || CommandError::unavailable("connection refused");
        let answer = || {
            let details = ErrorDetails::with_error_info("STORE_UNAVAILABLE", "leasebroker", []);
            let text = "the database does not answer";
            CommandError::from(Status::with_error_details(Code::Unavailable, text, details))
        };
        let of_balancer = || CommandError::from(Status::unavailable("no broker answers"));
        assert!(!after(1, refused()));
        assert!(!after(14, of_balancer()));
        assert!(!after(40, answer()));
        assert!(!after(54, refused()));
        assert!(after(55, refused()));
    }

    fn broker(broker_id: &str, is_live: bool) -> proto::BrokerInstance {
        proto::BrokerInstance {
            broker_id: broker_id.to_owned(),
            address: "host:50051".to_owned(),
            is_live,
            // The ids of the tests are in the order of the starts.
            start_time: broker_id[1..]
                .parse()
                .ok()
                .map(|seconds| prost_types::Timestamp { seconds, nanos: 0 }),
            ..proto::BrokerInstance::default()
        }
    }

    fn found(brokers: &[(&str, bool)], name: &str) -> Result<String, String> {
        let brokers = brokers.iter().map(|(id, is_live)| broker(id, *is_live));
        let found = find(brokers.collect(), name);
        found
            .map(|broker| broker.broker_id)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn empty_name_fits_no_broker() {
        let error = found(&[("a1", true)], "").expect_err("refused");
        assert!(error.contains("is empty"), "{error}");
    }

    #[test]
    fn running_broker_is_preferred_to_one_that_has_ended() {
        let brokers = [("a1", false), ("a2", true)];
        assert_eq!(found(&brokers, "a"), Ok("a2".to_owned()));
        assert_eq!(found(&brokers, "host:50051"), Ok("a2".to_owned()));
        let error = found(&brokers, "a1").expect_err("refused");
        assert!(error.contains("has ended"), "{error}");
    }

    #[test]
    fn address_of_a_killed_broker_is_that_of_the_next_one() {
        let brokers = [("a1", true), ("a2", true), ("a3", false)];
        assert_eq!(found(&brokers, "host:50051"), Ok("a2".to_owned()));
    }

    #[test]
    fn ids_of_several_brokers_that_fit_are_listed() {
        let error = found(&[("a1", true), ("a2", true)], "a").expect_err("refused");
        assert!(error.contains("a1, a2"), "{error}");
    }
}
