//! Producers that add items, and other programs that insert and delete rows.

use lease_broker_store::{EnqueuedOnce, NewItem, StoreError};
use lease_broker_value::Value;
use rand::RngExt as _;
use uuid::Uuid;

use super::Run;
use crate::harness::Harness;
use crate::harness::fixture::new_item;
use crate::model::queue_model::{id, time};

impl<H: Harness> Run<H> {
    pub(super) async fn enqueue(&mut self) {
        if self.chance(25) && !self.enqueued.is_empty() {
            return self.repeat_enqueue().await;
        }
        let mut items = Vec::new();
        let mut added = Vec::new();
        for _ in 0..=self.below(4) {
            let (rank, delay) = (self.random.random_range(0..3), self.zero_or_random_time());
            added.push((self.next_id, rank, delay));
            let row = [("id", Value::Int(self.next_id)), ("rank", Value::Int(rank))];
            items.push(NewItem {
                delay: time(delay),
                ..new_item(&row)
            });
            self.next_id += 1;
        }
        let bad = self.chance(15).then(|| self.below(items.len()));
        if let Some(at) = bad {
            let taken = self.model.items.keys().next().copied();
            items[at].columns = match taken {
                Some(id) if self.chance(50) => vec![("id".to_owned(), Value::Int(id))],
                _ => vec![("nonsense".to_owned(), Value::Null)],
            };
        }
        let request_id = Uuid::from_u128(self.random.random());
        let request_id = self.chance(50).then_some(request_id);
        let call = format!("enqueue {added:?}, bad: {bad:?}, {request_id:?}");
        self.trace.note(call);
        let broker = self.broker();
        let outcome = match request_id {
            None => broker.try_enqueue(items).await,
            Some(id) => match broker.enqueue_once(id, items.clone()).await {
                Ok(EnqueuedOnce::Added(keys)) => {
                    self.enqueued.push((id, items, keys.clone()));
                    Ok(keys)
                }
                Ok(other) => panic!("{other:?}"),
                Err(error) => Err(error),
            },
        };
        match (outcome, bad) {
            (Ok(keys), None) => {
                let ids: Vec<i64> = keys.iter().map(id).collect();
                let expected: Vec<i64> = added.iter().map(|(id, ..)| *id).collect();
                assert_eq!(ids, expected);
                for (id, rank, delay) in added {
                    self.model.add(id, rank, delay);
                }
            }
            (Err(StoreError::Rejected(rejection)), Some(at)) => {
                assert_eq!(rejection.item, Some(at));
            }
            (answer, _) => panic!("{answer:?}"),
        }
    }

    /// Sends an earlier request again, perhaps with other items. No row changes.
    async fn repeat_enqueue(&mut self) {
        let at = self.below(self.enqueued.len());
        let (id, mut items, keys) = self.enqueued[at].clone();
        let is_other = self.chance(30);
        if is_other {
            items.push(new_item(&[("id", Value::Int(self.next_id))]));
        }
        self.trace
            .note(format!("enqueue again {id}, other items: {is_other}"));
        let outcome = self.broker().enqueue_once(id, items).await;
        let expected = if is_other {
            EnqueuedOnce::OtherItems
        } else {
            EnqueuedOnce::Repeated(keys)
        };
        assert_eq!(outcome, Ok(expected));
    }

    pub(super) async fn insert_by_another_program(&mut self) {
        let (id, rank) = (self.next_id, self.random.random_range(0..3));
        self.next_id += 1;
        self.trace.note(format!("another program inserts {id}"));
        let row = [("id", Value::Int(id)), ("rank", Value::Int(rank))];
        self.fixture.harness.insert("item", &row).await;
        self.model.add(id, rank, 0);
    }

    pub(super) async fn delete_by_another_program(&mut self) {
        if self.model.items.len() < 10 {
            return;
        }
        let at = self.below(self.model.items.len());
        let id = *self.model.items.keys().nth(at).expect("an item");
        self.trace.note(format!("another program deletes {id}"));
        self.fixture
            .harness
            .delete("item", ("id", Value::Int(id)))
            .await;
        self.model.items.remove(&id);
    }
}
