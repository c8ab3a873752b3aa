//! The log of the bench's own broker: warnings and errors go on to the user, and the last line has the counts.

use serde_json::{Map, Value as Json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

use crate::broker::{Operation, OperationCount};

/// What a broker has served, by kind of operation.
pub(super) type Served = Vec<(Operation, OperationCount)>;

/// Reads the log to its end.
pub(super) async fn read(log: impl AsyncRead + Unpin) -> Option<Served> {
    let mut lines = BufReader::new(log).lines();
    let mut served = None;
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str::<Map<String, Json>>(&line) {
            // Not its log: why it does not start, or a panic.
            Err(_) => eprintln!("{line}"),
            Ok(event) if event.get("message").is_some_and(|said| said == "served") => {
                served = Some(counts(&event));
            }
            Ok(event) => {
                let level = event.get("level").and_then(Json::as_str);
                if matches!(level, Some("WARN" | "ERROR")) {
                    eprintln!("broker: {line}");
                }
            }
        }
    }
    served
}

fn counts(event: &Map<String, Json>) -> Served {
    let field = |operation: Operation, what: &str| {
        let name = format!("{}_{what}", operation.name());
        event.get(&name).and_then(Json::as_u64).unwrap_or_default()
    };
    let count = |operation| {
        let count = OperationCount {
            calls: field(operation, "calls"),
            statements: field(operation, "statements"),
            items: field(operation, "items"),
        };
        (operation, count)
    };
    Operation::ALL.map(count).into()
}
