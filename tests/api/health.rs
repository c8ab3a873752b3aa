//! The standard gRPC health and reflection services.

use std::time::Duration;

use prost::Message as _;
use prost_types::FileDescriptorProto;
use tonic::Code;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::{v1, v1alpha};

use crate::support::server::Server;

const SERVICE: &str = "leasebroker.v1.LeaseService";

#[tokio::test]
async fn health_covers_server_and_service() {
    let server = Server::start().await;
    let mut health = HealthClient::new(server.channel().await);
    let mut check = async |service: &str| {
        let service = service.to_owned();
        health.check(HealthCheckRequest { service }).await
    };
    for name in ["", SERVICE] {
        let response = check(name).await.expect("known");
        assert_eq!(response.into_inner().status, 1, "{name:?}");
    }
    let status = check("leasebroker.v1.Nothing")
        .await
        .expect_err("unknown service");
    assert_eq!(status.code(), Code::NotFound);
}

#[tokio::test]
async fn watch_of_an_unknown_service_waits_for_it() {
    let server = Server::start().await;
    let mut health = HealthClient::new(server.channel().await);
    let service = "leasebroker.v1.Nothing".to_owned();
    let watched = health.watch(HealthCheckRequest { service }).await;
    let mut watched = watched.expect("a stream").into_inner();
    let first = watched.message().await.expect("the stream is intact");
    let status = first.expect("a message").status();
    assert_eq!(status, ServingStatus::ServiceUnknown);
    let next = tokio::time::timeout(Duration::from_millis(300), watched.message());
    assert!(next.await.is_err(), "the stream has ended");
}

/// Asks a version of the reflection service for its services and for the file that declares the API.
macro_rules! reflection {
    ($version:ident, $channel:expr) => {{
        use $version::server_reflection_client::ServerReflectionClient;
        use $version::server_reflection_request::MessageRequest;
        use $version::server_reflection_response::MessageResponse;

        let mut client = ServerReflectionClient::new($channel);
        let mut request = async |message_request| {
            let message = $version::ServerReflectionRequest {
                host: String::new(),
                message_request: Some(message_request),
            };
            let stream = client.server_reflection_info(tokio_stream::once(message));
            let mut responses = stream.await.expect("a stream").into_inner();
            let response = responses
                .message()
                .await
                .expect("the stream is intact")
                .expect("a response");
            response.message_response.expect("a message")
        };
        let names: Vec<String> = match request(MessageRequest::ListServices(String::new())).await {
            MessageResponse::ListServicesResponse(list) => list
                .service
                .into_iter()
                .map(|service| service.name)
                .collect(),
            other => panic!("{other:?}"),
        };
        let file = MessageRequest::FileContainingSymbol(SERVICE.to_owned());
        let files = match request(file).await {
            MessageResponse::FileDescriptorResponse(files) => files.file_descriptor_proto,
            other => panic!("{other:?}"),
        };
        (names, files)
    }};
}

/// Asserts that reflection lists the API and the health service, and that the file of the API declares the rpcs for workers.
fn assert_describes_service((names, files): (Vec<String>, Vec<Vec<u8>>)) {
    assert!(names.iter().any(|name| name == SERVICE), "{names:?}");
    assert!(
        names.iter().any(|name| name == "grpc.health.v1.Health"),
        "{names:?}"
    );
    let file = files
        .iter()
        .map(|file| FileDescriptorProto::decode(&**file).expect("a file descriptor"))
        .find(|file| file.name() == "leasebroker/v1/lease_broker.proto")
        .expect("the file of the API is listed");
    let rpcs: Vec<_> = file.service[0]
        .method
        .iter()
        .map(prost_types::MethodDescriptorProto::name)
        .collect();
    assert_eq!(
        rpcs,
        [
            "ClaimBatch",
            "Heartbeat",
            "Complete",
            "Fail",
            "Release",
            "ReleaseClaims",
            "Wake",
            "Enqueue"
        ]
    );
}

async fn channel() -> (Server, Channel) {
    let server = Server::start().await;
    let channel = server.channel().await;
    (server, channel)
}

#[tokio::test]
async fn reflection_v1_describes_the_service() {
    let (_server, channel) = channel().await;
    assert_describes_service(reflection!(v1, channel));
}

#[tokio::test]
async fn reflection_v1alpha_describes_the_service() {
    let (_server, channel) = channel().await;
    assert_describes_service(reflection!(v1alpha, channel));
}
