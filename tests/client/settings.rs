//! Options and credentials that are refused before a call is made.

use lease_broker_client::{Client, Context, Credentials, Done, Item, Tls, Worker};

fn refusal(worker: Worker) -> String {
    let refused = worker.start(async |_: Item, _: Context| Ok(Done::new()));
    refused.err().expect("the options are refused").to_string()
}

#[tokio::test]
async fn options_out_of_range_are_refused() {
    let worker = |queue: &str| Worker::new("127.0.0.1:1", queue);
    assert!(refusal(worker("")).contains("queue"));
    assert!(refusal(worker("work").concurrency(0)).contains("concurrency"));
    assert!(refusal(Worker::new("", "work")).contains("address"));
    assert!(refusal(Worker::new("dns:///localhost:1,127.0.0.1:2", "work")).contains("address"));
}

#[tokio::test]
async fn plaintext_to_another_machine_is_refused() {
    for address in [
        "broker.example:50051",
        "http://10.0.0.1:1",
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
        identity: Some((b"x".to_vec(), b"x".to_vec())),
        ..Tls::default()
    };
    let worker = Worker::new("broker.example:1", "work").credentials(Credentials::tls(tls));
    let refused = refusal(worker);
    assert!(refused.contains("broker.example:1"), "{refused}");
}
