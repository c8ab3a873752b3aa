//! Settlements, and the items that completions add.

use std::collections::HashSet;

use serde_json::json;

use super::Mssql;
use super::decode;
use super::error::{RetrySafety, into_rejection};
use super::list_parameters::{ListEntry, ListParameters};
use super::new_item::insert_delay;
use super::queue_statements::QueueStatements;
use crate::item_state::State;
use crate::queue::OnComplete;
use crate::store::follow_ups;
use crate::store::{Ending, QueueIndex, Rejection, Settlement, StoreError};

/// The follow-ups of one insert: those to the same queue that name the same columns.
struct Insert {
    queue: usize,
    ready: bool,
    columns: Vec<String>,
    sql: String,
    list: Vec<ListEntry>,
}

impl Mssql {
    pub(super) async fn settle(
        &self,
        queue: QueueIndex,
        settlements: &[Settlement],
    ) -> Result<Vec<Option<State>>, StoreError> {
        let table = self.queue(queue)?;
        follow_ups::check(settlements, |queue, item| {
            Ok(self.queue(queue)?.encode_item(item).map(drop))
        })?;
        let mut states = vec![None; settlements.len()];
        let mut waiting: Vec<usize> = (0..settlements.len())
            .filter(|at| table.can_have_key(&settlements[*at].lease.key))
            .collect();
        // A statement settles a key once: what comes again for it goes into a later one.
        while !waiting.is_empty() {
            let mut keys = HashSet::new();
            let (now, later): (Vec<usize>, Vec<usize>) = waiting
                .into_iter()
                .partition(|at| keys.insert(settlements[*at].lease.key.to_string()));
            for (at, state) in self.settle_once(table, settlements, &now).await? {
                states[at] = Some(state);
            }
            waiting = later;
        }
        Ok(states)
    }

    /// Settles in one statement the settlements at these places, of which no two have the same key.
    async fn settle_once(
        &self,
        table: &QueueStatements,
        settlements: &[Settlement],
        places: &[usize],
    ) -> Result<Vec<(usize, State)>, StoreError> {
        let outcome = self
            .run_batch(table, settlements, places, "COMMIT TRANSACTION;")
            .await;
        match outcome {
            Err(StoreError::Rejected(rejection)) => {
                Err(self.blame(table, settlements, places, rejection).await)
            }
            outcome => outcome,
        }
    }

    async fn run_batch(
        &self,
        table: &QueueStatements,
        settlements: &[Settlement],
        places: &[usize],
        end: &str,
    ) -> Result<Vec<(usize, State)>, StoreError> {
        let (sql, wire) = self.batch(table, settlements, places, end)?;
        let results = self
            .pool
            .query(&sql, &wire.parameters(), RetrySafety::Idempotent)
            .await;
        let results = results.map_err(into_rejection)?;
        // There is a result at least, if an empty one.
        decode::result_set(&results, 0)?;
        let mut settled = Vec::new();
        // What was ended; and what had been, if there is any such.
        for row in results.iter().flatten() {
            let at = decode::request_index(row, 0, settlements.len())?;
            settled.push((at, decode::state(row, 1)?));
        }
        Ok(settled)
    }

    /// Finds the settlement, and its follow-up, that a constraint refuses: each is tried alone, and rolled back.
    async fn blame(
        &self,
        table: &QueueStatements,
        settlements: &[Settlement],
        places: &[usize],
        rejection: Rejection,
    ) -> StoreError {
        const UNDO: &str = "ROLLBACK TRANSACTION;";

        for place in places {
            let settlement = &settlements[*place];
            let alone = self.run_batch(table, settlements, &[*place], UNDO).await;
            let Err(StoreError::Rejected(found)) = alone else {
                continue;
            };
            let mut blamed = Rejection {
                item: *place,
                ..found
            };
            if let Ending::Complete { follow_ups } = &settlement.ending {
                for (at, follow_up) in follow_ups.iter().enumerate() {
                    let one = Settlement {
                        lease: settlement.lease.clone(),
                        ending: Ending::Complete {
                            follow_ups: vec![follow_up.clone()],
                        },
                    };
                    let tried = self.run_batch(table, &[one], &[0], UNDO).await;
                    let target = self.queue(follow_up.queue);
                    if let (Err(error), Ok(target)) = (tried, target)
                        && let StoreError::Rejected(found) =
                            target.name_refused_column(error, &follow_up.item.columns)
                    {
                        blamed = Rejection {
                            item: *place,
                            follow_up: Some(at),
                            ..found
                        };
                        break;
                    }
                }
                // Refused without any of them: the row itself.
                let bare = Settlement {
                    lease: settlement.lease.clone(),
                    ending: Ending::Complete {
                        follow_ups: Vec::new(),
                    },
                };
                if self.run_batch(table, &[bare], &[0], UNDO).await.is_err() {
                    blamed.follow_up = None;
                }
            }
            return StoreError::Rejected(blamed);
        }
        StoreError::Misconfigured(rejection.problem)
    }

