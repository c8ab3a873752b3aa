//! `limits`: shows and changes the limits of a queue.

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;
use lease_broker_proto as proto;

use super::audit_args::AuditArgs;
use super::complete;
use super::place_args::{PlaceArgs, with_place};
use crate::cli::CommandError;
use crate::cli::output::Row;

/// Show or change the limits of a queue that has groups or limits
///
/// The limits are stored in the database. They count for all brokers from the next claim on, and survive restarts: the limits of the
/// configuration do not count any more. Without a flag, the command shows them.
#[derive(Debug, Args)]
#[command(after_help = with_place("\
Examples:
  lease-broker limits calls
  lease-broker limits calls --max-leases 50 --rate 100/1m --burst 10
  lease-broker limits calls --rate none --reason contract"))]
pub(in crate::cli) struct Limits {
    /// Queue
    #[arg(add = ArgValueCandidates::new(complete::queues))]
    queue: String,
    /// Maximum number of leases over all brokers, up to 10000; 0: any number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    max_leases: Option<i32>,
    /// Items that are given out per time, such as 100/1m; none: no rate
    #[arg(long, value_name = "N/TIME", value_parser = parse_rate)]
    rate: Option<GivenRate>,
    /// Items that can be given out at once after a quiet time [default: the items of --rate]
    #[arg(long, value_name = "N", requires = "rate", value_parser = clap::value_parser!(i32).range(1..))]
    burst: Option<i32>,
    /// Maximum number of leases of a group, up to 1000; 0: any number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    group_max_leases: Option<i32>,
    /// Items of each group that are given out per time, such as 5/1s; none: no rate
    #[arg(long, value_name = "N/TIME", value_parser = parse_rate)]
    group_rate: Option<GivenRate>,
    /// Items of a group that can be given out at once after a quiet time [default: the items of --group-rate]
    #[arg(long, value_name = "N", requires = "group_rate", value_parser = clap::value_parser!(i32).range(1..))]
    group_burst: Option<i32>,
    #[command(flatten)]
    audit: AuditArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

/// A rate on the command line. `None`: no rate.
#[derive(Clone, Copy, Debug)]
struct GivenRate(Option<(i32, Duration)>);

/// Parses a rate such as `100/1m`, or `none`.
fn parse_rate(text: &str) -> Result<GivenRate, String> {
    if text == "none" {
        return Ok(GivenRate(None));
    }
    let problem = || "must be items per time, such as 100/1m or 5/1s, or none".to_owned();
    let (items, per) = text.split_once('/').ok_or_else(problem)?;
    let items = items.parse().ok().filter(|items| *items > 0);
    let per = humantime::parse_duration(per).ok();
    let rate = items.zip(per).ok_or_else(problem)?;
    Ok(GivenRate(Some(rate)))
}

impl GivenRate {
    fn to_proto(self, burst: Option<i32>) -> proto::QueueRate {
        let Some((items, per)) = self.0 else {
            return proto::QueueRate::default();
        };
        proto::QueueRate {
            items,
            per: prost_types::Duration::try_from(per).ok(),
            burst: burst.unwrap_or(0),
        }
    }
}

impl Limits {
    pub(in crate::cli) async fn run(self) -> Result<(), CommandError> {
        let admin = self.place.change(Some(&self.queue)).await?;
        let request = proto::SetQueueLimitsRequest {
            queue: self.queue.clone(),
            limits: Some(proto::QueueLimits {
                max_leases: self.max_leases,
                rate: self.rate.map(|rate| rate.to_proto(self.burst)),
                group_max_leases: self.group_max_leases,
                group_rate: self.group_rate.map(|rate| rate.to_proto(self.group_burst)),
            }),
            reason: self.audit.reason,
        };
        let limits = admin.set_queue_limits(request).await?.limits;
        let (sentence, row) = describe(&self.queue, &limits.unwrap_or_default());
        self.place.output().print_result(&sentence, &row);
        Ok(())
    }
}

/// Returns a sentence about limits, and their row.
fn describe(queue: &str, limits: &proto::QueueLimits) -> (String, Row) {
    let count = |limit: Option<i32>| limit.filter(|limit| *limit > 0);
    let leases = count(limits.max_leases);
    let of_group = count(limits.group_max_leases);
    let rate = limits.rate.as_ref().map(described_rate);
    let group_rate = limits.group_rate.as_ref().map(described_rate);
    let mut parts = Vec::new();
    parts.extend(leases.map(|max| format!("{max} leases")));
    parts.extend(of_group.map(|max| format!("{max} leases per group")));
    for (rate, of) in [(&rate, ""), (&group_rate, " per group")] {
        let told = rate.as_ref();
        parts.extend(told.map(|(rate, burst)| format!("{rate} items{of} with a burst of {burst}")));
    }
    let sentence = match &*parts {
        [] => format!("queue {queue} has no limits"),
        parts => format!("limits of queue {queue}: {}", parts.join(", ")),
    };
    let row = Row::default()
        .field("queue", queue)
        .field("max_leases", leases)
        .field("group_max_leases", of_group)
        .field("rate", rate.as_ref().map(|(rate, _)| rate.clone()))
        .field("burst", rate.map(|(_, burst)| burst))
        .field(
            "group_rate",
            group_rate.as_ref().map(|(rate, _)| rate.clone()),
        )
        .field("group_burst", group_rate.map(|(_, burst)| burst));
    (sentence, row)
}

/// Returns a rate as a flag has it, and its burst.
fn described_rate(rate: &proto::QueueRate) -> (String, i32) {
    let per = rate.per.and_then(|per| Duration::try_from(per).ok());
    let per = humantime::format_duration(per.unwrap_or_default());
    (format!("{}/{per}", rate.items), rate.burst)
}
