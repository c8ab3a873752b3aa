//! The feed of live pages: it reads the data of a page once a second, for any number of viewers.
//!
//! All viewers of a page share its snapshots. Pages are read one at a time, and after each reading the feed rests for as long as it
//! took. So all quick pages together use at most half of one connection to the database. If many different pages are open, each is
//! read less often.
//!
//! A page whose reading takes a second or more, as that of a queue whose table is locked, waits among the slow pages for its next turn.
//! They too are read one at a time. So a slow page makes other slow ones late, and no quick one.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// The time between two readings of a page, at least.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time from which on a reading is slow.
const SLOW: Duration = Duration::from_secs(1);

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
    /// Held by the quick page that is being read.
    quick_turn: tokio::sync::Mutex<()>,
    /// Held by the slow page that is being read.
    slow_turn: tokio::sync::Mutex<()>,
    /// The number of readings so far.
    readings: AtomicU64,
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
            quick_turn: tokio::sync::Mutex::default(),
            slow_turn: tokio::sync::Mutex::default(),
            readings: AtomicU64::default(),
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
        let mut is_slow = false;
        loop {
            sleep(INTERVAL).await;
            let turn = if is_slow {
                &self.slow_turn
            } else {
                &self.quick_turn
            };
            let _turn = turn.lock().await;
            if !self.is_followed(&page) {
                return;
            }
            let begin = Instant::now();
            let reading = (self.read)(page.clone());
            // A reading that is found to be slow is given up, and begins again among the slow ones.
            let content = if is_slow {
                Some(reading.await)
            } else {
                timeout(SLOW, reading).await.ok()
            };
            is_slow = begin.elapsed() >= SLOW;
            if let Some(content) = content {
                self.send(&page, content);
            }
            sleep(begin.elapsed()).await;
        }
    }

    /// Sends the content of a page to its viewers.
    fn send(&self, page: &P, content: C) {
        let number = self.readings.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(sender) = self.pages.lock().get(page) {
            sender.send_replace(Some(Arc::new(Snapshot { number, content })));
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
    async fn slow_page_does_not_stop_the_others() {
        let feed = Feed::new(|page| {
            Box::pin(async move {
                if page == "locked" {
                    sleep(Duration::from_secs(20)).await;
                }
            })
        });
        let feed = Arc::new(feed);
        let locked = feed.follow("locked");
        let mut queues = feed.follow("queues");
        let mut longest = Duration::ZERO;
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(60) {
            let last = Instant::now();
            queues.changed().await.expect("a reading");
            longest = longest.max(last.elapsed());
        }
        assert!(longest <= Duration::from_secs(3), "{longest:?}");
        assert!(locked.has_changed().expect("a reading"));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_pages_are_read_one_after_another() {
        let took = Duration::from_secs(2);
        let (feed, readings) = feed(took);
        let _viewers = ["a", "b", "c"].map(|name| feed.follow(name));
        // Each page is given up once among the quick ones.
        sleep(Duration::from_secs(10)).await;
        let before = readings.load(Ordering::Relaxed);
        sleep(Duration::from_secs(40)).await;
        let read = readings.load(Ordering::Relaxed) - before;
        assert!((9..=10).contains(&read), "{read} readings of 2 s");
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