    pub(super) fn batch(
        &self,
        table: &QueueStatements,
        settlements: &[Settlement],
        places: &[usize],
        end: &str,
    ) -> Result<(String, ListParameters), StoreError> {
        let list = places.iter().map(|at| {
            let settlement = &settlements[*at];
            let mut entry = QueueStatements::lease_entry(*at, &settlement.lease);
            insert_ending(table, &settlement.ending, &mut entry);
            entry
        });
        let mut lists = vec![list.collect()];
        let inserts = self.inserts(settlements, places)?;
        let parts = &table.sql.settle;
        let mut batch = vec![&*parts.begin];
        if !inserts.is_empty() {
            batch.push(&parts.note);
        }
        batch.extend(inserts.iter().map(|insert| &*insert.sql));
        let completes = |at: &usize| matches!(settlements[*at].ending, Ending::Complete { .. });
        let any_completes = places.iter().any(completes);
        if parts.delete.is_none() || !places.iter().all(completes) {
            batch.push(&parts.end);
        }
        batch.extend(parts.delete.as_deref().filter(|_| any_completes));
        batch.push(&parts.sure);
        batch.extend(parts.archive.as_deref().filter(|_| any_completes));
        batch.push(end);
        let sql = batch.join("\n");
        lists.extend(inserts.into_iter().map(|insert| insert.list));
        Ok((sql, ListParameters::new(lists)))
    }

    fn inserts(
        &self,
        settlements: &[Settlement],
        places: &[usize],
    ) -> Result<Vec<Insert>, StoreError> {
        let mut inserts: Vec<Insert> = Vec::new();
        for at in places {
            let Ending::Complete { follow_ups } = &settlements[*at].ending else {
                continue;
            };
            for follow_up in follow_ups {
                let item = &follow_up.item;
                let target = self.queue(follow_up.queue)?;
                let mut values = target
                    .encode_item(item)
                    .map_err(|(_, why)| StoreError::Bug(why))?;
                values.insert("i", json!(at));
                let columns: Vec<String> =
                    item.columns.iter().map(|(name, _)| name.clone()).collect();
                let same = inserts.iter().position(|insert| {
                    insert.queue == follow_up.queue.0
                        && insert.ready == item.delay.is_zero()
                        && insert.columns == columns
                });
                // The first list is that of the leases.
                let place = same.unwrap_or_else(|| {
                    inserts.push(Insert {
                        queue: follow_up.queue.0,
                        ready: item.delay.is_zero(),
                        columns,
                        sql: target.insert(&["insert_follow_ups"], item, inserts.len() + 1),
                        list: Vec::new(),
                    });
                    inserts.len() - 1
                });
                inserts[place].list.push(values);
            }
        }
        Ok(inserts)
    }
}

/// Writes how a lease ends into its entry of the list.
fn insert_ending(table: &QueueStatements, ending: &Ending, entry: &mut ListEntry) {
    let (kind, state, delay, error) = match ending {
        Ending::Complete { .. } => match &table.spec.on_complete {
            OnComplete::Recur(every) => (0, State::Delayed, Some(*every), None),
            _ => (0, State::Completed, None, None),
        },
        Ending::Fail { error, retry } => match retry {
            Some(delay) => (1, State::Delayed, Some(*delay), Some(error)),
            None => (1, State::Dead, None, Some(error)),
        },
        Ending::Release { delay } if delay.is_zero() => (2, State::Ready, None, None),
        Ending::Release { delay } => (2, State::Delayed, Some(*delay), None),
    };
    entry.insert("k", json!(kind));
    entry.insert("n", json!(state.code()));
    insert_delay(entry, delay);
    entry.insert("e", json!(error));
}
