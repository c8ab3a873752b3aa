//! Threads that write the lines of commands and of `work` itself, so that a reader who pauses stops no heartbeat, no time limit
//! and no signal.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The number of lines of commands that wait. Then the commands wait, as for any reader.
const MAX_LINES: u32 = 32;
/// The number of reports that wait. Further ones are dropped.
const MAX_REPORTS: u32 = 1_000;

/// The writer of one stream. Each line that waits holds a permit of its kind.
#[derive(Clone)]
pub(super) struct Writer {
    queue: mpsc::Sender<(Vec<u8>, OwnedSemaphorePermit)>,
    lines: Arc<Semaphore>,
    reports: Arc<Semaphore>,
}

impl Writer {
    /// Starts the thread. `write` can block.
    pub(super) fn start(write: impl Fn(&[u8]) + Send + 'static) -> io::Result<Self> {
        let (queue, queued) = mpsc::channel::<(Vec<u8>, OwnedSemaphorePermit)>();
        thread::Builder::new().spawn(move || {
            for (line, _permit) in queued {
                write(&line);
            }
        })?;
        let semaphore = |permits: u32| Arc::new(Semaphore::new(permits as usize));
        Ok(Self {
            queue,
            lines: semaphore(MAX_LINES),
            reports: semaphore(MAX_REPORTS),
        })
    }

    /// Writes a line of a command. Waits for room.
    pub(super) async fn write(&self, line: Vec<u8>) {
        if let Ok(permit) = self.lines.clone().acquire_owned().await {
            // The thread runs as long as this sender.
            let _ = self.queue.send((line, permit));
        }
    }

    /// Writes a line of `work`. Drops it if there is no room.
    pub(super) fn report(&self, line: String) {
        if let Ok(permit) = self.reports.clone().try_acquire_owned() {
            let _ = self.queue.send((line.into_bytes(), permit));
        }
    }

    /// Waits until all lines are written.
    pub(super) async fn flush(&self) {
        let _lines = self.lines.acquire_many(MAX_LINES).await;
        let _reports = self.reports.acquire_many(MAX_REPORTS).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn reader_that_pauses_holds_up_commands_and_no_report() {
        let (go, gone) = mpsc::channel::<()>();
        let (sender, written) = mpsc::channel();
        let writer = Writer::start(move |line| {
            // An error means that the reader goes on.
            let _ = gone.recv();
            let _ = sender.send(line.to_vec());
        });
        let writer = writer.expect("a thread");
        for _ in 0..MAX_LINES {
            writer.write(b"line".to_vec()).await;
        }
        for _ in 0..=MAX_REPORTS {
            writer.report("report".to_owned());
        }
        let further = writer.write(b"last".to_vec());
        let further = timeout(Duration::from_millis(50), further).await;
        further.expect_err("no room");
        drop(go);
        writer.flush().await;
        let written: Vec<_> = written.try_iter().collect();
        assert_eq!(written.len(), (MAX_LINES + MAX_REPORTS) as usize);
        assert_eq!(
            (&*written[0], &*written[32]),
            (&b"line"[..], &b"report"[..])
        );
    }
}
