//! The export queue of spans: a bounded queue between the broker and the collector, and the task that sends its spans.
//!
//! The broker never waits for a collector. A span that finds the queue full is dropped and counted. While the queue is
//! nearly full, only the spans of leases enter, because nothing else tells how a lease ended.
//!
//! Each span is counted as exported, failed or dropped, exactly once. So an operator can tell how much a trace view lacks.

use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use opentelemetry_sdk::trace::SpanExporter;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::span_counters::SpanCounters;
use super::span_data::span_data;
use crate::span::{FinishedSpan, SpanKind, SpanSink};

/// Settings of the export queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExportQueueSettings {
    /// The number of spans that wait. At least 1.
    pub(super) queue_size: usize,
    /// The maximum number of spans in a message to the collector. At least 1.
    pub(super) batch_size: usize,
    /// The longest time that a span waits for others to share its message.
    pub(super) schedule_delay: Duration,
    /// The time limit of a message, retries included.
    pub(super) export_timeout: Duration,
    /// The number of spans per second that may enter.
    pub(super) max_spans_per_second: NonZeroU32,
}

/// The sending end of the export queue.
pub(super) struct ExportQueue {
    queue: mpsc::Sender<FinishedSpan>,
    counters: Arc<SpanCounters>,
    rate: DefaultDirectRateLimiter,
    closing: Mutex<Option<Closing>>,
}

/// What is needed to close the export queue once.
struct Closing {
    /// Tells the task the time at which it must have ended.
    deadline: oneshot::Sender<Instant>,
    task: JoinHandle<()>,
}

impl ExportQueue {
    /// Opens an export queue and starts its task. Must be called inside a tokio runtime.
    pub(super) fn open(
        exporter: impl SpanExporter + 'static,
        settings: ExportQueueSettings,
        counters: Arc<SpanCounters>,
    ) -> Self {
        let (queue, spans) = mpsc::channel(settings.queue_size);
        let (deadline, closing) = oneshot::channel();
        let sender = Sender {
            exporter,
            settings,
            counters: counters.clone(),
            failing: false,
        };
        Self {
            queue,
            counters,
            rate: RateLimiter::direct(Quota::per_second(settings.max_spans_per_second)),
            closing: Mutex::new(Some(Closing {
                deadline,
                task: tokio::spawn(sender.run(spans, closing)),
            })),
        }
    }

    /// Returns the number of spans that wait, and the maximum.
    pub(super) fn queue_size(&self) -> (usize, usize) {
        let max = self.queue.max_capacity();
        (max - self.queue.capacity(), max)
    }

    /// Sends the spans that wait, for at most `limit`. Spans that are left then, and all later ones, are dropped.
    pub(super) async fn close(&self, limit: Duration) {
        let closing = self.closing.lock().take();
        if let Some(Closing { deadline, task }) = closing {
            let _ = deadline.send(Instant::now() + limit);
            let _ = task.await;
        }
    }
}

impl SpanSink for ExportQueue {
    fn emit(&self, span: FinishedSpan) {
        self.counters.add_emitted(1);
        let (waiting, max) = self.queue_size();
        let nearly_full = waiting >= max - max / 4;
        let has_room = span.kind == SpanKind::Consumer || !nearly_full;
        let entered = has_room && self.rate.check().is_ok() && self.queue.try_send(span).is_ok();
        if !entered {
            self.counters.add_dropped(1);
        }
    }

    fn leave_out(&self) {
        self.counters.add_not_kept(1);
    }
}

/// The task that sends spans to the collector.
struct Sender<E> {
    exporter: E,
    settings: ExportQueueSettings,
    counters: Arc<SpanCounters>,
    /// True after a message that could not be sent.
    failing: bool,
}

impl<E: SpanExporter> Sender<E> {
    async fn run(
        mut self,
        mut spans: mpsc::Receiver<FinishedSpan>,
        mut closing: oneshot::Receiver<Instant>,
    ) {
        let mut batch = Vec::with_capacity(self.settings.batch_size);
        let deadline = loop {
            tokio::select! {
                deadline = &mut closing => break deadline,
                () = collect(&mut spans, &mut batch, self.settings) => {}
            }
            let mut sending = pin!(self.send(&mut batch));
            tokio::select! {
                () = &mut sending => {}
                deadline = &mut closing => {
                    let limit = deadline.clone().unwrap_or_else(|_| Instant::now());
                    let _ = timeout_at(limit, sending).await;
                    break deadline;
                }
            }
        };
        // The export queue is closed, or dropped without being closed.
        let deadline = deadline.unwrap_or_else(|_| Instant::now());
        spans.close();
        while Instant::now() < deadline {
            let room = self.settings.batch_size - batch.len();
            if room > 0 {
                spans.recv_many(&mut batch, room).await;
            }
            if batch.is_empty() {
                return;
            }
            let _ = timeout_at(deadline, self.send(&mut batch)).await;
        }
        let mut left = batch.len();
        while spans.recv().await.is_some() {
            left += 1;
        }
        if left > 0 {
            self.counters.add_dropped(left);
            tracing::warn!(spans = left, "spans dropped at the end of the process");
        }
    }

    /// Sends the batch and empties it. If it is cancelled, the spans count as failed.
    async fn send(&mut self, batch: &mut Vec<FinishedSpan>) {
        let failed = FailedSpans {
            counters: self.counters.clone(),
            number: batch.len(),
        };
        let message = batch.drain(..).map(span_data).collect();
        let sent = timeout(self.settings.export_timeout, self.exporter.export(message));
        let problem = match sent.await {
            Ok(Ok(())) => {
                failed.are_exported();
                if std::mem::take(&mut self.failing) {
                    tracing::info!("spans are exported again");
                }
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the collector did not answer in time".to_owned(),
        };
        self.failing = true;
        tracing::warn!(%problem, "spans not exported");
    }
}

/// The spans of a message under way. When it is dropped, they count as failed.
struct FailedSpans {
    counters: Arc<SpanCounters>,
    number: usize,
}

impl FailedSpans {
    fn are_exported(mut self) {
        self.counters.add_exported(std::mem::take(&mut self.number));
    }
}

impl Drop for FailedSpans {
    fn drop(&mut self) {
        self.counters.add_failed(self.number);
    }
}

/// Adds spans to the batch until it is full, or until the first span has waited for the delay. If it is cancelled, the
/// batch keeps its spans.
async fn collect(
    spans: &mut mpsc::Receiver<FinishedSpan>,
    batch: &mut Vec<FinishedSpan>,
    settings: ExportQueueSettings,
) {
    if batch.is_empty() && spans.recv_many(batch, settings.batch_size).await == 0 {
        // The queue is closed only by the task itself, so this does not happen.
        return std::future::pending().await;
    }
    let deadline = Instant::now() + settings.schedule_delay;
    while batch.len() < settings.batch_size {
        let room = settings.batch_size - batch.len();
        if timeout_at(deadline, spans.recv_many(batch, room))
            .await
            .is_err()
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
