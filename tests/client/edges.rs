//! Certificates that are replaced, middleware, workers that share a connection, and items for tests of handlers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lease_broker_client::{
    Cause, Client, Connection, Context, Credentials, Done, EventName, HandlerError, Item, Next,
    Pem, Row, Tls, Value,
};
use tokio::net::{TcpListener, TcpStream};
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use crate::client::fixture::Fixture;
use crate::client::scripted::Scripted;
use crate::support::timeout::{wait_until, with_timeout};

/// Returns a certificate that signs itself, and its key.
fn certificate() -> (String, String) {
    let pem = |label: &str, der: &[u8]| {
        let text = STANDARD.encode(der);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    };
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let private = pem("PRIVATE KEY", key.signing_key.serialized_der());
    (pem("CERTIFICATE", key.cert.der()), private)
}

#[tokio::test]
async fn certificate_files_that_were_replaced_are_used() {
    let ((old, old_key), (new, new_key), (server, server_key)) =
        (certificate(), certificate(), certificate());
    let broker = Scripted::new([]);
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(&server, &server_key))
        .client_ca_root(Certificate::from_pem(&new));
    let address = broker.serve(Some(tls)).await.to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        Pem::File(path)
    };
    let tls = Tls {
        ca: Some(write("ca.pem", &server)),
        identity: Some((write("cert.pem", &old), write("key.pem", &old_key))),
        server_name: Some("localhost".to_owned()),
    };
    let client = Client::new(&address, Credentials::tls(tls), None).expect("valid");
    let refused = client.clone().timeout(Duration::from_secs(1));
    let refused = refused.wake("work").await;
    assert!(refused.is_err(), "the broker does not know the old one");
    write("cert.pem", &new);
    write("key.pem", &new_key);
    with_timeout(client.wake("work")).await.expect("accepted");
}

#[tokio::test]
async fn missing_certificate_file_is_an_error() {
    let tls = Tls {
        ca: Some(Pem::File("nowhere.pem".into())),
        ..Tls::default()
    };
    let client = Client::new("broker.example:1", Credentials::tls(tls), None);
    let error = client.err().expect("refused").to_string();
    assert!(error.contains("nowhere.pem"), "{error}");
}

#[tokio::test]
async fn middleware_surrounds_the_handler() {
    let fixture = Fixture::start().await;
    let order: Arc<Mutex<Vec<String>>> = Arc::default();
    let (worker, mut events) = fixture.worker();
    let surround = |name: &'static str| {
        let order = order.clone();
        move |items: Vec<Item>, context: Context, next: Next| {
            let order = order.clone();
            let note = move |text: String| order.lock().expect("a lock").push(text);
            async move {
                note(format!("{name} {}", items[0].key()));
                let outcome = next.run(items, context).await;
                note(format!("after {name}"));
                outcome
            }
        }
    };
    let worker = worker
        .middleware(surround("outer"))
        .middleware(surround("inner"));
    let noted = order.clone();
    let worker = worker.start(move |_: Item, _: Context| {
        noted.lock().expect("a lock").push("handler".to_owned());
        async { Ok::<_, HandlerError>(Done::new()) }
    });
    fixture.enqueue(&["x"]).await;
    events.wait_for(EventName::Completed).await;
    worker
        .expect("it starts")
        .stop(Duration::ZERO)
        .await
        .expect("it stops");
    let expected = [
        "outer 1",
        "inner 1",
        "handler",
        "after inner",
        "after outer",
    ];
    assert_eq!(*order.lock().expect("a lock"), expected);
}

/// Forwards connections to `server`. Returns the address, and the number of connections.
async fn counted(server: String) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let count: Arc<AtomicUsize> = Arc::default();
    let accepted = count.clone();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            accepted.fetch_add(1, Ordering::Relaxed);
            let server = server.clone();
            tokio::spawn(async move {
                let mut far = TcpStream::connect(server).await.expect("a connection");
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    (address, count)
}

#[tokio::test]
async fn workers_of_several_queues_share_connections() {
    let fixture = Fixture::start().await;
    let (address, count) = counted(fixture.server.address.to_string()).await;
    let connection = Connection::new(&address, Credentials::plaintext()).expect("valid");
    let done: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut workers = Vec::new();
    for queue in ["work", "mail"] {
        let done = done.clone();
        let worker = connection
            .worker(queue)
            .start(move |item: Item, _: Context| {
                let text = item.text("payload").expect("a text").to_owned();
                done.lock().expect("a lock").push(format!("{queue} {text}"));
                async { Ok::<_, HandlerError>(Done::new()) }
            });
        workers.push(worker.expect("it starts"));
    }
    drop(connection);
    for queue in ["work", "mail"] {
        let item = lease_broker_client::NewItem::new().column("payload", "x");
        fixture.client.enqueue(queue, [item]).await.expect("added");
    }
    wait_until("both are done", async || {
        done.lock().expect("a lock").len() == 2
    })
    .await;
    for worker in workers {
        worker.stop(Duration::ZERO).await.expect("it stops");
    }
    // The one for heartbeats connects when the first is due.
    assert!(count.load(Ordering::Relaxed) <= 2, "{count:?}");
}

#[tokio::test]
async fn handler_is_called_with_an_item_of_a_test() {
    #[expect(clippy::unused_async, reason = "a handler is asynchronous")]
    async fn handler(item: Item, context: Context) -> Result<Done, HandlerError> {
        context.check()?;
        let page = item.checkpoint().map_or(0, |page| page[0]);
        Ok(Done::new().column(
            "result",
            format!("{} from page {page}", item.text("payload")?),
        ))
    }
    let row = Row::from([("payload".to_owned(), Value::Text("x".to_owned()))]);
    let item = Item::of_row("7", row).with_attempt(2, Some(&[3]));
    assert_eq!((item.key(), item.attempt(), item.is_held()), ("7", 2, true));
    handler(item.clone(), Context::default())
        .await
        .expect("done");
    let cancelled = Context::cancelled_by(Cause::Shutdown);
    assert!(handler(item, cancelled).await.is_err());
}
