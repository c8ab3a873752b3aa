//! Identities, roles, limits and queues that change while the broker runs.

use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use lease_broker_proto::lease_service_client::LeaseServiceClient;
use lease_broker_proto::{EnqueueRequest, ListBrokersRequest, Outcome};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};

use crate::security::fixture::{Files, authorization, call};
use crate::support::client::{Client, item};
use crate::support::http::get;
use crate::support::process::{BrokerProcess, program};
use crate::support::timeout::wait_until;

const AUTH: &str = "
[[auth.identities]]
name = 'fleet'
token = 'fleet'
roles = { admin = ['work'] }
";
const ANYONE: &str = "anonymous = ['admin']\n";
const QUEUE: &str = "
[queues.work]
managed_columns = { payload = 'text' }
";

/// A broker as a process of its own, which reads its configuration again on SIGHUP.
struct Broker {
    process: BrokerProcess,
    files: Files,
    token: String,
}

impl Broker {
    fn start() -> Self {
        Self::start_with(AUTH)
    }

    fn start_with(auth: &str) -> Self {
        Self::with_files(Files::new(), auth)
    }

    fn with_files(files: Files, auth: &str) -> Self {
        let token = files.add_token("fleet");
        files.write("config.toml", &settings(&files, auth, QUEUE));
        let (store, config) = (files.file("queues.db"), files.file("config.toml"));
        let process = BrokerProcess::serve(&store, &config);
        Self {
            process,
            files,
            token,
        }
    }

    /// Replaces the configuration, and waits until the log has this text.
    async fn reload(&self, auth: &str, queues: &str, logged: &str) {
        let text = settings(&self.files, auth, queues);
        self.files.write("config.toml", &text);
        self.process.signal("HUP");
        wait_until(logged, async || self.process.log().contains(logged)).await;
    }

    fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(self.process.url());
        endpoint.expect("a URL").connect_lazy()
    }

    /// Calls the broker. Returns the code of the answer.
    async fn call(&self, channel: &Channel, rpc: &str, queue: &str) -> Code {
        let called = call(channel, Some(&self.token), rpc, queue).await;
        called.map_or_else(|status| status.code(), |()| Code::Ok)
    }
}

fn settings(files: &Files, auth: &str, queues: &str) -> String {
    let tokens = files.file("tokens");
    format!(
        "admin.listen = '127.0.0.1:0'\n[auth]\ntokens_file = '{}'\n{auth}{queues}",
        tokens.display()
    )
}

#[tokio::test]
async fn roles_and_limits_change_on_an_open_connection() {
    let broker = Broker::start();
    let channel = broker.channel();
    assert_eq!(
        broker.call(&channel, "Wake", "more").await,
        Code::PermissionDenied
    );
    let more = AUTH.replace("['work']", "['work', 'more']");
    let logged = "changes=\"auth.identities.fleet.roles.admin\"";
    broker.reload(&more, QUEUE, logged).await;
    assert_eq!(broker.call(&channel, "Wake", "more").await, Code::NotFound);

    // 2 calls per second: of 100 at once, some are refused.
    let limited = format!("{more}limits = {{ calls_per_second = 2 }}\n");
    let logged = "+auth.identities.fleet.limits";
    broker.reload(&limited, QUEUE, logged).await;
    let calls = (0..100).map(|_| broker.call(&channel, "Wake", "work"));
    let codes = futures_util::future::join_all(calls).await;
    assert!(codes.contains(&Code::ResourceExhausted), "{codes:?}");
    let line = "event=\"limit.identity\" peer=127.0.0.1";
    wait_until(line, async || broker.process.log().contains(line)).await;

    let other = AUTH.replace("fleet", "others");
    broker.reload(&other, QUEUE, "-auth.identities.fleet").await;
    wait_until("the identity that left is refused", async || {
        broker.call(&channel, "Wake", "work").await == Code::Unauthenticated
    })
    .await;
}

