//! The standard health service, and reflection.

use prost::Message as _;
use prost_types::FileDescriptorProto;
use tonic::Code;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::{v1, v1alpha};

use crate::support::server::Server;

const SERVICE: &str = "leasebroker.v1.LeaseBrokerService";

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
    let status = check("leasebroker.v1.Nothing").await.expect_err("unknown");
    assert_eq!(status.code(), Code::NotFound);
}

macro_rules! reflection {
    ($version:ident, $channel:expr) => {{
        use $version::server_reflection_client::ServerReflectionClient;
        use $version::server_reflection_request::MessageRequest;
        use $version::server_reflection_response::MessageResponse;

        let mut client = ServerReflectionClient::new($channel);
        let mut ask = async |question| {
            let request = $version::ServerReflectionRequest {
                host: String::new(),
                message_request: Some(question),
            };
            let stream = client.server_reflection_info(tokio_stream::once(request));
            let mut answers = stream.await.expect("a stream").into_inner();
            let answer = answers.message().await.expect("ok").expect("an answer");
            answer.message_response.expect("a response")
        };
        let names: Vec<String> = match ask(MessageRequest::ListServices(String::new())).await {
            MessageResponse::ListServicesResponse(list) => list
                .service
                .into_iter()
                .map(|service| service.name)
                .collect(),
            other => panic!("{other:?}"),
        };
        let file = MessageRequest::FileContainingSymbol(SERVICE.to_owned());
        let files = match ask(file).await {
            MessageResponse::FileDescriptorResponse(files) => files.file_descriptor_proto,
            other => panic!("{other:?}"),
        };
        (names, files)
    }};
}

fn describes_the_service((names, files): (Vec<String>, Vec<Vec<u8>>)) {
    assert!(names.iter().any(|name| name == SERVICE), "{names:?}");
    assert!(
        names.iter().any(|name| name == "grpc.health.v1.Health"),
        "{names:?}"
    );
    let file = files
        .iter()
        .map(|file| FileDescriptorProto::decode(&**file).expect("a descriptor"))
        .find(|file| file.package() == "leasebroker.v1")
        .expect("the API's file");
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
    describes_the_service(reflection!(v1, channel));
}

#[tokio::test]
async fn reflection_v1alpha_describes_the_service() {
    let (_server, channel) = channel().await;
    describes_the_service(reflection!(v1alpha, channel));
}
