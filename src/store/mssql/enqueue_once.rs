//! Enqueue with a request id: adds items unless the request is remembered.

use lease_broker_model::key::hex;

use super::decode;
use super::enqueue::{self, ENQUEUE, ItemGroup, group_items, keys_of, shapes};
use super::list_parameters::{FIRST_LIST, ListParameters};
use super::operations::MssqlOperations;
use super::purge::seconds;
use super::queue_statements::QueueStatements;
use super::statement_parts::{COMMIT, ROLLBACK, roll_back_on_error};
use crate::template::{plain, render};
use crate::{EnqueueOnce, EnqueuedOnce, QueueIndex, StoreError};

const ENQUEUE_ONCE: &str = lease_broker_sql::mssql::ENQUEUE_ONCE;

impl MssqlOperations {
    pub(super) async fn enqueue_once(
        &self,
        queue: QueueIndex,
        request: &EnqueueOnce,
    ) -> Result<EnqueuedOnce, StoreError> {
        let queue = self.queue(queue)?;
        // An item that cannot be encoded is refused here, before the database is asked.
        let groups = group_items(queue, &request.items)?;
        let first = self.insert_once(queue, request, groups).await;
        let Err(StoreError::Rejected(_)) = first else {
            return first;
        };
        // The same request may have been committed at this moment. Its row then refused this one with a duplicate key, and
        // the second run finds it.
        let groups = group_items(queue, &request.items)?;
        match self.insert_once(queue, request, groups).await {
            Err(StoreError::Rejected(rejection)) => {
                let items = &request.items;
                Err(self.find_rejected_item(queue, items, rejection).await)
            }
            outcome => outcome,
        }
    }

    async fn insert_once(
        &self,
        queue: &QueueStatements,
        request: &EnqueueOnce,
        groups: Vec<ItemGroup<'_>>,
    ) -> Result<EnqueuedOnce, StoreError> {
        let items = &request.items;
        let sql = render_batch(queue, &groups);
        let (lists, indexes): (Vec<_>, Vec<_>) = groups
            .into_iter()
            .map(|group| (group.list, group.indexes))
            .unzip();
        let lists = ListParameters::new(lists);
        let request_id = request.request_id.to_string();
        let digest = hex(&request.digest());
        let count = i32::try_from(items.len()).unwrap_or(i32::MAX);
        let memory = seconds(queue.spec.enqueue_memory);
        let parameters = lists.and(&[&queue.spec.name, &request_id, &digest, &count, &memory]);
        let results = self.query_idempotent(&sql, &parameters).await;
        let results = match results {
            Ok(results) => results,
            Err(failure) => {
                // This batch would remember the request without its items. That of an enqueue without a request id remembers none.
                let groups = group_items(queue, items)?;
                let enqueue = enqueue::render_batch(queue, &groups, ROLLBACK);
                let empty = lists.without_entries();
                return Err(self.refusal(failure, &enqueue, &empty.parameters()).await);
            }
        };
        let outcome = decode::single_row(&results, 0)?;
        let is_new = decode::integer(outcome, 0)? == 1;
        let remembered = decode::optional_text(outcome, 1)?;
        if remembered.as_deref() != Some(&*digest) {
            return Ok(EnqueuedOnce::OtherItems);
        }
        let (count, keys) = (items.len(), &results[1..]);
        Ok(if is_new {
            EnqueuedOnce::Added(keys_of(queue, count, &indexes, keys)?)
        } else {
            let all = [shapes(items).concat()];
            EnqueuedOnce::Repeated(keys_of(queue, count, &all, keys)?)
        })
    }

    pub(super) async fn forget_requests(&self, limit: usize) -> Result<usize, StoreError> {
        let sql = plain(ENQUEUE_ONCE, "forget");
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let results = self.query_idempotent(&sql, &[&limit]).await?;
        decode::integer_as(decode::single_row(&results, 0)?, 0)
    }
}

/// Renders the batch that inserts all groups, or reads the keys of an earlier request.
pub(super) fn render_batch(queue: &QueueStatements, groups: &[ItemGroup<'_>]) -> String {
    let mut placeholders = queue.placeholders.clone();
    let names = [
        "queue_parameter",
        "request_parameter",
        "digest_parameter",
        "count_parameter",
        "memory_parameter",
    ];
    for (number, name) in (FIRST_LIST + groups.len()..).zip(names) {
        placeholders.insert(name, format!("@P{number}"));
    }
    let mut sections = vec![
        render(ENQUEUE, "begin", &queue.placeholders),
        render(ENQUEUE_ONCE, "if_new", &placeholders),
    ];
    for (list_number, group) in groups.iter().enumerate() {
        let first = &group.first;
        let insert = queue.key_source.section(&queue.key, first);
        let insert = [(ENQUEUE, "item_list"), (ENQUEUE, insert)];
        let remember = queue.key_source.remember_section(&queue.key, first);
        let all = insert.into_iter().chain([(ENQUEUE_ONCE, remember)]);
        let all: Vec<_> = all.collect();
        sections.push(queue.render_insert_of(&all, first, list_number));
    }
    sections.push(render(ENQUEUE_ONCE, "if_remembered", &placeholders));
    sections.push(render(ENQUEUE_ONCE, "read_keys", &placeholders));
    sections.push(render(ENQUEUE_ONCE, "end_if", &placeholders));
    sections.push(COMMIT.to_owned());
    roll_back_on_error(sections.join("\n"), queue.has_triggers)
}
