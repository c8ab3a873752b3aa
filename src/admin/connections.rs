//! The answer of `/debug/connections`: the ledger of connections and callers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use lease_broker_model::call_source::{CallSource, SharedBudget};
use serde_json::{Map, Value as Json, json};

use super::state::AdminState;
use crate::broker::Account;

/// Describes what each connection and each caller holds.
pub(super) fn describe(state: &AdminState) -> Json {
    let accounts = state.broker.get().map(|broker| broker.ledger().accounts());
    let accounts = accounts.unwrap_or_default();
    let mut callers: BTreeMap<u32, Json> = BTreeMap::new();
    for account in &accounts {
        let address = account.peer.ip().to_string();
        add_caller(&mut callers, &account.source, "address", &address);
        if let Some((name, caller)) = account.identity() {
            add_caller(&mut callers, caller, "identity", name);
        }
    }
    json!({
        "connections": accounts.iter().map(|account| connection(account)).collect::<Vec<_>>(),
        "callers": callers.into_values().collect::<Vec<_>>(),
    })
}

fn connection(account: &Account) -> Json {
    json!({
        "peer": account.peer.to_string(),
        "trusted": account.is_trusted(),
        "identity": account.identity().map(|(name, _)| name),
        "caller": account.source.number().0,
        "age_seconds": account.age().as_secs_f64(),
        "open_streams": account.open_streams(),
        "response_bytes": account.response_bytes(),
    })
}

fn add_caller(callers: &mut BTreeMap<u32, Json>, caller: &Arc<CallSource>, kind: &str, name: &str) {
    let number = caller.number().0;
    callers.entry(number).or_insert_with(|| {
        let held = SharedBudget::ALL.map(|budget| {
            let held = caller.held(budget).load(Ordering::Relaxed);
            (budget.name().to_owned(), json!(held))
        });
        json!({ "caller": number, kind: name, "holds": Map::from_iter(held) })
    });
}
