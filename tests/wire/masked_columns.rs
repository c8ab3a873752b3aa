//! Masked columns, as the catalogue reports them to a login without UNMASK.

use lease_broker_store::StoreError;
use lease_broker_store::mssql::MssqlReader;

use crate::harness::fixture::queue;
use crate::wire::fixture::{LONG_LIMITS, PASSWORD, PLAIN, refused, responder, settings};
use crate::wire::responder::script::Reply;
use crate::wire::responder::tokens::{Cell, Tokens};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masked_data_stops_a_broker_and_no_reader() {
    let server = responder().await;
    let masked = || {
        let column = vec![Cell::Int(Some(0)), Cell::text("payload")];
        Reply::Answer(Tokens::new().rows(&[column]))
    };
    server.on(&["is_masked"], vec![masked(), masked()]);
    let error = refused(&server, PLAIN).await;
    let StoreError::Misconfigured(text) = &error else {
        panic!("not misconfigured: {error:?}");
    };
    for part in ["payload", "masked", "UNMASK", "columns = ["] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (host, port) = (server.address.ip(), server.address.port());
    let connection_string = format!(
        "server=tcp:{host},{port};user=broker;password=\"{PASSWORD}\";database=work;{PLAIN}"
    );
    let settings = settings(&connection_string, LONG_LIMITS);
    let opened = Box::pin(MssqlReader::open(&settings, &[queue("items")])).await;
    opened.map(drop).expect("a reader");
}
