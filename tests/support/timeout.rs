//! Waiting for conditions: as short as it takes, and never for ever.

use std::time::Duration;

use tokio::time::Instant;

/// Longer than anything may take on a busy machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits for a future that must end soon.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(TEST_TIMEOUT, future).await;
    ended.expect("this ends within 30 seconds")
}

/// Asks until the answer is yes.
pub(crate) async fn wait_until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !is().await {
        assert!(
            start.elapsed() < TEST_TIMEOUT,
            "not within 30 seconds: {what}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The same on a plain thread.
pub(crate) fn wait_until_blocking(what: &str, mut is: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !is() {
        assert!(
            start.elapsed() < TEST_TIMEOUT,
            "not within 30 seconds: {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