#[tokio::test]
async fn each_sighup_has_a_line_in_the_log() {
    let broker = Broker::start();
    let more = AUTH.replace("['work']", "['work', 'more']");
    for (times, auth) in [(1, &*more), (2, AUTH), (3, &more)] {
        let text = settings(&broker.files, auth, QUEUE);
        broker.files.write("config.toml", &text);
        broker.process.signal("HUP");
        wait_until("the line is there", async || {
            let log = broker.process.log();
            log.matches("configuration read again").count() == times
        })
        .await;
    }
    broker.files.write("config.toml", "x =");
    for times in 1..=2 {
        broker.process.signal("HUP");
        wait_until("the line is there", async || {
            let log = broker.process.log();
            log.matches("configuration not changed").count() == times
        })
        .await;
    }
}

#[tokio::test]
async fn configuration_that_does_not_answer_keeps_no_broker_from_ending() {
    let mut broker = Broker::start();
    let config = make_pipe(&broker.files, "config.toml");
    broker.process.signal("HUP");
    let _writer = wait_until_read(&config).await;
    broker.process.signal("TERM");
    assert!(broker.process.wait().success());
}

#[tokio::test]
async fn tokens_that_do_not_answer_keep_no_broker_from_ending() {
    let mut broker = Broker::start();
    broker.files.write("pipe", "");
    let pipe = make_pipe(&broker.files, "pipe");
    let text = settings(&broker.files, AUTH, QUEUE);
    let tokens = broker.files.file("tokens").display().to_string();
    let text = text.replace(&tokens, &pipe.display().to_string());
    broker.files.write("config.toml", &text);
    broker.process.signal("HUP");
    let _writer = wait_until_read(&pipe).await;
    broker.process.signal("TERM");
    wait_until("the broker has ended", async || {
        !broker.process.is_running()
    })
    .await;
    assert!(broker.process.wait().success());
}

#[tokio::test]
async fn tokens_that_do_not_answer_keep_no_later_sighup_from_effect() {
    let broker = Broker::start();
    broker.files.write("pipe", "");
    let pipe = make_pipe(&broker.files, "pipe");
    let text = settings(&broker.files, AUTH, QUEUE);
    let tokens = broker.files.file("tokens").display().to_string();
    let text = text.replace(&tokens, &pipe.display().to_string());
    broker.files.write("config.toml", &text);
    broker.process.signal("HUP");
    let _writer = wait_until_read(&pipe).await;
    let more = AUTH.replace("['work']", "['work', 'more']");
    let logged = "changes=\"auth.identities.fleet.roles.admin\"";
    broker.reload(&more, QUEUE, logged).await;
}

#[tokio::test]
async fn sighup_during_the_start_is_obeyed_after_it() {
    let files = Files::new();
    files.write("config.toml", "");
    let (store, config) = (files.file("queues.db"), make_pipe(&files, "config.toml"));
    let log = files.file("queues.log");
    let mut command = tokio::process::Command::from(program());
    command.args(["serve", "--listen", "127.0.0.1:0", "--store"]);
    command.arg(&store).arg("--config").arg(&config);
    command.stdout(Stdio::null());
    command.stderr(File::create(&log).expect("a log"));
    let mut broker = command.kill_on_drop(true).spawn().expect("a process");
    let mut writer = File::from(wait_until_read(&config).await);
    let id = broker.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let send = |signal| kill_process(id.expect("an id"), signal).expect("sent");
    send(Signal::HUP);
    std::fs::remove_file(&config).expect("removed");
    files.write(
        "config.toml",
        &format!("admin.listen = ''\n{QUEUE}max_attempts = 7\n"),
    );
    let first = format!("admin.listen = ''\n{QUEUE}");
    writer.write_all(first.as_bytes()).expect("the broker runs");
    drop(writer);
    let logged = "changes=\"queues.work.max_attempts\"";
    wait_until(logged, async || {
        assert_eq!(broker.try_wait().expect("a state"), None, "it has ended");
        std::fs::read_to_string(&log)
            .expect("a log")
            .contains(logged)
    })
    .await;
    send(Signal::TERM);
    assert!(broker.wait().await.expect("an end").success());
}

