//! A broker process that exports to a collector.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use lease_broker_proto::{ClaimBatchRequest, EnqueueRequest};
use tempfile::TempDir;
use tonic::Request;

use crate::support::client::{Client, item};
use crate::support::http::get;
use crate::support::process::BrokerProcess;
use crate::support::timeout::wait_until_blocking;
use crate::telemetry::collector::{Collector, Protocol};

/// The caller's context in the header of a call. The first one is recorded, the second is not.
pub(crate) const RECORDED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
pub(crate) const NOT_RECORDED: &str = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// Time limits that no test reaches. Collectors that answer may be slow.
const PATIENT: &str = "export_timeout = '1m'\nflush_timeout = '1m'";
/// Time limits for collectors that do not answer.
const IMPATIENT: &str = "export_timeout = '300ms'\nflush_timeout = '500ms'";

pub(crate) struct Fixture {
    folder: Arc<TempDir>,
    pub(crate) process: BrokerProcess,
    pub(crate) client: Client,
    pub(crate) admin: SocketAddr,
}

impl Fixture {
    /// Starts a broker that exports to the collector. `settings`: lines for the section `telemetry`.
    pub(crate) fn exporting(collector: &Collector, protocol: Protocol, settings: &str) -> Self {
        Self::start(&settings_for(collector, protocol, settings), &[])
    }

    /// Does the same as [`Self::exporting`] with the proxy of a network in the environment.
    pub(crate) fn exporting_beside_a_proxy(
        collector: &Collector,
        protocol: Protocol,
        proxy: &str,
    ) -> Self {
        let settings = settings_for(collector, protocol, "");
        Self::start(&settings, &[("http_proxy", proxy)])
    }

    /// Does the same as [`Self::exporting`] for a collector that does not answer.
    pub(crate) fn exporting_impatiently(
        collector: &Collector,
        protocol: Protocol,
        settings: &str,
    ) -> Self {
        let settings = settings_for(collector, protocol, settings);
        Self::start_with_limits(IMPATIENT, &settings, &[])
    }

    pub(crate) fn start(settings: &str, environment: &[(&str, &str)]) -> Self {
        Self::start_with_limits(PATIENT, settings, environment)
    }

    fn start_with_limits(limits: &str, settings: &str, environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = format!(
            "admin.listen = '127.0.0.1:0'\nlog.format = 'json'\n[telemetry]\n{limits}\n{settings}\n[queues.work]\nmanaged_columns = {{ payload = 'text' }}\n"
        );
        let path = folder.path().join("queues.toml");
        std::fs::write(&path, config).expect("a file");
        let store = folder.path().join("q.db");
        let process = BrokerProcess::with_environment(&store, &path, environment);
        Self::around(process, folder.into())
    }

    /// Starts a second broker with the same configuration on the same database.
    pub(crate) fn second(&self) -> Self {
        let path = self.folder.path().join("queues.toml");
        let process = BrokerProcess::second(&self.database(), &path);
        Self::around(process, self.folder.clone())
    }

    fn around(mut process: BrokerProcess, folder: Arc<TempDir>) -> Self {
        Self {
            admin: process.admin_address(),
            client: Client::new(process.channel(), "work"),
            folder,
            process,
        }
    }

    pub(crate) fn database(&self) -> std::path::PathBuf {
        self.folder.path().join("q.db")
    }

    /// Adds an item by a call with this `traceparent`.
    pub(crate) async fn enqueue_traced(&self, trace: &str) {
        let message = EnqueueRequest {
            queue: "work".to_owned(),
            items: vec![item("x")],
            request_id: String::new(),
        };
        let mut rpc = self.client.rpc.clone();
        rpc.enqueue(traced(message, trace)).await.expect("added");
    }

    /// Claims an item by a call with this `traceparent`. Returns the number of leases.
    pub(crate) async fn claim_traced(&self, trace: &str) -> usize {
        let message: ClaimBatchRequest = self.client.claim_request(1);
        let mut rpc = self.client.rpc.clone();
        let claimed = rpc.claim_batch(traced(message, trace)).await;
        claimed.expect("claimed").into_inner().leases.len()
    }

    /// Returns the number of spans with this result, as the metrics show it.
    pub(crate) fn spans(&self, result: &str) -> u64 {
        let series =
            format!("lease_broker_telemetry_spans_total{{lease_broker_span_result=\"{result}\"}} ");
        let text = get(self.admin, "/metrics").body;
        let value = text.lines().find_map(|line| line.strip_prefix(&series));
        let value = value.unwrap_or_else(|| panic!("{series} is not in {text}"));
        value.parse().expect("a number")
    }

    /// Stops the broker, and returns the numbers of spans that it logs at its end, by name.
    pub(crate) fn stop(&mut self) -> BTreeMap<String, u64> {
        self.process.signal("TERM");
        assert!(self.process.wait().success(), "{}", self.process.log());
        let lines = self.log_lines().into_iter();
        let mut summaries = lines.filter(|line| line["message"] == "spans at the end");
        let summary = summaries.next().expect("a summary");
        ["emitted", "exported", "failed", "dropped"]
            .map(|name| (name.to_owned(), summary[name].as_u64().expect("a number")))
            .into()
    }

    /// Returns the lines that the broker has logged, without a line that it is writing.
    pub(crate) fn log_lines(&self) -> Vec<serde_json::Value> {
        let log = self.process.log();
        let lines = log
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        lines
            .map(|line| serde_json::from_str(line).expect("a JSON object"))
            .collect()
    }

    /// Waits for a log line that meets the condition. The broker may log a call after its answer.
    pub(crate) fn wait_for_log_line(
        &self,
        description: &str,
        condition: impl Fn(&serde_json::Value) -> bool,
    ) -> serde_json::Value {
        let mut found = None;
        wait_until_blocking(description, || {
            found = self.log_lines().into_iter().find(&condition);
            found.is_some()
        });
        found.expect("the wait ended")
    }
}

fn settings_for(collector: &Collector, protocol: Protocol, settings: &str) -> String {
    let (url, protocol) = (&collector.url, protocol.name());
    format!("endpoint = '{url}'\nprotocol = '{protocol}'\n{settings}")
}

/// Returns a request with the header `traceparent`.
pub(crate) fn traced<T>(message: T, trace: &str) -> Request<T> {
    let mut request = Request::new(message);
    let trace = trace.parse().expect("a header");
    request.metadata_mut().insert("traceparent", trace);
    request
}
