//! Mistakes of the program and odd answers of a broker. They lose no item and do not end the worker.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lease_broker_proto::lease_service_server::{LeaseService, LeaseServiceServer};
use lease_broker_proto::{self as proto, Outcome};
use tokio::sync::{Barrier, Notify};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::calls::Caller;
use super::memory_log::MemoryLog;
use super::options::Options;
use super::poller::Poller;
use super::state::State;
use super::transport::{Addresses, Transport};
use super::*;

/// The time that a lease has left after each claim and heartbeat.
const LEASE: prost_types::Duration = prost_types::Duration {
    seconds: 30,
    nanos: 0,
};

/// A broker that records its calls. The first claim gets up to two leases of 30 s. Later claims are never answered, or with an error.
#[derive(Clone, Default)]
struct Broker {
    /// The errors of the first calls of Complete, Wake and `ReleaseClaims`.
    errors: Arc<Mutex<VecDeque<Status>>>,
    /// The errors of the claims after the first one.
    claim_errors: Arc<Mutex<VecDeque<Status>>>,
    claims: Arc<Mutex<usize>>,
    completes: Arc<Mutex<Vec<proto::CompleteRequest>>>,
    failures: Arc<Mutex<Vec<proto::Failure>>>,
    wakes: Arc<Mutex<Vec<String>>>,
    /// Each `ReleaseClaims` waits here twice before its answer.
    releases: Option<Arc<Barrier>>,
    /// Each `Complete` notifies this, and is never answered.
    unanswered: Option<Arc<Notify>>,
}

impl Broker {
    fn serve(&self) -> SocketAddr {
        let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let address = incoming.local_addr().expect("an address");
        let router = Server::builder().add_service(LeaseServiceServer::new(self.clone()));
        tokio::spawn(router.serve_with_incoming(incoming));
        address
    }

    /// Returns a worker for the broker.
    fn worker(&self) -> Worker {
        Worker::new(self.serve().to_string(), "work")
    }

    /// Returns the text of the first failure.
    fn failure(&self) -> String {
        lock(&self.failures)[0].error_message.clone()
    }

    fn error(&self) -> Result<(), Status> {
        let error = lock(&self.errors).pop_front();
        error.map_or(Ok(()), Err)
    }
}

type Answer<T> = Result<Response<T>, Status>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic")
}

/// A handler that completes its item.
async fn complete(_: Item, _: Context) -> Result<Done, HandlerError> {
    Ok(Done::new())
}

fn applied(count: usize) -> Vec<proto::SettleResult> {
    let result = proto::SettleResult {
        outcome: Outcome::Applied.into(),
        ..proto::SettleResult::default()
    };
    vec![result; count]
}

#[tonic::async_trait]
impl LeaseService for Broker {
    async fn wake(&self, request: Request<proto::WakeRequest>) -> Answer<proto::WakeResponse> {
        let token = request.metadata().get("authorization");
        let token = token.map_or("", |token| token.to_str().expect("text"));
        lock(&self.wakes).push(token.to_owned());
        self.error()?;
        Ok(Response::new(proto::WakeResponse {}))
    }

    async fn claim_batch(
        &self,
        request: Request<proto::ClaimBatchRequest>,
    ) -> Answer<proto::ClaimBatchResponse> {
        let call = {
            let mut claims = lock(&self.claims);
            *claims += 1;
            *claims
        };
        if call > 1 {
            let error = lock(&self.claim_errors).pop_front();
            return Err(match error {
                Some(error) => error,
                None => std::future::pending().await,
            });
        }
        let lease = |id: &str| proto::Lease {
            lease_id: id.to_owned(),
            item: Some(proto::Item {
                key: id.to_owned(),
                ..proto::Item::default()
            }),
            time_left: Some(LEASE),
            ..proto::Lease::default()
        };
        Ok(Response::new(proto::ClaimBatchResponse {
            leases: if request.get_ref().max_items == 1 {
                vec![lease("1")]
            } else {
                vec![lease("1"), lease("2")]
            },
            ..proto::ClaimBatchResponse::default()
        }))
    }

    async fn complete(
        &self,
        request: Request<proto::CompleteRequest>,
    ) -> Answer<proto::CompleteResponse> {
        if let Some(unanswered) = &self.unanswered {
            unanswered.notify_one();
            std::future::pending::<()>().await;
        }
        self.error()?;
        let results = applied(request.get_ref().completions.len());
        let mut completes = lock(&self.completes);
        completes.push(request.into_inner());
        Ok(Response::new(proto::CompleteResponse {
            results,
            ..proto::CompleteResponse::default()
        }))
    }

