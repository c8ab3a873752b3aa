//! `brokers` and `drain`: lists broker processes, and stops one.

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;
use lease_broker_proto as proto;
use serde_json::json;
use tokio::time::sleep;

use super::admin::Admin;
use super::audit_args::AuditArgs;
use super::complete;
use super::place_args::{PlaceArgs, with_place};
use crate::cli::CommandError;
use crate::cli::output::{Row, proto_moment};

/// The time between two looks at a broker that drains.
const INTERVAL: Duration = Duration::from_millis(500);

/// List the broker processes that were seen in the last day
#[derive(Debug, Args)]
#[command(after_help = with_place("\
Fields of --output json and csv: broker_id; address; version; state (running, draining, or gone: not seen for 15 s); start_time,
seen_time; is_self (it has answered this command); differing_queues (queues with other settings than those of the broker that
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
/// The role for this command is admin.
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
    /// Wait until the broker was not seen for 15 seconds
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
            let sentence = format!("broker {id} at {address} has stopped");
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

/// Finds the broker with this id, an id that begins so, or this address.
fn find(
    brokers: Vec<proto::BrokerInstance>,
    name: &str,
) -> Result<proto::BrokerInstance, CommandError> {
    // An address can be that of an earlier process too.
    let fits = |broker: &proto::BrokerInstance| {
        broker.broker_id.starts_with(name) || broker.is_live && broker.address == name
    };
    let mut found: Vec<_> = brokers.into_iter().filter(fits).collect();
    match (found.pop(), found.len()) {
        (Some(broker), 0) => Ok(broker),
        (None, _) => Err(CommandError::failed(format!(
            "no broker has the id or the address {name:?}; `lease-broker brokers` lists them"
        ))),
        (Some(_), others) => Err(CommandError::usage(format!(
            "{} brokers fit {name:?}; give a longer part of the id",
            others + 1
        ))),
    }
}

/// Waits until the broker was not seen for some time. The service that answers can be the one that stops.
async fn wait_until_gone(
    admin: &Admin,
    broker: &proto::BrokerInstance,
) -> Result<(), CommandError> {
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
            }
            Err(error) if error.is_outage() && broker.is_self => return Ok(()),
            Err(error) => return Err(error),
        }
        sleep(INTERVAL).await;
    }
}

/// Returns the name of the state of a broker.
pub(super) fn broker_state(broker: &proto::BrokerInstance) -> &'static str {
    match (broker.is_live, broker.is_draining) {
        (false, _) => "gone",
        (true, true) => "draining",
        (true, false) => "running",
    }
}

fn broker_row(broker: &proto::BrokerInstance) -> Row {
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
