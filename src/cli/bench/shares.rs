//! Deals items out by shares, evenly: of every hundred items, a share of 0.1 gets ten.

/// A worker's shares of failures and releases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    fail: Share,
    release: Share,
}

#[derive(Clone, Copy, Debug)]
struct Share {
    share: f64,
    /// What is owed, less than one item between batches.
    owed: f64,
}

impl Shares {
    /// Starts somewhere else for each worker, so that short runs are mixed too.
    pub(super) fn new(fail: f64, release: f64, worker: usize) -> Self {
        /// The golden ratio's multiples are spread evenly.
        const SPREAD: f64 = 0.618_033_988_749_895;
        #[expect(clippy::cast_precision_loss, reason = "workers are few")]
        let owed = (worker as f64 * SPREAD).fract();
        Self {
            fail: Share { share: fail, owed },
            release: Share {
                share: release,
                owed: (owed + 0.5).fract(),
            },
        }
    }

    /// Returns how many of `items` are failed, and how many of the others released.
    pub(super) fn of(&mut self, items: usize) -> [usize; 2] {
        let fail = self.fail.of(items, items);
        [fail, self.release.of(items, items - fail)]
    }
}

impl Share {
    /// Takes the share of `items`, at most so many; the rest stays owed.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "between nothing and a batch"
    )]
    fn of(&mut self, items: usize, most: usize) -> usize {
        self.owed += items as f64 * self.share;
        let taken = (self.owed as usize).min(most);
        self.owed -= taken as f64;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_dealt_by_their_shares() {
        for batch in [1, 7, 100] {
            let mut shares = Shares::new(0.1, 0.25, 3);
            let (mut failed, mut released) = (0, 0);
            for _ in 0..1_000 {
                let [fail, release] = shares.of(batch);
                assert!(fail + release <= batch);
                failed += fail;
                released += release;
            }
            let about = |share: usize, taken: usize| taken.abs_diff(share * batch * 10) <= batch;
            assert!(
                about(10, failed) && about(25, released),
                "{failed} {released}"
            );
        }
    }

    #[test]
    fn all_items_can_be_failed_or_none() {
        assert_eq!(Shares::new(1.0, 0.0, 0).of(9), [9, 0]);
        assert_eq!(Shares::new(0.0, 0.0, 5).of(9), [0, 0]);
    }
}
