//! New items.

use serde_json::json;

use super::Mssql;
use super::error::{RetrySafety, into_rejection};
use super::list_parameters::{ListEntry, ListParameters};
use super::queue_statements::QueueStatements;
use crate::store::template::{Placeholders, render};
use crate::store::{NewItem, QueueIndex, Rejection, StoreError};
use crate::value::Key;

const ENQUEUE: &str = include_str!("../../../sql/mssql/enqueue.sql");

/// How a batch of items ends.
#[derive(Clone, Copy)]
pub(super) enum End {
    Commit,
    Rollback,
}

/// Items that name the same columns, with their places in the call.
pub(super) struct Group {
    pub(super) ready: bool,
    pub(super) columns: Vec<String>,
    pub(super) places: Vec<usize>,
    pub(super) list: Vec<ListEntry>,
}

impl Mssql {
    pub(super) async fn enqueue(
        &self,
        queue: QueueIndex,
        items: &[NewItem],
    ) -> Result<Vec<Key>, StoreError> {
        let table = self.queue(queue)?;
        let groups = groups(table, items)?;
        match self.insert(table, items, groups, End::Commit).await {
            Err(StoreError::Rejected(rejection)) => {
                Err(self.find_refused(table, items, rejection).await)
            }
            outcome => outcome,
        }
    }

    /// Inserts all, in one transaction.
    async fn insert(
        &self,
        table: &QueueStatements,
        items: &[NewItem],
        groups: Vec<Group>,
        end: End,
    ) -> Result<Vec<Key>, StoreError> {
        let sql = batch(table, items, &groups, end);
        let (lists, places): (Vec<_>, Vec<_>) = groups
            .into_iter()
            .map(|group| (group.list, group.places))
            .unzip();
        let wire = ListParameters::new(lists);
        let parameters = wire.parameters();
        let results = self
            .pool
            .query(&sql, &parameters, RetrySafety::AtMostOnce)
            .await;
        let results = results.map_err(into_rejection)?;
        let mut keys = vec![None; items.len()];
        for (places, rows) in places.iter().zip(&results) {
            for (place, row) in places.iter().zip(rows) {
                keys[*place] = Some(table.read_key(row, 0)?);
            }
        }
        let keyless = || StoreError::Bug("an item came back without a key".to_owned());
        let keys = keys.into_iter();
        keys.map(|key| key.ok_or_else(keyless)).collect()
    }

    /// Finds the first item without which the items before it would be taken: by halves, each tried and rolled back.
    async fn find_refused(
        &self,
        table: &QueueStatements,
        items: &[NewItem],
        mut rejection: Rejection,
    ) -> StoreError {
        // The first `taken` items are taken, the first `refused` are not.
        let (mut taken, mut refused) = (0, items.len());
        while refused - taken > 1 {
            let half = taken.midpoint(refused);
            let first = &items[..half];
            let tried = match groups(table, first) {
                Ok(groups) => self.insert(table, first, groups, End::Rollback).await,
                Err(error) => Err(error),
            };
            match tried {
                Ok(_) => taken = half,
                Err(StoreError::Rejected(found)) => {
                    refused = half;
                    rejection = found;
                }
                Err(error) => return error,
            }
        }
        rejection.item = taken;
        let named = items.get(taken).map_or(&[][..], |item| &item.columns);
        table.name_refused_column(StoreError::Rejected(rejection), named)
    }
}

/// Writes the batch that adds the groups.
pub(super) fn batch(
    table: &QueueStatements,
    items: &[NewItem],
    groups: &[Group],
    end: End,
) -> String {
    let mut sql = render(ENQUEUE, "begin", &Placeholders::new());
    for (at, group) in groups.iter().enumerate() {
        let one = &items[group.places[0]];
        let way = table.key_source.section(&table.key, one);
        sql.extend(["\n", &table.insert(&["item_list", way], one, at)]);
    }
    sql.push_str(match end {
        End::Commit => "\nCOMMIT TRANSACTION;",
        End::Rollback => "\nROLLBACK TRANSACTION;",
    });
    sql
}

/// Sorts the items by the columns that they name.
pub(super) fn groups(table: &QueueStatements, items: &[NewItem]) -> Result<Vec<Group>, StoreError> {
    let mut groups: Vec<Group> = Vec::new();
    for (place, item) in items.iter().enumerate() {
        let mut values = table.encode_item(item).map_err(|(column, problem)| {
            StoreError::Rejected(Rejection {
                item: place,
                follow_up: None,
                column: Some(column),
                problem,
            })
        })?;
        let columns: Vec<String> = item.columns.iter().map(|(name, _)| name.clone()).collect();
        let ready = item.delay.is_zero();
        let same = |group: &Group| group.ready == ready && group.columns == columns;
        let at = groups.iter().position(same).unwrap_or_else(|| {
            groups.push(Group {
                ready,
                columns,
                places: Vec::new(),
                list: Vec::new(),
            });
            groups.len() - 1
        });
        values.insert("i", json!(groups[at].places.len()));
        groups[at].places.push(place);
        groups[at].list.push(values);
    }
    Ok(groups)
}