    async fn fail(&self, request: Request<proto::FailRequest>) -> Answer<proto::FailResponse> {
        let failures = request.into_inner().failures;
        let results = applied(failures.len());
        lock(&self.failures).extend(failures);
        Ok(Response::new(proto::FailResponse {
            results,
            ..proto::FailResponse::default()
        }))
    }

    async fn release(
        &self,
        request: Request<proto::ReleaseRequest>,
    ) -> Answer<proto::ReleaseResponse> {
        let results = applied(request.into_inner().releases.len());
        Ok(Response::new(proto::ReleaseResponse { results }))
    }

    async fn release_claims(
        &self,
        _: Request<proto::ReleaseClaimsRequest>,
    ) -> Answer<proto::ReleaseClaimsResponse> {
        if let Some(barrier) = &self.releases {
            barrier.wait().await;
            barrier.wait().await;
        }
        self.error()?;
        Ok(Response::new(proto::ReleaseClaimsResponse::default()))
    }

    async fn heartbeat(
        &self,
        request: Request<proto::HeartbeatRequest>,
    ) -> Answer<proto::HeartbeatResponse> {
        let result = proto::HeartbeatResult {
            outcome: Outcome::Applied.into(),
            time_left: Some(LEASE),
            ..proto::HeartbeatResult::default()
        };
        let results = vec![result; request.into_inner().renewals.len()];
        Ok(Response::new(proto::HeartbeatResponse { results }))
    }

    async fn enqueue(&self, _: Request<proto::EnqueueRequest>) -> Answer<proto::EnqueueResponse> {
        Ok(Response::new(proto::EnqueueResponse::default()))
    }
}

fn client(address: SocketAddr, token: Token) -> Client {
    let client = Client::new(&address.to_string(), Credentials::plaintext(), Some(token));
    client.expect("a client").timeout(Duration::from_secs(4))
}

#[tokio::test]
async fn refused_next_claim_does_not_refuse_the_completion() {
    let details = ErrorDetails::with_bad_request_violation("next.lease_duration", "too long");
    let refused = Status::with_error_details(Code::InvalidArgument, "too long", details);
    let broker = Broker::default();
    lock(&broker.errors).push_back(refused.clone());
    lock(&broker.claim_errors).push_back(refused);
    let worker = broker.worker().start(complete).expect("a worker");
    let error = worker.wait().await.expect_err("the next claim is refused");
    assert!(error.to_string().starts_with("ClaimBatch: "), "{error}");
    let completes = lock(&broker.completes).clone();
    let counts = completes.iter().map(|call| call.completions.len());
    assert_eq!(counts.sum::<usize>(), 1);
    assert!(lock(&broker.failures).is_empty());
}

#[tokio::test]
async fn token_that_cannot_be_read_is_read_again() {
    let broker = Broker::default();
    let reads = Arc::new(Mutex::new(0));
    let token = Token::function(move |_| {
        let mut reads = lock(&reads);
        *reads += 1;
        let read = *reads;
        async move {
            match read {
                1 => Err("no such file".into()),
                2 => panic!("a bug"),
                _ => Ok("known".to_owned()),
            }
        }
    });
    let client = client(broker.serve(), token);
    client.wake("work").await.expect("the third attempt");
    assert_eq!(*lock(&broker.wakes), ["Bearer known"]);
}

#[tokio::test]
async fn error_of_a_missing_token_is_temporary() {
    let broker = Broker::default();
    let client = client(broker.serve(), Token::file("/missing/token"));
    let error = client.wake("work").await.expect_err("no token");
    assert!(error.temporary, "{error}");
    assert_eq!(error.applied, Applied::No);
    let text = "the token cannot be read: /missing/token";
    assert!(error.message.starts_with(text), "{error}");
}

#[tokio::test]
async fn deadline_of_the_broker_is_followed_by_the_usual_waits() {
    let mut late = Status::deadline_exceeded("late");
    late.metadata_mut()
        .insert("grpc-retry-pushback-ms", "-1".parse().expect("text"));
    let broker = Broker::default();
    lock(&broker.errors).extend(vec![late; 100]);
    let client = client(broker.serve(), Token::text("known"));
    client.wake("work").await.expect_err("the time is over");
    let wakes = lock(&broker.wakes).len();
    assert!((2..=12).contains(&wakes), "{wakes} calls");
}

