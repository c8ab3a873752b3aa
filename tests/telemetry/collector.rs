//! A collector of OpenTelemetry that keeps what it receives, over gRPC and over HTTP, and that can fail on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::{Request, Status};

use crate::support::timeout::with_timeout;

/// The protocol of a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Grpc,
    Http,
}

impl Protocol {
    pub(crate) const ALL: [Self; 2] = [Self::Grpc, Self::Http];

    /// Returns the name that OpenTelemetry gives it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Http => "http/protobuf",
        }
    }
}

/// What a collector does with messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Accept,
    /// Accepts a message, and says that this number of its spans is rejected.
    Reject(i64),
    /// Answers that it is unavailable.
    Refuse,
    /// Never answers.
    Silent,
}

/// What a collector has received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Received {
    pub(crate) spans: Vec<Span>,
    /// The names of metrics.
    pub(crate) metrics: BTreeSet<String>,
    /// The names of the attributes of metrics.
    pub(crate) metric_attributes: BTreeSet<String>,
    /// The versions of the conventions that metrics and spans name.
    pub(crate) schema_urls: BTreeSet<String>,
    /// The attributes of the processes that sent them.
    pub(crate) resource: BTreeMap<String, String>,
    /// The headers `x-…` of the messages.
    pub(crate) headers: BTreeMap<String, String>,
    /// The number of messages with spans, those that were refused included.
    pub(crate) span_messages: usize,
}

struct Shared {
    behaviour: Mutex<Behaviour>,
    received: watch::Sender<Received>,
}

/// A running collector. It ends with the test's runtime.
#[derive(Clone)]
pub(crate) struct Collector {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

impl Collector {
    /// Starts a collector on a free port.
    pub(crate) async fn start(protocol: Protocol) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let collector = Self {
            url: format!("http://{address}"),
            shared: Arc::new(Shared {
                behaviour: Mutex::new(Behaviour::Accept),
                received: watch::Sender::default(),
            }),
        };
        match protocol {
            Protocol::Grpc => {
                let router = tonic::transport::Server::builder()
                    .add_service(TraceServiceServer::new(collector.clone()))
                    .add_service(MetricsServiceServer::new(collector.clone()));
                let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
                tokio::spawn(router.serve_with_incoming(incoming));
            }
            Protocol::Http => {
                let router = Router::new()
                    .route("/v1/traces", post(http_traces))
                    .route("/v1/metrics", post(http_metrics))
                    .with_state(collector.clone());
                tokio::spawn(async move { axum::serve(listener, router).await });
            }
        }
        collector
    }

    pub(crate) fn behave(&self, behaviour: Behaviour) {
        *self.shared.behaviour.lock().expect("a behaviour") = behaviour;
    }

    /// Waits until the condition holds for what has been received, and returns that.
    pub(crate) async fn wait_for(&self, condition: impl Fn(&Received) -> bool) -> Received {
        let mut received = self.shared.received.subscribe();
        let received = with_timeout(received.wait_for(condition)).await;
        received.expect("the collector runs").clone()
    }

    pub(crate) fn received(&self) -> Received {
        self.shared.received.borrow().clone()
    }

    fn behaviour(&self) -> Behaviour {
        *self.shared.behaviour.lock().expect("a behaviour")
    }

    /// Takes a message with spans. Returns the number of spans that it rejects, or the refusal.
    async fn take_spans(&self, message: ExportTraceServiceRequest) -> Result<i64, Status> {
        let behaviour = self.behaviour();
        self.shared.received.send_modify(|received| {
            received.span_messages += 1;
            if matches!(behaviour, Behaviour::Refuse | Behaviour::Silent) {
                return;
            }
            for resource in message.resource_spans {
                let attributes = resource.resource.unwrap_or_default().attributes;
                received.resource.extend(attributes_of(&attributes));
                for scope in resource.scope_spans {
                    received.schema_urls.insert(scope.schema_url);
                    received.spans.extend(scope.spans);
                }
            }
        });
        match behaviour {
            Behaviour::Accept => Ok(0),
            Behaviour::Reject(spans) => Ok(spans),
            Behaviour::Refuse => Err(Status::unavailable("the collector refuses")),
            Behaviour::Silent => std::future::pending().await,
        }
    }

