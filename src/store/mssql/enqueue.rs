//! Enqueue: adds items to a queue and returns their keys.

use std::borrow::Cow;

use lease_broker_model::key::Key;
use serde_json::json;
use tiberius::Row;

use super::error::RetrySafety;
use super::list_parameters::{ListEntry, ListParameters};
use super::operations::MssqlOperations;
use super::queue_statements::QueueStatements;
use super::statement_parts::{COMMIT, ROLLBACK, roll_back_on_error};
use crate::template::render;
use crate::{NewItem, QueueIndex, Rejection, StoreError};

pub(super) const ENQUEUE: &str = lease_broker_sql::mssql::ENQUEUE;

/// The items that one INSERT adds. They follow each other in the call, name the same columns, and all of them are ready or all are delayed.
pub(super) struct ItemGroup<'a> {
    pub(super) first: Cow<'a, NewItem>,
    /// For each item of the group, its index in the call.
    pub(super) indexes: Vec<usize>,
    pub(super) list: Vec<ListEntry>,
}

impl MssqlOperations {
    pub(super) async fn enqueue(
        &self,
        queue: QueueIndex,
        items: &[NewItem],
    ) -> Result<Vec<Key>, StoreError> {
        let queue = self.queue(queue)?;
        let groups = group_items(queue, items)?;
        match self.insert(queue, groups, COMMIT).await {
            Err(StoreError::Rejected(rejection)) => {
                Err(self.find_rejected_item(queue, items, rejection).await)
            }
            outcome => outcome,
        }
    }

    /// Inserts all groups in one transaction and returns the keys in the order of `items`.
    async fn insert(
        &self,
        queue: &QueueStatements,
        groups: Vec<ItemGroup<'_>>,
        end: &str,
    ) -> Result<Vec<Key>, StoreError> {
        let sql = render_batch(queue, &groups, end);
        let items = groups.iter().map(|group| group.indexes.len()).sum();
        let (lists, indexes): (Vec<_>, Vec<_>) = groups
            .into_iter()
            .map(|group| (group.list, group.indexes))
            .unzip();
        let lists = ListParameters::new(lists);
        let batch = (&*sql, RetrySafety::AtMostOnce);
        let results = self
            .run_lists(&mut self.pool.tries(), batch, &lists)
            .await?;
        keys_of(queue, items, &indexes, &results)
    }

    /// Finds the first item that the database refuses, by binary search. Each try inserts the first n items and rolls
    /// back.
    pub(super) async fn find_rejected_item(
        &self,
        queue: &QueueStatements,
        items: &[NewItem],
        mut rejection: Rejection,
    ) -> StoreError {
        // The first `accepted` items can be inserted together. The first `rejected` items cannot.
        let (mut accepted, mut rejected) = (0, items.len());
        while rejected - accepted > 1 {
            let middle = accepted.midpoint(rejected);
            let first = &items[..middle];
            let result = match group_items(queue, first) {
                Ok(groups) => self.insert(queue, groups, ROLLBACK).await,
                Err(error) => Err(error),
            };
            match result {
                Ok(_) => accepted = middle,
                Err(StoreError::Rejected(found)) => {
                    rejected = middle;
                    rejection = found;
                }
                Err(error) => return error,
            }
        }
        rejection.item = Some(accepted);
        let columns = items.get(accepted).map_or(&[][..], |item| &item.columns);
        queue.name_refused_column(StoreError::Rejected(rejection), columns)
    }
}

/// Reads the keys that the batch returned. `results` has one result set per group, and `indexes` the indexes of the group's
/// items. Returns the keys in the order of the items.
pub(super) fn keys_of(
    queue: &QueueStatements,
    items: usize,
    indexes: &[Vec<usize>],
    results: &[Vec<Row>],
) -> Result<Vec<Key>, StoreError> {
    let mut keys = vec![None; items];
    for (indexes, rows) in indexes.iter().zip(results) {
        for (index, row) in indexes.iter().zip(rows) {
            keys[*index] = Some(queue.read_key(row, 0)?);
        }
    }
    let missing = || StoreError::Bug("the server returned no key for an item".to_owned());
    let keys = keys.into_iter();
    keys.map(|key| key.ok_or_else(missing)).collect()
}