#[tokio::test]
async fn endless_times_of_the_options_are_no_limits() {
    let broker = Broker::default();
    let worker = broker
        .worker()
        .concurrency(usize::MAX)
        .lease(Duration::MAX)
        .time_limit(Duration::MAX)
        .stuck_after(Duration::MAX)
        .max_items(2)
        .start(|_, _| async { Err(Retry::new("later").after(Duration::MAX).into()) })
        .expect("a worker");
    worker.wait().await.expect("all items are settled");
    assert_eq!(lock(&broker.failures).len(), 2);
    worker.stop(Duration::MAX).await.expect("it has stopped");
}

#[tokio::test]
async fn batch_result_of_another_item_fails_the_batch() {
    for fails in [true, false] {
        let broker = Broker::default();
        let worker = broker
            .worker()
            .max_items(2)
            .start_batches(2, move |_, _| async move {
                let (mut done, item) = (BatchDone::new(), Item::of_row("1", Row::new()));
                if fails {
                    done.fail(&item, Retry::new("refused"));
                } else {
                    done.complete(&item, Done::new());
                }
                Ok(done)
            })
            .expect("a worker");
        worker.wait().await.expect("all items are settled");
        assert_eq!(lock(&broker.failures).len(), 2);
        let text = "Error: the results name an item that is not in this batch: pass the items that the handler was given";
        assert_eq!(broker.failure(), text);
    }
}

#[tokio::test]
async fn white_space_around_a_token_is_removed() {
    let broker = Broker::default();
    let address = broker.serve();
    let read = Token::function(|_| async { Ok("known\r\n".to_owned()) });
    for token in [read, Token::text(" known\n")] {
        client(address, token).wake("work").await.expect("a token");
    }
    let expected = ["Bearer known", "Bearer known"];
    assert_eq!(*lock(&broker.wakes), expected);
}

#[tokio::test]
async fn malformed_token_is_an_error_without_the_token() {
    let address = Broker::default().serve();
    for text in ["secr\net", "secr\u{e9}t", "secr\0t"] {
        let token = Token::function(move |_| async move { Ok(text.to_owned()) });
        let error = client(address, token).wake("work").await;
        let error = error.expect_err("malformed");
        let problem = "character 5 of the token";
        assert!(error.message.contains(problem), "{error}");
        assert!(!error.message.contains("secr"), "{error}");
        let worker = Worker::new("127.0.0.1:1", "work").token(Token::text(text));
        let error = worker.start(complete).err();
        assert!(matches!(error, Some(WorkerError::Options(text)) if !text.contains("secr")));
    }
}

#[tokio::test]
async fn token_function_that_does_not_return_delays_no_stop() {
    let asked = Arc::new(Notify::new());
    let ask = asked.clone();
    let token = Token::function(move |_| {
        ask.notify_one();
        std::future::pending()
    });
    let worker = Broker::default()
        .worker()
        .token(token)
        .start(complete)
        .expect("a worker");
    asked.notified().await;
    let stop = tokio::time::timeout(Duration::from_secs(60), worker.stop(Duration::ZERO));
    stop.await.expect("a stop in time").expect("no error");
}

#[tokio::test]
async fn token_text_that_is_the_name_of_a_file_is_refused() {
    let worker = Worker::new("127.0.0.1:1", "work").token(Token::text("Cargo.toml"));
    let error = worker.start(complete).err();
    let text = "token: Cargo.toml is a file: use Token::file";
    assert_eq!(error.map(|error| error.to_string()).as_deref(), Some(text));
}

#[tokio::test]
async fn empty_token_file_is_read_again() {
    let file = std::env::temp_dir().join(format!("token-{}", std::process::id()));
    std::fs::write(&file, "").expect("a file");
    let token = Token::file(&file);
    let error = token.get(false).await.expect_err("no token");
    assert_eq!(error, "the token is empty");
    std::fs::write(&file, "known\n").expect("a file");
    assert_eq!(token.get(false).await.as_deref(), Ok("known"));
    std::fs::remove_file(&file).expect("the file");
}

