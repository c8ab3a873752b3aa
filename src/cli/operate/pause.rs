//! `pause` and `resume`: stop a queue and let it continue.

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;
use lease_broker_proto as proto;
use prost_types::Timestamp;

use super::audit_args::AuditArgs;
use super::complete;
use super::place_args::{PlaceArgs, with_place};
use super::queue_row::{pause_row, pause_text};
use super::time_args::parse_future;
use crate::cli::CommandError;

/// Pause a queue: give no more leases, or refuse new items
///
/// The pause is stored in the database. It counts for all brokers, and survives restarts. Workers that hold leases continue: heartbeats,
/// completions and failures are not paused. A queue that is paused already gets the new pause.
#[derive(Debug, Args)]
#[command(after_help = with_place("\
Examples:
  lease-broker pause rainfall --reason maintenance
  lease-broker pause rainfall --until 2h                          end the pause by itself
  lease-broker pause rainfall --mode enqueue --reason draining   let workers empty the queue"))]
pub(in crate::cli) struct Pause {
    /// Queue to pause
    #[arg(add = ArgValueCandidates::new(complete::queues))]
    queue: String,
    /// The part to pause
    #[arg(long, value_enum, default_value_t = ModeName::Claims)]
    mode: ModeName,
    /// Reason, for colleagues who find the queue paused
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// End of the pause: RFC 3339, or a duration from now such as 2h [default: until `resume`]
    #[arg(long, value_name = "TIME", value_parser = parse_future)]
    until: Option<Timestamp>,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeName {
    /// Claims get no lease.
    Claims,
    /// New items are refused.
    Enqueue,
    /// Both.
    Both,
}

impl From<ModeName> for proto::PauseMode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Claims => Self::Claims,
            ModeName::Enqueue => Self::Enqueue,
            ModeName::Both => Self::Both,
        }
    }
}

impl Pause {
    pub(in crate::cli) async fn run(self) -> Result<(), CommandError> {
        let admin = self.place.change(Some(&self.queue)).await?;
        let request = proto::PauseQueueRequest {
            queue: self.queue.clone(),
            mode: proto::PauseMode::from(self.mode).into(),
            reason: self.reason.unwrap_or_default(),
            until: self.until,
        };
        let pause = admin.pause_queue(request).await?.pause.unwrap_or_default();
        let row = pause_row(&self.queue, Some(&pause));
        self.place.output().print_result(&pause_text(&pause), &row);
        Ok(())
    }
}

/// End the pause of a queue
#[derive(Debug, Args)]
#[command(after_help = with_place("\
Examples:
  lease-broker resume rainfall"))]
pub(in crate::cli) struct Resume {
    /// Queue to resume
    #[arg(add = ArgValueCandidates::new(complete::queues))]
    queue: String,
    #[command(flatten)]
    audit: AuditArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

impl Resume {
    pub(in crate::cli) async fn run(self) -> Result<(), CommandError> {
        let admin = self.place.change(Some(&self.queue)).await?;
        let request = proto::ResumeQueueRequest {
            queue: self.queue.clone(),
            reason: self.audit.reason,
        };
        let ended = admin.resume_queue(request).await?.ended;
        let queue = &self.queue;
        let sentence = match &ended {
            Some(_) => format!("queue {queue} is not paused any more"),
            None => format!("queue {queue} was not paused"),
        };
        let row = pause_row(queue, None).field("was_paused", ended.is_some());
        self.place.output().print_result(&sentence, &row);
        Ok(())
    }
}