/// The new layers know nothing of the past, so the running ones decide.
#[tokio::test]
async fn sighup_serves_no_database_that_went_back_in_time() {
    let files = Files::new();
    let (store, config) = (files.file("queues.db"), files.file("config.toml"));
    files.write("config.toml", QUEUE);
    let process = BrokerProcess::serve(&store, &config);
    let endpoint = Endpoint::from_shared(process.url()).expect("a URL");
    let client = Client::new(endpoint.connect_lazy(), "work");
    client.enqueue(&["a"]).await;
    // The next change begins a new log, so that the file decides.
    let checkpoint = || {
        let log = rusqlite::Connection::open(&store).expect("open");
        let done = log.query_row("PRAGMA wal_checkpoint", [], |_| Ok(()));
        done.expect("checkpoint");
    };
    let backup = files.file("backup.db");
    wait_for_announcement(&store).await;
    checkpoint();
    std::fs::copy(&store, &backup).expect("copied");
    wait_for_announcement(&store).await;
    checkpoint();
    // The store looks at its file at most this often.
    tokio::time::sleep(Duration::from_millis(100)).await;
    client.enqueue(&["a"]).await;
    std::fs::copy(&backup, &store).expect("copied");
    let refused = "went back in time";
    wait_until("the database is refused", async || {
        let _ = client.try_enqueue(vec![item("b")]).await;
        process.log().contains(refused)
    })
    .await;
    files.write("config.toml", &format!("{QUEUE}max_attempts = 11\n"));
    process.signal("HUP");
    let logged = "configuration not changed";
    wait_until(logged, async || process.log().contains(logged)).await;
    let answer = client.try_enqueue(vec![item("c")]).await;
    let refusal = answer.expect_err("it is refused as before");
    assert_eq!(refusal.code(), Code::Unavailable, "{refusal}");
}

/// Waits until the broker has announced itself again. Each announcement is a new generation of the database.
async fn wait_for_announcement(store: &Path) {
    let generation = || -> Vec<u8> {
        let database = rusqlite::Connection::open(store).expect("open");
        let read = "SELECT generation FROM lease_broker_generation";
        let read = database.query_row(read, [], |row| row.get(0));
        read.expect("a generation")
    };
    let before = generation();
    wait_until("the broker announces itself", async || {
        generation() != before
    })
    .await;
}

/// Replaces a file by a pipe without a writer, so that reading it never ends.
pub(crate) fn make_pipe(files: &Files, name: &str) -> PathBuf {
    let path = files.file(name);
    std::fs::remove_file(&path).expect("removed");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo runs").success());
    path
}

/// Waits until the broker reads a pipe. Without the wait it could end before it reads. Its read goes on until the writer is dropped.
async fn wait_until_read(pipe: &Path) -> OwnedFd {
    let reading = || rustix::fs::open(pipe, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty());
    let mut writer = None;
    wait_until("the broker reads", async || {
        writer = reading().ok();
        writer.is_some()
    })
    .await;
    writer.expect("a writer")
}

/// Returns the time since the process started, in seconds.
fn uptime(admin: SocketAddr) -> f64 {
    let metrics = get(admin, "/metrics").body;
    let mut lines = metrics.lines();
    let uptime = lines.find_map(|line| line.strip_prefix("process_uptime_seconds "));
    uptime.expect("a metric").parse().expect("a number")
}

#[tokio::test]
async fn added_queue_is_served_and_no_lease_is_lost() {
    let mut broker = Broker::start_with(ANYONE);
    let admin = broker.process.admin_address();
    let client = Client::new(broker.channel(), "work");
    client.enqueue(&["a"]).await;
    let lease = client.claim_one().await;
    let listed = async || {
        let mut admin = client.admin.clone();
        let listed = admin.list_brokers(ListBrokersRequest {}).await;
        listed.expect("listed").into_inner().brokers
    };
    wait_until("the broker is listed", async || listed().await.len() == 1).await;
    let [first] = &listed().await[..] else {
        panic!("one broker");
    };
    let (uptime, since) = (uptime(admin), Instant::now());

    let queues = format!(
        "{QUEUE}max_attempts = 7\n[queues.more]\nmanaged_columns = {{ payload = 'text' }}\n"
    );
    let logged = "changes=\"+queues.more queues.work.max_attempts\"";
    broker.reload(ANYONE, &queues, logged).await;
    let stopped = "layers of the former configuration have stopped";
    wait_until(stopped, async || broker.process.log().contains(stopped)).await;
    let more = Client::new(broker.channel(), "more");
    more.enqueue(&["b"]).await;
    assert_eq!(more.claim(1).await.len(), 1);
    let done = client.complete(&[&lease.lease_id]).await;
    assert_eq!(done[0].outcome(), Outcome::Applied);
    let shown = get(admin, "/debug/queues").body;
    assert!(shown.contains("\"max_attempts\":7"), "{shown}");
    // One process is one broker.
    let [now] = &listed().await[..] else {
        panic!("one broker: {:?}", listed().await);
    };
    assert_eq!(
        (&now.broker_id, now.start_time),
        (&first.broker_id, first.start_time)
    );
    assert!(now.is_self && now.is_live && !now.is_draining, "{now:?}");
    let log = broker.process.log();
    assert!(!log.contains("another broker"), "{log}");
    let elapsed = since.elapsed().as_secs_f64();
    assert!(
        self::uptime(admin) >= uptime + elapsed,
        "the process started again"
    );
    let metrics = get(admin, "/metrics").body;
    let enqueued = "lease_broker_item_enqueued_total{lease_broker_queue_name=\"more\"} 1";
    assert!(metrics.contains(enqueued), "{metrics}");
    // The process stops as before.
    broker.process.signal("TERM");
    assert!(broker.process.wait().success(), "{}", broker.process.log());
}

