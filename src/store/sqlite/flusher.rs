//! Answers operations after the log has been flushed.
//!
//! The writer hands the operations of a transaction over and runs the next ones. A thread flushes the log once for all that were
//! handed over meanwhile, and answers them. If no operation waits for the writer and no flush runs, the writer flushes the log
//! itself, because waking another thread would cost more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use super::log_flush::LogFlush;
use crate::StoreError;

/// Operations that have ended and were not answered yet.
pub(super) trait Unanswered: Send {
    /// Answers the operations. `flushed`: the error if the device may not have their changes.
    fn answer(self, flushed: Result<(), StoreError>);
}

/// Operations, and the number of the last change that their answers speak of.
struct Ended<A> {
    answers: A,
    change: u64,
}

/// Flushes and answers. When it is dropped, it waits until all operations are answered.
pub(super) struct Flusher<A> {
    log: Arc<LogFlush>,
    /// The number of the last change that the device has.
    flushed: Arc<AtomicU64>,
    /// The number of the last change that was handed to the thread.
    handed_over: u64,
    /// `None` only while it is dropped.
    ended: Option<mpsc::Sender<Ended<A>>>,
    thread: Option<JoinHandle<()>>,
}

impl<A: Unanswered + 'static> Flusher<A> {
    /// Starts the thread.
    pub(super) fn spawn(log: Arc<LogFlush>) -> std::io::Result<Self> {
        let (ended, arrived) = mpsc::channel();
        let flushed = Arc::<AtomicU64>::default();
        let thread = {
            let (log, flushed) = (log.clone(), flushed.clone());
            thread::Builder::new()
                .name("sqlite-flusher".to_owned())
                .spawn(move || flush_all(&log, &flushed, &arrived))?
        };
        Ok(Self {
            log,
            flushed,
            handed_over: 0,
            ended: Some(ended),
            thread: Some(thread),
        })
    }

    /// Answers operations as soon as the device has the change. `others_wait`: the writer has other work.
    pub(super) fn answer(&mut self, answers: A, change: u64, others_wait: bool) {
        let flushed = self.flushed.load(Ordering::Acquire);
        if change <= flushed {
            answers.answer(Ok(()));
        } else if !others_wait && self.handed_over <= flushed {
            answers.answer(flush(&self.log, &self.flushed, change));
        } else if let Some(ended) = &self.ended {
            self.handed_over = change;
            let _ = ended.send(Ended { answers, change });
        }
    }
}

impl<A> Drop for Flusher<A> {
    fn drop(&mut self) {
        self.ended = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn flush_all<A: Unanswered>(
    log: &LogFlush,
    flushed: &AtomicU64,
    arrived: &mpsc::Receiver<Ended<A>>,
) {
    while let Ok(first) = arrived.recv() {
        let waiting: Vec<_> = std::iter::once(first).chain(arrived.try_iter()).collect();
        let change = waiting.iter().map(|ended| ended.change).max();
        let result = flush(log, flushed, change.unwrap_or_default());
        for ended in waiting {
            ended.answers.answer(result.clone());
        }
    }
}

/// Flushes the log, unless the device has the change already.
fn flush(log: &LogFlush, flushed: &AtomicU64, change: u64) -> Result<(), StoreError> {
    if flushed.load(Ordering::Acquire) < change {
        log.flush()?;
        flushed.fetch_max(change, Ordering::Release);
    }
    Ok(())
}
