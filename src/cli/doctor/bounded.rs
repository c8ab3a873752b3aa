//! Runs a check that can hang, such as a read of a device that does not answer.

use std::thread;
use std::time::Duration;

use tokio::sync::mpsc;

/// Runs `work` on a thread of its own, and returns the findings that it has sent within the time limit, and whether it has ended. A
/// thread that hangs ends with the process.
pub(super) async fn run<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce(&mpsc::UnboundedSender<T>) + Send + 'static,
) -> (Vec<T>, bool) {
    let (findings, mut found) = mpsc::unbounded_channel();
    let spawned = thread::Builder::new().spawn(move || work(&findings));
    let mut all = Vec::new();
    if spawned.is_err() {
        return (all, false);
    }
    let receive = async {
        while let Some(finding) = found.recv().await {
            all.push(finding);
        }
    };
    let ended = tokio::time::timeout(limit, receive).await.is_ok();
    (all, ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn findings_before_a_hang_are_kept() {
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let (found, ended) = run(Duration::from_millis(50), move |findings| {
            let _ = findings.send(1);
            let _ = wait.recv();
        })
        .await;
        assert_eq!((found, ended), (vec![1], false));
        drop(go_on);
    }
}