/// Renders the batch that inserts all groups. `end`: [`COMMIT`] or [`ROLLBACK`].
pub(super) fn render_batch(queue: &QueueStatements, groups: &[ItemGroup<'_>], end: &str) -> String {
    let mut sql = render(ENQUEUE, "begin", &queue.placeholders);
    sql.extend(["\n", &queue.placeholders["refuse_items"]]);
    for (list_number, group) in groups.iter().enumerate() {
        let first = &group.first;
        let insert = queue.key_source.section(&queue.key, first);
        let sections = ["item_list", insert];
        sql.extend(["\n", &queue.render_insert(&sections, first, list_number)]);
    }
    sql.extend(["\n", end]);
    roll_back_on_error(sql, queue.has_triggers)
}

/// The number of INSERTs up to which a batch adds items in their order. With more, items that do not follow each other share one: each
/// INSERT makes the text of the batch longer, and reads the long texts of the call again.
const MAX_ORDERED: usize = 8;

impl QueueStatements {
    /// Returns the one of these INSERTs, each given by its first item, that can add an item. Items keep their order, unless that takes
    /// too many INSERTs.
    pub(super) fn insert_for<'a>(
        &self,
        inserts: impl DoubleEndedIterator<Item = &'a NewItem> + ExactSizeIterator,
        item: &NewItem,
    ) -> Option<usize> {
        let count = inserts.len();
        let searched = if count < MAX_ORDERED { 1 } else { count };
        let any_delay = || {
            let set = |placeholder| &self.placeholders[placeholder];
            set("mirror_columns_ready") == set("mirror_columns_delayed")
                && set("mirror_values_ready") == set("mirror_values_delayed")
        };
        let can_add = |first: &NewItem| {
            names(first).eq(names(item)) && (is_ready(first) == is_ready(item) || any_delay())
        };
        let place = inserts.rev().take(searched).position(can_add)?;
        Some(count - 1 - place)
    }
}

fn names(item: &NewItem) -> impl Iterator<Item = &String> {
    item.columns.iter().map(|(name, _)| name)
}

fn is_ready(item: &NewItem) -> bool {
    item.delay.is_zero()
}

/// Returns the indexes of items that name the same columns, and are all ready or all delayed, in the order in which such items appear.
/// In contrast to the groups, this depends on the items alone. A call that is remembered has its keys in this order.
pub(super) fn shapes(items: &[NewItem]) -> Vec<Vec<usize>> {
    let mut shapes: Vec<Vec<usize>> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let has_item = |shape: &&mut Vec<usize>| {
            let first = &items[shape[0]];
            names(first).eq(names(item)) && is_ready(first) == is_ready(item)
        };
        match shapes.iter_mut().find(has_item) {
            Some(shape) => shape.push(index),
            None => shapes.push(vec![index]),
        }
    }
    shapes
}

/// Groups the items, in their order if that takes few INSERTs: an identity column counts in it.
///
/// # Errors
/// [`StoreError::Rejected`] with every item that cannot be encoded.
pub(super) fn group_items<'a>(
    queue: &QueueStatements,
    items: &'a [NewItem],
) -> Result<Vec<ItemGroup<'a>>, StoreError> {
    let mut groups: Vec<ItemGroup<'a>> = Vec::new();
    let mut rejections = Vec::new();
    let mut places = vec![(0, 0); items.len()];
    for (number, shape) in shapes(items).into_iter().enumerate() {
        for (position, index) in shape.into_iter().enumerate() {
            places[index] = (number, position);
        }
    }
    let items = queue.with_same_columns(items.iter());
    for (item_index, item) in items.into_iter().enumerate() {
        let mut entry = match queue.encode_item(&item) {
            Ok(entry) => entry,
            Err((column, problem)) => {
                rejections.push(Rejection::of_item(item_index, Some(column), problem));
                continue;
            }
        };
        if !rejections.is_empty() {
            continue;
        }
        let firsts = groups.iter().map(|group| &*group.first);
        let place = queue.insert_for(firsts, &item).unwrap_or_else(|| {
            groups.push(ItemGroup {
                first: item,
                indexes: Vec::new(),
                list: Vec::new(),
            });
            groups.len() - 1
        });
        let group = &mut groups[place];
        entry.insert("i", json!(group.indexes.len()));
        entry.insert("l", json!(places[item_index].0));
        entry.insert("o", json!(places[item_index].1));
        group.indexes.push(item_index);
        group.list.push(entry);
    }
    Rejection::of_all(rejections)?;
    Ok(groups)
}
