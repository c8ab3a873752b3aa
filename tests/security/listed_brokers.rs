//! The list of brokers, for callers with a role on some queues only.

use std::collections::BTreeSet;

use lease_broker_proto::admin_service_client::AdminServiceClient;
use lease_broker_proto::{BrokerInstance, DrainBrokerRequest, ListBrokersRequest};
use tonic::Request;
use tonic::transport::{Channel, Endpoint};

use crate::security::fixture::{Files, authorization};
use crate::support::event_stream::EventStream;
use crate::support::process::BrokerProcess;
use crate::support::raw_connection::blocking;
use crate::support::timeout::wait_until;

const AUTH: &str = "
anonymous = ['admin']
[[auth.identities]]
name = 'watcher'
token = 'watcher'
roles = { observer = ['work'] }
[[auth.identities]]
name = 'keeper'
token = 'keeper'
roles = { admin = ['work'] }
";

fn request<T>(message: T, token: Option<&str>) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(token) = token {
        *request.metadata_mut() = authorization(token);
    }
    request
}

/// Returns the other brokers that a caller sees.
async fn others(channel: &Channel, token: Option<&str>) -> Vec<BrokerInstance> {
    let mut admin = AdminServiceClient::new(channel.clone());
    let listed = admin.list_brokers(request(ListBrokersRequest {}, token));
    let mut brokers = listed.await.expect("listed").into_inner().brokers;
    brokers.retain(|broker| !broker.is_self);
    brokers
}

#[tokio::test]
async fn queues_without_a_role_are_not_shown_as_differing() {
    let files = Files::new();
    let [watcher, keeper] = ["watcher", "keeper"].map(|name| files.add_token(name));
    let text = files.plain_text_settings(AUTH);
    files.write("one.toml", &text);
    let attempts = |queue: &str| {
        let header = format!("[queues.{queue}]\n");
        (header.clone(), format!("{header}max_attempts = 7\n"))
    };
    let [work, hidden] = ["work", "hidden"].map(attempts);
    let other = text.replace(&work.0, &work.1).replace(&hidden.0, &hidden.1);
    files.write("two.toml", &other);
    let store = files.file("q.db");
    let mut broker = BrokerProcess::serve(&store, &files.file("one.toml"));
    let _second = BrokerProcess::second(&store, &files.file("two.toml"));
    let endpoint = Endpoint::from_shared(broker.url()).expect("a URL");
    let channel = endpoint.connect_lazy();
    wait_until("who may see all queues sees both", async || {
        let others = others(&channel, None).await;
        let differing = others.iter().flat_map(|other| &other.differing_queues);
        let differing: BTreeSet<&str> = differing.map(String::as_str).collect();
        differing == BTreeSet::from(["hidden", "work"])
    })
    .await;

    let [other] = &others(&channel, Some(&watcher)).await[..] else {
        panic!("one other broker");
    };
    assert_eq!(other.differing_queues, ["work"]);
    let drain = DrainBrokerRequest {
        broker_id: other.broker_id.clone(),
        ..DrainBrokerRequest::default()
    };
    let mut admin = AdminServiceClient::new(channel.clone());
    let drained = admin.drain_broker(request(drain, Some(&keeper))).await;
    let drained = drained.expect("told").into_inner().broker;
    assert_eq!(drained.expect("the broker").differing_queues, ["work"]);

    // The events of the dashboard's page show no more than the page.
    let (admin, bearer) = (
        broker.admin_address(),
        format!("authorization: Bearer {watcher}\r\n"),
    );
    let differing = blocking(move || {
        let mut events = EventStream::open(admin, "/events?page=brokers", &bearer);
        loop {
            let event = events.next().expect("an event");
            let mut cells = event.data.split("settings that differ\">").skip(1);
            if let Some(cell) = cells.find(|cell| !cell.starts_with("none<")) {
                return cell.to_owned();
            }
        }
    });
    let differing = differing.await;
    assert!(differing.starts_with("work<"), "{differing}");
}
