//! Waits for an event with a time limit, instead of sleeping for a fixed time.

use std::time::Duration;

use tokio::time::Instant;

/// Time limit of every wait. It leaves room for a busy machine. A test that passes never waits this long.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits for a future and fails the test if it does not end within [`TEST_TIMEOUT`].
pub(crate) async fn with_timeout<T>(future: impl Future<Output = T>) -> T {
    let result = tokio::time::timeout(TEST_TIMEOUT, future).await;
    result.expect("the future ends within 60 seconds")
}

/// Checks a condition every 10 ms until it holds. After [`TEST_TIMEOUT`] the test fails and prints `description`.
pub(crate) async fn wait_until(description: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(
            start.elapsed() < TEST_TIMEOUT,
            "not within 60 seconds: {description}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Does the same as [`wait_until`] on a thread without a runtime.
pub(crate) fn wait_until_blocking(description: &str, mut condition: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < TEST_TIMEOUT,
            "not within 60 seconds: {description}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