/// Starts a worker for two items whose handlers run on a runtime of their own.
fn start_on(
    address: SocketAddr,
    runtime: &tokio::runtime::Runtime,
    on_event: impl Fn(&Event) + Send + Sync + 'static,
) -> RunningWorker {
    let _guard = runtime.enter();
    let worker = Worker::new(address.to_string(), "work");
    worker
        .concurrency(2)
        .on_event(on_event)
        .start(|_, _| std::future::pending())
        .expect("a worker")
}

fn count(worker: &RunningWorker, name: EventName) -> u64 {
    let counters = worker.counters();
    let found = counters.iter().find(|(counted, _)| *counted == name);
    found.expect("a counter").1
}

#[tokio::test]
async fn worker_whose_runtime_has_ended_releases_its_items() {
    for is_running in [true, false] {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let (send, mut started) = tokio::sync::mpsc::unbounded_channel();
        let observer = move |event: &Event| {
            assert_eq!(event.queue, "work");
            if event.name == EventName::Started {
                let _ = send.send(());
            }
        };
        let worker = start_on(Broker::default().serve(), &runtime, observer);
        if is_running {
            started.recv().await.expect("a handler");
            started.recv().await.expect("a handler");
        }
        runtime.shutdown_background();
        let ended = tokio::time::timeout(Duration::from_secs(60), worker.wait());
        let error = ended.await.expect("an end").expect_err("no runtime");
        let text = "the tokio runtime of the handlers has ended";
        assert_eq!(error.to_string(), text);
        assert_eq!(count(&worker, EventName::Released), 2);
        assert!(!worker.health());
    }
}

struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[tokio::test]
async fn panic_in_a_drop_fails_the_item() {
    for (runs_on, limit, text) in [
        (true, Duration::from_millis(10), "time limit of 0.01 s"),
        (false, Duration::from_secs(60), "panic: unknown"),
    ] {
        let broker = Broker::default();
        let worker = broker
            .worker()
            .max_items(1)
            .time_limit(limit)
            .start(move |_, _| async move {
                let local = PanicsInDrop;
                if runs_on {
                    std::future::pending::<()>().await;
                }
                std::panic::panic_any(local)
            })
            .expect("a worker");
        let ended = tokio::time::timeout(Duration::from_secs(60), worker.wait());
        ended.await.expect("an end").expect("no error");
        assert_eq!(broker.failure(), text);
    }
}

#[tokio::test]
async fn max_items_counts_the_items_of_batches() {
    for items in [1, 2] {
        let broker = Broker::default();
        let worker = broker
            .worker()
            .concurrency(3)
            .max_items(items)
            .start_batches(2, |_, _| async { Ok(BatchDone::new()) })
            .expect("a worker");
        worker.wait().await.expect("all items are settled");
        assert_eq!(*lock(&broker.claims), 1);
        assert_eq!(count(&worker, EventName::Completed), items as u64);
    }
}

#[tokio::test]
async fn option_out_of_range_is_refused() {
    let worker = || Worker::new("127.0.0.1:1", "work");
    for (problem, worker) in [
        ("concurrency is 0", worker().concurrency(0)),
        ("max_stuck is 0", worker().max_stuck(0)),
        ("stuck_after is 0", worker().stuck_after(Duration::ZERO)),
        ("lease is 0", worker().lease(Duration::ZERO)),
        ("time_limit is 0", worker().time_limit(Duration::ZERO)),
        ("wait is 61s", worker().wait(Duration::from_secs(61))),
    ] {
        let error = worker.start(complete).err();
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        let problem = format!("{problem}; it must be");
        assert!(text.starts_with(&problem), "{text}");
    }
}

fn poller_with_abandoned_claims(address: SocketAddr, claims: &[&str]) -> Poller {
    let address = address.to_string();
    let options = Options::new(address.clone(), "work".to_owned());
    let state = Arc::new(State::new(options, Box::new(|_, _| {})));
    state.lock().abandoned = claims.iter().map(|&id| id.to_owned()).collect();
    let addresses = Addresses::parse(&address, Credentials::plaintext()).expect("an address");
    Poller {
        state,
        caller: Caller {
            transport: Transport::new(addresses),
            token: None,
            on_attempt: Arc::new(|_| {}),
            on_retry: Arc::new(|_, _| {}),
        },
    }
}