    fn take_metrics(&self, message: ExportMetricsServiceRequest) {
        self.shared.received.send_modify(|received| {
            for resource in message.resource_metrics {
                for scope in resource.scope_metrics {
                    received.schema_urls.insert(scope.schema_url);
                    for metric in scope.metrics {
                        let names = attribute_names(metric.data.as_ref());
                        received.metric_attributes.extend(names);
                        received.metrics.insert(metric.name);
                    }
                }
            }
        });
    }

    fn take_headers<'a>(&self, headers: impl Iterator<Item = (&'a str, &'a [u8])>) {
        let own = headers.filter(|(name, _)| name.starts_with("x-"));
        let own = own.map(|(name, value)| (name.to_owned(), text_of(value)));
        let own: BTreeMap<_, _> = own.collect();
        self.shared
            .received
            .send_modify(|received| received.headers.extend(own));
    }
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, Status> {
        let headers = request.metadata().clone().into_headers();
        self.take_headers(
            headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_bytes())),
        );
        let rejected = self.take_spans(request.into_inner()).await?;
        Ok(tonic::Response::new(trace_response(rejected)))
    }
}

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<tonic::Response<ExportMetricsServiceResponse>, Status> {
        self.take_metrics(request.into_inner());
        Ok(tonic::Response::new(ExportMetricsServiceResponse::default()))
    }
}

async fn http_traces(
    State(collector): State<Collector>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    collector.take_headers(
        headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes())),
    );
    let message = ExportTraceServiceRequest::decode(body).expect("a message");
    match collector.take_spans(message).await {
        Ok(rejected) => (
            [("content-type", "application/x-protobuf")],
            trace_response(rejected).encode_to_vec(),
        )
            .into_response(),
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

async fn http_metrics(State(collector): State<Collector>, body: Bytes) {
    collector.take_metrics(ExportMetricsServiceRequest::decode(body).expect("a message"));
}

fn trace_response(rejected_spans: i64) -> ExportTraceServiceResponse {
    let partial_success = ExportTracePartialSuccess {
        rejected_spans,
        error_message: "no room".to_owned(),
    };
    ExportTraceServiceResponse {
        partial_success: (rejected_spans > 0).then_some(partial_success),
    }
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns attributes by name, each value as text.
pub(crate) fn attributes_of(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |attribute: &KeyValue| {
        let value = attribute.value.as_ref()?.value.as_ref()?;
        Some(match value {
            Value::StringValue(text) => text.clone(),
            Value::IntValue(number) => number.to_string(),
            Value::DoubleValue(number) => number.to_string(),
            other => format!("{other:?}"),
        })
    };
    let with_name = |attribute: &KeyValue| {
        let text = text(attribute).unwrap_or_default();
        (attribute.key.clone(), text)
    };
    attributes.iter().map(with_name).collect()
}

/// Returns the names of the attributes of all series of a metric.
fn attribute_names(data: Option<&Data>) -> Vec<String> {
    let attributes: Vec<&KeyValue> = match data {
        Some(Data::Gauge(gauge)) => of_points(&gauge.data_points, |point| &point.attributes),
        Some(Data::Sum(sum)) => of_points(&sum.data_points, |point| &point.attributes),
        Some(Data::Histogram(data)) => of_points(&data.data_points, |point| &point.attributes),
        other => panic!("{other:?}"),
    };
    let names = attributes
        .into_iter()
        .map(|attribute| attribute.key.clone());
    names.collect()
}

fn of_points<T>(points: &[T], attributes: impl Fn(&T) -> &Vec<KeyValue>) -> Vec<&KeyValue> {
    points.iter().flat_map(attributes).collect()
}
