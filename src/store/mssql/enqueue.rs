//! New items.

use serde_json::{Value as Json, json};
use tiberius::ToSql;

use super::Mssql;
use super::error::caught;
use super::pool::Again;
use super::table::integer;
use crate::store::template::{Holes, render};
use crate::store::{NewItem, QueueIndex, Rejection, StoreError};
use crate::value::Key;

const ENQUEUE: &str = include_str!("../../../sql/mssql/enqueue.sql");
/// How many columns the row has that tells of an error that the batch has caught.
const CAUGHT: usize = 7;

/// Items that name the same columns, with their places in the call.
struct Group {
    ready: bool,
    columns: Vec<String>,
    places: Vec<usize>,
    list: Vec<Json>,
}

impl Mssql {
    pub(super) async fn enqueue(
        &self,
        queue: QueueIndex,
        items: &[NewItem],
    ) -> Result<Vec<Key>, StoreError> {
        let table = self.queue(queue)?;
        let groups = self.groups(queue, items)?;
        let none = Holes::new();
        let mut sql = render(ENQUEUE, "begin", &none);
        for (at, group) in (1..).zip(&groups) {
            let insert = table.insert("insert", &items[group.places[0]], at, "");
            sql.extend(["\n", &insert]);
        }
        sql.extend(["\n", &render(ENQUEUE, "end", &none)]);
        let lists: Vec<String> = groups
            .iter()
            .map(|group| Json::Array(group.list.clone()).to_string())
            .collect();
        let parameters: Vec<&dyn ToSql> = lists.iter().map(|list| list as &dyn ToSql).collect();
        let results = self.connected.query(&sql, &parameters, Again::Once).await?;
        let last = results.last().and_then(|rows| rows.first());
        if let Some(error) = last.filter(|row| row.len() == CAUGHT) {
            let [group, place, number] = [3, 4, 5].map(|at| integer(error, at));
            let group = usize::try_from(group?).unwrap_or(0).saturating_sub(1);
            let place = usize::try_from(place?).unwrap_or(0);
            let item = groups.get(group).and_then(|group| group.places.get(place));
            let message: Option<&str> = error.try_get(6)?;
            let item = item.copied().unwrap_or_default();
            return Err(table.blame(caught(item, number?, message.unwrap_or_default())));
        }
        let mut keys = vec![None; items.len()];
        for (group, rows) in groups.iter().zip(&results) {
            for (place, row) in group.places.iter().zip(rows) {
                keys[*place] = Some(table.read_key(row, 0)?);
            }
        }
        let keyless = || StoreError::Bug("an item came back without a key".to_owned());
        keys.into_iter()
            .map(|key| key.ok_or_else(keyless))
            .collect()
    }

    fn groups(&self, queue: QueueIndex, items: &[NewItem]) -> Result<Vec<Group>, StoreError> {
        let table = self.queue(queue)?;
        let mut groups: Vec<Group> = Vec::new();
        for (place, item) in items.iter().enumerate() {
            let mut values = table.accept(item).map_err(|(column, problem)| {
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
            values.insert("i".to_owned(), json!(groups[at].places.len()));
            groups[at].places.push(place);
            groups[at].list.push(Json::Object(values));
        }
        Ok(groups)
    }
}