#[tokio::test]
async fn release_of_abandoned_claims_is_sent_again_only_if_it_can_succeed() {
    let minute = ErrorDetails::with_retry_info(Some(Duration::from_secs(60)));
    let later = Status::with_error_details(Code::ResourceExhausted, "wait", minute);
    for (error, calls) in [(Status::permission_denied("no"), 1), (later, 3)] {
        let broker = Broker::default();
        lock(&broker.errors).extend(vec![error; 3]);
        let poller = poller_with_abandoned_claims(broker.serve(), &["a"]);
        let log = MemoryLog::default();
        let _guard = log.collect();
        for forget in [false, true, true] {
            poller.release_abandoned(forget).await;
        }
        assert_eq!(lock(&broker.errors).len(), 3 - calls);
        assert_eq!(poller.state.lock().abandoned.is_empty(), calls == 1);
        assert_eq!(log.lines().len(), if calls == 1 { 1 } else { 2 });
    }
}

#[tokio::test]
async fn pollers_release_abandoned_claims_at_the_same_time() {
    let barrier = Arc::new(Barrier::new(3));
    let broker = Broker {
        releases: Some(barrier.clone()),
        ..Broker::default()
    };
    let poller = poller_with_abandoned_claims(broker.serve(), &["a", "b"]);
    let state = poller.state.clone();
    let releases = [poller.clone(), poller]
        .map(|poller| tokio::spawn(async move { poller.release_abandoned(true).await }));
    barrier.wait().await;
    // Another claim is abandoned while the calls run.
    state.lock().abandoned.push("c".to_owned());
    barrier.wait().await;
    for release in releases {
        release.await.expect("no panic");
    }
    assert_eq!(state.lock().abandoned, ["c"]);
}

#[tokio::test]
async fn settlement_that_a_proxy_finds_too_large_fails_its_item() {
    let broker = Broker::default();
    let text = "grpc-status header missing, mapped from HTTP status code 413";
    let error = Status::unknown(text);
    lock(&broker.errors).push_back(error);
    let worker = broker
        .worker()
        .max_items(1)
        .start(complete)
        .expect("a worker");
    worker.wait().await.expect("all items are settled");
    assert_eq!(broker.failure(), format!("Refused: {text}"));
    assert_eq!(count(&worker, EventName::Retry), 0);
}

#[tokio::test]
async fn settlement_that_a_stop_gives_up_is_unknown() {
    let settling = Arc::new(Notify::new());
    let broker = Broker {
        unanswered: Some(settling.clone()),
        ..Broker::default()
    };
    let worker = broker.worker().start(complete).expect("a worker");
    settling.notified().await;
    worker.stop(Duration::ZERO).await.expect("no error");
    assert_eq!(count(&worker, EventName::Unknown), 1);
}

#[tokio::test]
async fn item_that_middleware_leaves_out_fails() {
    let broker = Broker::default();
    let worker = broker
        .worker()
        .max_items(1)
        .middleware(|_, context, next| next.run(Vec::new(), context))
        .start(complete)
        .expect("a worker");
    worker.wait().await.expect("the item is settled");
    let text = broker.failure();
    let problem = "Error: middleware must pass exactly one item on";
    assert!(text.starts_with(problem), "{text}");
}

#[tokio::test]
async fn dropped_handler_is_not_stuck() {
    let broker = Broker::default();
    let worker = broker
        .worker()
        .max_items(1)
        .time_limit(Duration::from_millis(10))
        .stuck_after(Duration::from_secs(3))
        .start(|_, _| std::future::pending())
        .expect("a worker");
    worker.wait().await.expect("the item is settled");
    assert!(worker.counters().contains(&(EventName::Stuck, 0)));
    assert_eq!(lock(&broker.failures).len(), 1);
}

#[tokio::test]
async fn worker_that_is_refused_stops_the_others() {
    let broker = Broker::default();
    lock(&broker.claim_errors).push_back(Status::not_found("no such queue"));
    let address = broker.serve().to_string();
    let connection = Connection::new(&address, Credentials::plaintext()).expect("valid");
    // The second claim is refused. A claim after it is never answered.
    let workers = ["a", "b"].map(|queue| {
        let worker = connection.worker(queue).start(complete);
        worker.expect("it starts")
    });
    let ended = tokio::time::timeout(Duration::from_secs(60), running::wait_all(&workers));
    let error = ended.await.expect("both stop").expect_err("refused");
    assert!(matches!(error, WorkerError::Refused(_)), "{error}");
}
