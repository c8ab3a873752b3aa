//! `stats`: counts the items of each queue.

use clap::Args;
use lease_broker_proto as proto;

use super::place_args::{PlaceArgs, with_place};
use super::queue_row::{Columns, queue_fingerprint, queue_row};
use super::watch::{Entry, Look, watch};
use crate::cli::CommandError;

/// Count the items of each queue by state
///
/// Also shows the age of the oldest ready item and of the oldest lease, and pauses and operations if there are any. With --watch the
/// table has the items per second at all brokers together, and so have JSON and CSV always. Needs no right to write, and does not wait for programs that write.
#[derive(Debug, Args)]
#[command(after_help = with_place("\
Fields of --output json and csv: queue; ready, leased, delayed, completed, dead; at_least (states that can have more items than \
were counted); oldest_ready_seconds, oldest_lease_seconds; sampled (states of which only a sample was searched for the oldest); \
claimed_per_second, completed_per_second, failed_per_second, expired_per_second, enqueued_per_second, released_per_second (over \
about 30 s); waiting_claims; problem (null, or the reason why the table cannot be read; the counts are null then); paused \
(claims, enqueue, both or null), pause_reason, pause_actor, pause_until; operations (ids).

Examples:
  lease-broker stats
  lease-broker stats --config queues.toml --output json
  lease-broker stats --watch                 show it again each second; in a pipe, print changes
  lease-broker stats --exact                 count every item instead of printing 10000+"))]
pub(in crate::cli) struct Stats {
    /// Count every item, which can take long [default: stop counting a state at 10,000 items]
    #[arg(long)]
    exact: bool,
    /// Look again each second. A terminal is drawn again. A pipe gets a line for each queue whose counts, pause or operations change
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

impl Stats {
    pub(in crate::cli) async fn run(self) -> Result<(), CommandError> {
        let admin = self.place.look_at_all().await?;
        let request = proto::ListQueuesRequest {
            queues: Vec::new(),
            exact: self.exact,
        };
        let output = self.place.output();
        let empty = "no queues";
        if !self.watch {
            let queues = admin.list_queues(request).await?.queues;
            let columns = Columns::of(&queues);
            let rows = queues.iter().map(|queue| queue_row(queue, columns));
            let rows: Vec<_> = rows.collect();
            output.print(&rows, empty);
            return Ok(());
        }
        let look = async || {
            let queues = admin.list_queues(request.clone()).await?.queues;
            let columns = Columns {
                rates: true,
                ..Columns::of(&queues)
            };
            let entry = |queue: &proto::QueueSummary| Entry {
                name: queue.queue.clone(),
                fingerprint: queue_fingerprint(queue),
                row: queue_row(queue, columns),
            };
            Ok(Look {
                entries: queues.iter().map(entry).collect(),
                is_over: false,
            })
        };
        watch(output, empty, look).await
    }
}
