//! Compares the rows of the store with the items of the model.

use std::collections::BTreeMap;

use lease_broker_model::item_state::State;
use lease_broker_value::Value;

use super::{Run, about};
use crate::harness::Harness;
use crate::model::queue_model::{Policy, id, time};

impl<H: Harness> Run<H> {
    /// Compares all rows: state, owner, fence, attempt, error, due time, age and result.
    pub(super) async fn compare(&mut self) {
        let broker = self.broker();
        let counts = broker.counts().await;
        let now = self.model.now;
        for state in State::ALL {
            let mut listed = broker.list(state).await;
            let expected = self.model.in_state(state);
            assert_eq!(counts[state as usize], expected.len() as u64, "{state:?}");
            listed.sort_by_key(|item| id(&item.key));
            let ids: Vec<i64> = listed.iter().map(|item| id(&item.key)).collect();
            assert_eq!(ids, expected, "{state:?}");
            for row in listed {
                let item = &self.model.items[&id(&row.key)];
                let got = (
                    row.owner.clone(),
                    row.fence,
                    row.attempt,
                    row.error.is_some(),
                );
                let expected = (
                    item.row.owner.clone(),
                    item.row.fence,
                    item.row.attempt,
                    item.has_error,
                );
                assert_eq!(got, expected, "{row:?}");
                match (row.due_in, item.due()) {
                    (None, None) => {}
                    (Some(left), Some(due)) if due <= now => assert!(left.is_zero(), "{row:?}"),
                    (Some(left), Some(due)) => assert!(about(left, time(due - now)), "{row:?}"),
                    _ => panic!("{row:?} is due at {:?}", item.due()),
                }
                let age = time(now - item.since);
                assert!(
                    row.age.is_none_or(|is| is >= age && is < age + time(1)),
                    "{row:?}"
                );
            }
        }
        let results = self.model.items.iter().map(|(id, item)| (*id, item.result));
        self.compare_results("item", results.collect()).await;
        if self.model.policy == Policy::Archive {
            let results = self.model.archived.clone();
            self.compare_results("archive", results).await;
        }
    }

    /// Compares the ids of the rows and the values that settlements have written into them.
    async fn compare_results(&self, table: &str, expected: BTreeMap<i64, i64>) {
        let rows = self.fixture.harness.rows(table, &["id", "result"]).await;
        let expected = expected.into_iter();
        let expected: Vec<_> = expected
            .map(|(id, result)| vec![Value::Int(id), Value::Int(result)])
            .collect();
        assert_eq!(rows, expected, "{table}");
    }
}