#[tokio::test]
async fn used_limit_stays_used_when_queues_change() {
    let limited = format!("{AUTH}limits = {{ enqueued_items_per_second = 1 }}\n");
    let broker = Broker::start_with(&limited);
    let enqueue = async || {
        let mut client = LeaseServiceClient::new(broker.channel());
        let mut request = Request::new(EnqueueRequest {
            queue: "work".to_owned(),
            items: vec![item("x"); 1_000],
            ..EnqueueRequest::default()
        });
        *request.metadata_mut() = authorization(&broker.token);
        let added = client.enqueue(request).await;
        added.map_or_else(|status| status.code(), |_| Code::Ok)
    };
    assert_eq!(enqueue().await, Code::Ok);
    assert_eq!(enqueue().await, Code::ResourceExhausted);
    let attempts = format!("{QUEUE}max_attempts = 7\n");
    let logged = "changes=\"queues.work.max_attempts\"";
    broker.reload(&limited, &attempts, logged).await;
    assert_eq!(enqueue().await, Code::ResourceExhausted);
}

#[tokio::test]
async fn configuration_with_a_removed_queue_changes_nothing() {
    let broker = Broker::start();
    let channel = broker.channel();
    let more = AUTH.replace("['work']", "['*']");
    let renamed = QUEUE.replace("work", "other");
    let logged = "restart the service to change -queues.work";
    broker.reload(&more, &renamed, logged).await;
    assert!(broker.process.log().contains("configuration not changed"));
    // A queue whose table is missing cannot be opened.
    let unadopted = format!("{QUEUE}[queues.more]\ntable = 'nowhere'\nkey = 'id'\n");
    broker.reload(&more, &unadopted, "nowhere").await;
    for (queue, code) in [("work", Code::Ok), ("other", Code::PermissionDenied)] {
        assert_eq!(broker.call(&channel, "Wake", queue).await, code, "{queue}");
    }
    // The next one takes effect.
    broker
        .reload(&more, QUEUE, "configuration read again")
        .await;
    assert_eq!(broker.call(&channel, "Wake", "other").await, Code::NotFound);
}

#[tokio::test]
async fn identity_is_removed_beside_a_file_that_cannot_be_used() {
    let files = Files::new();
    let keys = files.file("jwks.json");
    let jwt = format!(
        "jwt = {{ jwks_file = '{}', issuer = 'i', audience = 'a' }}\n",
        keys.display()
    );
    let broker = Broker::with_files(files, &format!("{jwt}{AUTH}"));
    let channel = broker.channel();
    assert_eq!(broker.call(&channel, "Wake", "work").await, Code::Ok);
    broker.files.write("jwks.json", r#"{"keys":[{"kty":"#);
    let others = format!("{jwt}{}", AUTH.replace("fleet", "others"));
    broker
        .reload(&others, QUEUE, "-auth.identities.fleet")
        .await;
    wait_until("the identity is refused", async || {
        broker.call(&channel, "Wake", "work").await == Code::Unauthenticated
    })
    .await;
    let log = broker.process.log();
    assert!(log.contains("not_in_use=\"auth.jwt.jwks_file: "), "{log}");
}
