use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use lease_broker_model::trace_context::Span;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::SpanData;
use tokio::sync::Semaphore;

use super::*;

/// A collector of which a test decides what it answers.
#[derive(Clone, Debug)]
struct Collector(Arc<State>);

#[derive(Debug)]
struct State {
    /// The number of messages that it answers. It never answers the others.
    answers: Semaphore,
    /// The number of messages, among those that it answers, that it refuses first.
    refusals: AtomicUsize,
    received: AtomicUsize,
}

impl Collector {
    fn new(answers: usize, refusals: usize) -> Self {
        Self(Arc::new(State {
            answers: Semaphore::new(answers),
            refusals: AtomicUsize::new(refusals),
            received: AtomicUsize::new(0),
        }))
    }
}

impl SpanExporter for Collector {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let Self(state) = self;
        state.answers.acquire().await.expect("open").forget();
        let refuse = |left: usize| left.checked_sub(1);
        let refused = state
            .refusals
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, refuse);
        if refused.is_ok() {
            return Err(OTelSdkError::InternalFailure("refused".to_owned()));
        }
        state.received.fetch_add(batch.len(), Ordering::Relaxed);
        Ok(())
    }
}

fn settings() -> ExportQueueSettings {
    ExportQueueSettings {
        queue_size: 1_000,
        batch_size: 100,
        schedule_delay: Duration::from_millis(10),
        export_timeout: Duration::from_secs(5),
        max_spans_per_second: NonZeroU32::new(1_000_000).expect("not zero"),
    }
}

fn open(collector: &Collector, settings: ExportQueueSettings) -> (ExportQueue, Arc<SpanCounters>) {
    let counters = Arc::new(SpanCounters::default());
    let export_queue = ExportQueue::open(collector.clone(), settings, counters.clone());
    (export_queue, counters)
}

fn span(kind: SpanKind) -> FinishedSpan {
    FinishedSpan {
        name: "span".into(),
        kind,
        span: Span {
            trace_id: 1,
            span_id: 1,
        },
        parent: None,
        start: SystemTime::UNIX_EPOCH,
        end: SystemTime::UNIX_EPOCH,
        error: None,
        attributes: Vec::new(),
        links: Vec::new(),
    }
}

fn emit(export_queue: &ExportQueue, kind: SpanKind, spans: usize) {
    for _ in 0..spans {
        export_queue.emit(span(kind));
    }
}

/// Returns the numbers of exported, failed and dropped spans, which must sum up to the emitted ones.
fn results(counters: &SpanCounters) -> [u64; 3] {
    let results = [counters.exported(), counters.failed(), counters.dropped()];
    assert_eq!(results.iter().sum::<u64>(), counters.emitted());
    results
}

const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test(start_paused = true)]
async fn closing_exports_all_that_waits() {
    let collector = Collector::new(100, 0);
    let (export_queue, counters) = open(&collector, settings());
    emit(&export_queue, SpanKind::Consumer, 950);
    export_queue.close(LIMIT).await;
    assert_eq!(results(&counters), [950, 0, 0]);
    assert_eq!(collector.0.received.load(Ordering::Relaxed), 950);
    emit(&export_queue, SpanKind::Consumer, 1);
    assert_eq!(results(&counters), [950, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn spans_beyond_the_queue_are_dropped() {
    let collector = Collector::new(100, 0);
    let (export_queue, counters) = open(&collector, settings());
    emit(&export_queue, SpanKind::Consumer, 1_200);
    export_queue.close(LIMIT).await;
    assert_eq!(results(&counters), [1_000, 0, 200]);
}

#[tokio::test(start_paused = true)]
async fn nearly_full_queue_takes_only_lease_spans() {
    let collector = Collector::new(100, 0);
    let (export_queue, counters) = open(&collector, settings());
    emit(&export_queue, SpanKind::Server, 1_000);
    assert_eq!(export_queue.queue_size(), (750, 1_000));
    emit(&export_queue, SpanKind::Consumer, 100);
    assert_eq!(export_queue.queue_size(), (850, 1_000));
    export_queue.close(LIMIT).await;
    assert_eq!(results(&counters), [850, 0, 250]);
}

#[tokio::test(start_paused = true)]
async fn refused_messages_count_as_failed() {
    let collector = Collector::new(100, 2);
    let (export_queue, counters) = open(&collector, settings());
    emit(&export_queue, SpanKind::Consumer, 500);
    export_queue.close(LIMIT).await;
    assert_eq!(results(&counters), [300, 200, 0]);
}

#[tokio::test(start_paused = true)]
async fn silent_collector_delays_the_close_by_the_limit_at_most() {
    let collector = Collector::new(1, 0);
    let (export_queue, counters) = open(&collector, settings());
    emit(&export_queue, SpanKind::Consumer, 1_000);
    let start = Instant::now();
    export_queue.close(Duration::from_secs(2)).await;
    assert_eq!(start.elapsed(), Duration::from_secs(2));
    assert_eq!(results(&counters), [100, 100, 800]);
}

#[tokio::test(start_paused = true)]
async fn message_without_an_answer_fails_after_the_timeout() {
    let collector = Collector::new(0, 0);
    let (export_queue, counters) = open(&collector, settings());
    emit(&export_queue, SpanKind::Consumer, 100);
    tokio::time::sleep(settings().export_timeout * 2).await;
    assert_eq!(results(&counters), [0, 100, 0]);
    collector.0.answers.add_permits(1);
    emit(&export_queue, SpanKind::Consumer, 50);
    export_queue.close(LIMIT).await;
    assert_eq!(results(&counters), [50, 100, 0]);
}

#[tokio::test(start_paused = true)]
async fn rate_of_spans_is_limited() {
    let collector = Collector::new(100, 0);
    let settings = ExportQueueSettings {
        max_spans_per_second: NonZeroU32::new(10).expect("not zero"),
        ..settings()
    };
    let (export_queue, counters) = open(&collector, settings);
    emit(&export_queue, SpanKind::Consumer, 900);
    export_queue.close(LIMIT).await;
    let [exported, failed, dropped] = results(&counters);
    assert!((10..100).contains(&exported), "{exported}");
    assert_eq!((failed, exported + dropped), (0, 900));
}

#[tokio::test(start_paused = true)]
async fn few_spans_are_sent_after_the_delay() {
    let collector = Collector::new(100, 0);
    let (export_queue, counters) = open(&collector, settings());
    emit(&export_queue, SpanKind::Consumer, 3);
    tokio::time::sleep(settings().schedule_delay * 3).await;
    assert_eq!(results(&counters), [3, 0, 0]);
    export_queue.close(LIMIT).await;
}
