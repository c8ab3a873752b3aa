//! The memory limit of the process's control group, such as that of a container. A process that
//! exceeds the limit is killed, and hostile clients can fill the budgets.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::broker::{Account, Ledger};
use crate::config::Config;
use crate::process;

/// The memory of a broker without clients, measured.
const IDLE_BYTES: u64 = 28 << 20;
/// The memory of a connection, of a waiting claim, and of a client that watches the health, measured.
const CONNECTION_BYTES: u64 = 35 << 10;
const WAITING_CLAIM_BYTES: u64 = 13 << 10;
const WATCHER_BYTES: u64 = 10 << 10;
/// The memory of a call whose response has not left, measured.
const STREAM_BYTES: u64 = 6 << 10;
/// The time between two looks at the memory.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The part of the limit that the budgets may take, in percent. The rest is for the store, the log and fragmentation.
const USABLE_PERCENT: u64 = 80;

/// Logs a warning if clients that fill every budget need more memory than the process may use.
pub(super) fn warn_if_exceeded(config: &Config) {
    let Some(limit) = process::memory_limit() else {
        return;
    };
    let needed = needed_bytes(config);
    if exceeds(needed, limit) {
        tracing::warn!(
            needed_mib = needed >> 20,
            limit_mib = limit >> 20,
            "memory limit is low for the configured budgets: lower the section budgets or server.max_connections, or raise \
             the limit"
        );
    }
}

/// Ends connections while the process takes more than the usable part of its limit, one in a second: the one that holds most
/// first.
pub(super) async fn end_heaviest_connections(ledger: Weak<Ledger>) {
    let Some(limit) = process::memory_limit() else {
        return;
    };
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        // The layers of a former configuration have stopped.
        let Some(ledger) = ledger.upgrade() else {
            return;
        };
        let used = process::resident_bytes("self").unwrap_or_default();
        if let Some(account) = end_heaviest(&ledger, used, limit) {
            tracing::warn!(
                peer = %account.peer,
                response_bytes = account.response_bytes(),
                open_streams = account.open_streams(),
                used_mib = used >> 20,
                limit_mib = limit >> 20,
                "connection closed: the broker takes more than 80 % of its memory limit"
            );
        }
    }
}

fn end_heaviest(ledger: &Ledger, used: u64, limit: u64) -> Option<Arc<Account>> {
    exceeds(used, limit)
        .then(|| ledger.end_heaviest())
        .flatten()
}

/// Returns the memory that the broker takes when every budget is used up, in bytes.
fn needed_bytes(config: &Config) -> u64 {
    let budgets = config.budgets;
    let parts = [
        (config.server.max_connections, CONNECTION_BYTES),
        (budgets.waiting_claims, WAITING_CLAIM_BYTES),
        (budgets.health_watchers, WATCHER_BYTES),
        // Waiting claims are open streams too.
        (
            budgets.open_streams.saturating_sub(budgets.waiting_claims),
            STREAM_BYTES,
        ),
        (budgets.request_bytes, 1),
        (budgets.response_bytes, 1),
    ];
    let parts = parts.map(|(count, bytes)| {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        count.saturating_mul(bytes)
    });
    parts.into_iter().fold(IDLE_BYTES, u64::saturating_add)
}

fn exceeds(needed: u64, limit: u64) -> bool {
    needed > limit / 100 * USABLE_PERCENT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    const MIB: u64 = 1 << 20;

    #[test]
    fn default_budgets_need_less_than_512_mib() {
        let config = Sources::default().load().expect("the default");
        let needed = needed_bytes(&config);
        assert!((440 * MIB..490 * MIB).contains(&needed), "{needed}");
        assert!(!exceeds(needed, 640 * MIB));
        assert!(exceeds(needed, 512 * MIB));
    }

    #[tokio::test]
    async fn heaviest_connection_ends_above_80_percent() {
        let ledger = Ledger::new(8);
        let open = ledger.open(([127, 0, 0, 1], 1).into(), false);
        let open = open.expect("a place");
        open.account().add_response(2 << 20);
        assert!(end_heaviest(&ledger, 80 * MIB, 100 * MIB).is_none());
        assert!(!open.account().end.is_cancelled());
        assert!(end_heaviest(&ledger, 81 * MIB, 100 * MIB).is_some());
        assert!(open.account().end.is_cancelled());
    }
}
