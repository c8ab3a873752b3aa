//! The reaper, redrive, the passing of time, and restarts of brokers.

use std::collections::BTreeSet;

use lease_broker_model::item_state::State;
use lease_broker_store::{Cancellation, Checkpoints, RowOutcome};
use rand::RngExt as _;

use super::{BROKERS, Run, about};
use crate::harness::Harness;
use crate::model::queue_model::{Halves, Item, id, time};

impl<H: Harness> Run<H> {
    pub(super) async fn reap(&mut self) {
        let limit = [1, 3, 1_000][self.below(3)];
        let broker = self.broker();
        let due = self.model.due();
        self.trace.note(format!("reap {limit} of {due:?}"));
        let reaped = broker.reap(limit).await;
        let delayed: Vec<i64> = broker
            .list(State::Delayed)
            .await
            .iter()
            .map(|i| id(&i.key))
            .collect();
        let mut done = Vec::new();
        for expired in reaped.expired {
            let item = &self.model.items[&id(&expired.lease.key)];
            assert_eq!(item.row.state, State::Leased);
            let lease = (
                Some(expired.lease.token),
                expired.lease.fence,
                expired.lease.attempt,
            );
            assert_eq!(lease, (item.row.token, item.row.fence, item.row.attempt));
            assert_eq!(expired.owner, item.row.owner);
            done.push((id(&expired.lease.key), item.due()));
            let outcome = self.model.reap(id(&expired.lease.key));
            assert_eq!(outcome, RowOutcome::Expired(expired.state));
        }
        let mut promoted = self.model.in_state(State::Delayed);
        promoted.retain(|id| !delayed.contains(id));
        assert_eq!(promoted.len(), reaped.promoted);
        for id in promoted {
            done.push((id, self.model.items[&id].due()));
            assert_eq!(self.model.reap(id), RowOutcome::Promoted);
        }
        assert_eq!(done.len(), due.len().min(limit));
        // The remaining items were not due earlier than the processed ones.
        let last = done.iter().map(|(_, due)| *due).max();
        for (id, _) in &done {
            assert!(due.contains(id), "{id} was not due");
        }
        let left = self.model.due();
        let first = left.first().map(|id| self.model.items[id].due());
        assert!(first.is_none_or(|first| last.is_none_or(|last| last <= first)));
        let next = self.model.items.values().filter_map(Item::due).min();
        match (reaped.next_due, next) {
            (None, None) => {}
            (Some(left), Some(due)) if due <= self.model.now => assert!(left.is_zero()),
            (Some(left), Some(due)) => assert!(about(left, time(due - self.model.now))),
            (got, expected) => panic!("next due {got:?}, not {expected:?}"),
        }
    }

    pub(super) async fn redrive(&mut self) {
        let limit = [1, 2, 1_000][self.below(3)];
        let dead = self.model.in_state(State::Dead);
        self.trace.note(format!("redrive {limit} of {dead:?}"));
        let broker = self.broker();
        let checkpoints = if self.chance(30) {
            Checkpoints::Clear
        } else {
            Checkpoints::Keep
        };
        let redriven = broker.redrive_with(limit, checkpoints).await;
        assert_eq!(redriven, dead.len().min(limit));
        let left: Vec<i64> = broker
            .list(State::Dead)
            .await
            .iter()
            .map(|i| id(&i.key))
            .collect();
        let (left, done): (Vec<_>, Vec<_>) = dead.into_iter().partition(|id| left.contains(id));
        let since = |ids: &[i64]| -> Vec<Halves> {
            ids.iter().map(|id| self.model.items[id].since).collect()
        };
        let (last, first) = (
            since(&done).into_iter().max(),
            since(&left).into_iter().min(),
        );
        // Without filtered indexes the T-SQL store has no index of dead items by time, and goes in the order of the queue.
        let filtered = self.fixture.queues[0].filtered_indexes;
        assert!(!filtered || first.is_none_or(|first| last.is_none_or(|last| last <= first)));
        for id in done {
            self.model.redrive(id, checkpoints);
        }
    }

    pub(super) async fn cancel(&mut self) {
        let count = 1 + self.below(3);
        // No key may be in the list twice.
        let ids: BTreeSet<i64> = (0..count)
            .map(|_| self.random.random_range(0..=self.next_id))
            .collect();
        let dead_letter = self.chance(20);
        let delay = if dead_letter {
            0
        } else {
            self.zero_or_random_time()
        };
        self.trace
            .note(format!("cancel {ids:?} {delay} {dead_letter}"));
        let broker = self.broker();
        let keys = ids.iter().map(|id| {
            let key = broker.reads.parse_key(broker.queue, &id.to_string());
            key.expect("a key")
        });
        let cancellation = Cancellation {
            delay: time(delay),
            dead_letter,
            reason: "enough".to_owned(),
            call: None,
        };
        let answers = broker
            .store
            .cancel(broker.queue, keys.map(Into::into).collect(), cancellation)
            .await;
        for (id, answer) in ids.into_iter().zip(answers.expect("cancel").results) {
            let expected = self.model.cancel(id, delay, dead_letter);
            assert_eq!(answer, expected, "{id}");
        }
    }

    pub(super) async fn advance(&mut self) {
        let halves = 2 * self.random.random_range(1..4);
        self.trace.note(format!("advance by {halves}"));
        self.fixture.advance(time(halves)).await;
        self.model.now += halves;
    }

    pub(super) async fn restart_a_broker(&mut self) {
        let at = self.below(BROKERS);
        self.trace.note(format!("restart broker {at}"));
        self.brokers[at] = self.fixture.another().await;
    }
}
