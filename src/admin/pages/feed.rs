//! The feed of live pages: it reads the data of a page once a second, for any number of viewers.
//!
//! All viewers of a page share its snapshots. Pages are read one at a time, and after each reading the feed rests for as long as it
//! took. So all live pages together use at most half of one connection to the database. If many different pages are open, each is
//! read less often.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// The time between two readings of a page, at least.
const INTERVAL: Duration = Duration::from_secs(1);

/// The data of a page at one moment.
pub(super) struct Snapshot<C> {
    /// The number of readings of all pages up to this one.
    pub(super) number: u64,
    pub(super) content: C,
}

/// A viewer's end of the feed. It holds the newest snapshot only. `None`: the page has not been read yet.
pub(super) type Snapshots<C> = watch::Receiver<Option<Arc<Snapshot<C>>>>;

/// A page's end of the feed, to which its snapshots are written.
type Sender<C> = watch::Sender<Option<Arc<Snapshot<C>>>>;

/// The feed of all live pages. `P` identifies a page, and `C` is its data.
pub(super) struct Feed<P, C> {
    read: Box<dyn Fn(P) -> BoxFuture<'static, C> + Send + Sync>,
    /// The pages that somebody looks at.
    pages: Mutex<HashMap<P, Sender<C>>>,
    /// Held by the page that is being read. The number of readings so far.
    turn: tokio::sync::Mutex<u64>,
}

impl<P, C> Feed<P, C>
where
    P: Clone + Eq + Hash + Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    /// A feed that reads a page by `read`.
    pub(super) fn new(read: impl Fn(P) -> BoxFuture<'static, C> + Send + Sync + 'static) -> Self {
        Self {
            read: Box::new(read),
            pages: Mutex::default(),
            turn: tokio::sync::Mutex::new(0),
        }
    }

    /// Follows a page. A change is seen from the next reading on.
    pub(super) fn follow(self: &Arc<Self>, page: P) -> Snapshots<C> {
        let mut pages = self.pages.lock();
        let sender = pages.entry(page.clone()).or_insert_with(|| {
            tokio::spawn(self.clone().keep_fresh(page));
            watch::Sender::new(None)
        });
        sender.subscribe()
    }

    /// Reads a page repeatedly, until it has no viewer.
    async fn keep_fresh(self: Arc<Self>, page: P) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let mut turn = self.turn.lock().await;
            if !self.is_followed(&page) {
                return;
            }
            let begin = Instant::now();
            let content = (self.read)(page.clone()).await;
            *turn += 1;
            let number = *turn;
            if let Some(sender) = self.pages.lock().get(&page) {
                sender.send_replace(Some(Arc::new(Snapshot { number, content })));
            }
            tokio::time::sleep(begin.elapsed()).await;
        }
    }

    /// Returns whether somebody looks at a page. Otherwise the page is forgotten.
    fn is_followed(&self, page: &P) -> bool {
        let mut pages = self.pages.lock();
        let is_followed = pages
            .get(page)
            .is_some_and(|sender| sender.receiver_count() > 0);
        if !is_followed {
            pages.remove(page);
        }
        is_followed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A feed whose readings take this time, and their number.
    fn feed(took: Duration) -> (Arc<Feed<&'static str, u64>>, Arc<AtomicU64>) {
        let readings = Arc::<AtomicU64>::default();
        let count = readings.clone();
        let feed = Feed::new(move |_| {
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            Box::pin(async move {
                tokio::time::sleep(took).await;
                number
            })
        });
        (Arc::new(feed), readings)
    }

    fn newest(snapshots: &mut Snapshots<u64>) -> Option<u64> {
        let snapshot = snapshots.borrow_and_update();
        snapshot.as_ref().map(|snapshot| snapshot.content)
    }

    #[tokio::test(start_paused = true)]
    async fn hundred_viewers_cost_one_reading_a_second() {
        let (feed, readings) = feed(Duration::ZERO);
        let mut viewers: Vec<_> = (0..100).map(|_| feed.follow("queues")).collect();
        tokio::time::sleep(Duration::from_millis(10_500)).await;
        assert_eq!(readings.load(Ordering::Relaxed), 10);
        for viewer in &mut viewers {
            assert_eq!(newest(viewer), Some(10), "the newest one, and no other");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pages_that_nobody_looks_at_are_not_read() {
        let (feed, readings) = feed(Duration::ZERO);
        drop(feed.follow("queues"));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(readings.load(Ordering::Relaxed), 0);
        assert!(feed.pages.lock().is_empty());
        let mut viewer = feed.follow("queues");
        viewer.changed().await.expect("a reading");
        assert_eq!(newest(&mut viewer), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn many_pages_share_half_of_the_time() {
        let (feed, readings) = feed(Duration::from_millis(100));
        let names = [
            "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p",
        ];
        let mut viewers = names.map(|name| feed.follow(name));
        tokio::time::sleep(Duration::from_secs(33)).await;
        let read = readings.load(Ordering::Relaxed);
        assert!((155..=160).contains(&read), "{read} readings of 100 ms");
        for viewer in &mut viewers {
            let oldest = newest(viewer).expect("each page has its turn");
            assert!(oldest > read - 20, "{oldest} of {read}");
        }
    }
}
