//! Options and credentials that are refused before a call is made, and the groups that claims name.

use lease_broker_client::{Client, Context, Credentials, Done, Item, Pem, Retry, Tls, Worker};

use crate::client::scripted::{Message, Scripted};
use crate::support::timeout::wait_until;

fn refusal(worker: Worker) -> String {
    let refused = worker.start(async |_: Item, _: Context| Ok(Done::new()));
    refused.err().expect("the options are refused").to_string()
}

#[tokio::test]
async fn options_out_of_range_are_refused() {
    let worker = |queue: &str| Worker::new("127.0.0.1:1", queue);
    assert!(refusal(worker("")).contains("queue"));
    assert!(refusal(worker("work").concurrency(0)).contains("concurrency"));
    assert!(refusal(worker("work").groups(["42"; 101])).contains("groups has 101 entries"));
    assert!(refusal(Worker::new("", "work")).contains("address"));
    assert!(refusal(Worker::new("dns:///localhost:1,127.0.0.1:2", "work")).contains("address"));
}

#[tokio::test]
async fn claim_and_next_claim_name_the_groups() {
    let broker = Scripted::new([]);
    let address = broker.serve(None).await.to_string();
    let worker = Worker::new(address, "work").groups(["42", "43"]);
    let _worker = worker
        .start(async |_: Item, _: Context| Err(Retry::new("busy").into()))
        .expect("it starts");
    let groups = || -> Vec<_> {
        let groups = broker
            .calls()
            .into_iter()
            .filter_map(|call| match call.message {
                Message::Claim(request) => Some(request.groups),
                Message::Fail(request) => Some(request.next.expect("a claim").groups),
                _ => None,
            });
        groups.take(2).collect()
    };
    wait_until("the worker fails the item", async || groups().len() == 2).await;
    assert_eq!(groups(), [["42", "43"], ["42", "43"]]);
}

#[tokio::test]
async fn plaintext_to_another_machine_is_refused() {
    for address in [
        "broker.example:50051",
        "10.0.0.1:1",
        "127.0.0.1:1,10.0.0.1:1",
    ] {
        let refused = refusal(Worker::new(address, "work"));
        assert!(
            refused.contains("not an address of this machine"),
            "{refused}"
        );
        let anywhere = Client::new(address, Credentials::plaintext_anywhere(), None);
        assert!(anywhere.is_ok(), "{address}");
    }
    for address in [
        "localhost:1",
        "[::1]:1",
        "127.0.0.1:1",
        "dns:///localhost:1",
    ] {
        assert!(
            Client::new(address, Credentials::plaintext(), None).is_ok(),
            "{address}"
        );
    }
}

#[tokio::test]
async fn malformed_certificates_are_refused() {
    let tls = Tls {
        identity: Some((Pem::Text(b"x".to_vec()), Pem::Text(b"x".to_vec()))),
        ..Tls::default()
    };
    let worker = Worker::new("broker.example:1", "work").credentials(Credentials::tls(tls));
    let refused = refusal(worker);
    assert!(refused.contains("broker.example:1"), "{refused}");
}
