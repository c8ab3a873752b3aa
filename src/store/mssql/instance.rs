//! Lists the broker process as running, and finds the others.

use std::collections::BTreeMap;

use tiberius::{Row, ToSql};
use uuid::Uuid;

use super::connection::Connection;
use super::decode;
use super::epoch::Moment;
use super::error::RetrySafety;
use super::operations::MssqlOperations;
use crate::instance::{FORGET_TIME, Instance, LIVE_TIME};
use crate::template::{Placeholders, render};
use crate::{BrokerList, ListedBroker, StoreError};

const INSTANCE: &str = lease_broker_sql::mssql::INSTANCE;

impl MssqlOperations {
    pub(super) async fn announce(&self, instance: &Instance) -> Result<Vec<Instance>, StoreError> {
        let sql = announce_batch();
        let seconds = |time: std::time::Duration| i32::try_from(time.as_secs()).unwrap_or(i32::MAX);
        let (id, settings) = (instance.id.to_string(), instance.settings_json());
        let (draining, live, forget) = (
            i32::from(instance.draining),
            seconds(LIVE_TIME),
            seconds(FORGET_TIME),
        );
        let parameters: [&dyn ToSql; 7] = [
            &id,
            &instance.version,
            &instance.address,
            &draining,
            &settings,
            &live,
            &forget,
        ];
        let known = self.pool.latest_moment().known();
        let results = self
            .pool
            .query(&sql, &parameters, RetrySafety::Idempotent)
            .await?;
        let found = Moment::read(decode::single_row(&results, 0)?)?;
        self.pool.latest_moment().see(known, found)?;
        let rows = decode::result_set(&results, 1)?;
        rows.iter().map(read).collect()
    }
}

/// Renders the batch.
pub(super) fn announce_batch() -> String {
    render(INSTANCE, "announce", &Placeholders::new())
}

/// Reads a broker from a row: id, version, address, draining and settings.
pub(super) fn read(row: &Row) -> Result<Instance, StoreError> {
    let text =
        |column| Ok::<_, StoreError>(decode::optional_text(row, column)?.unwrap_or_default());
    let id = text(0)?;
    let malformed = |_| decode::unexpected(format!("{id:?} is not the id of a broker"));
    Ok(Instance {
        id: Uuid::parse_str(&id).map_err(malformed)?,
        version: text(1)?,
        address: text(2)?,
        draining: decode::integer(row, 3)? == 1,
        settings: Instance::parse_settings(&text(4)?),
        activity: BTreeMap::new(),
    })
}

/// Lists all rows. See [`Schema::brokers`](crate::schema::Schema::brokers).
pub(super) async fn list(connection: &mut Connection) -> Result<BrokerList, StoreError> {
    let results = connection
        .batch(&render(INSTANCE, "list", &Placeholders::new()))
        .await?;
    let now = decode::time(decode::single_row(&results, 0)?, 0)?;
    let read = |row: &Row| -> Result<ListedBroker, StoreError> {
        let text =
            |column| Ok::<_, StoreError>(decode::optional_text(row, column)?.unwrap_or_default());
        let (draining, millis) = (decode::integer(row, 2)?, decode::integer(row, 3)?);
        Ok(ListedBroker::seen_ago(
            Instance {
                id: Uuid::nil(),
                version: text(1)?,
                address: text(0)?,
                draining: draining == 1,
                settings: BTreeMap::new(),
                activity: BTreeMap::new(),
            },
            0,
            millis,
        ))
    };
    let rows = decode::result_set(&results, 1)?.iter();
    Ok(BrokerList {
        now,
        brokers: rows.map(read).collect::<Result<_, _>>()?,
    })
}
