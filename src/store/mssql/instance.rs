//! Lists the broker process as running, and finds the others.

use tiberius::{Row, ToSql};
use uuid::Uuid;

use super::connection::Connection;
use super::decode;
use super::epoch::Moment;
use super::operations::MssqlOperations;
use crate::instance::{FORGET_TIME, Instance, LIVE_TIME};
use crate::template::plain;
use crate::{BrokerList, ListedBroker, StoreError};

const INSTANCE: &str = lease_broker_sql::mssql::INSTANCE;

impl MssqlOperations {
    pub(super) async fn announce(&self, instance: &Instance) -> Result<Vec<Instance>, StoreError> {
        let sql = plain(INSTANCE, "announce");
        let seconds = |time: std::time::Duration| i32::try_from(time.as_secs()).unwrap_or(i32::MAX);
        let (id, settings) = (instance.id.to_string(), instance.settings_json());
        let (draining, live, forget) = (
            i32::from(instance.draining),
            seconds(LIVE_TIME),
            seconds(FORGET_TIME),
        );
        let activity = instance.activity_json();
        let parameters: [&dyn ToSql; 8] = [
            &id,
            &instance.version,
            &instance.address,
            &draining,
            &settings,
            &live,
            &forget,
            &activity,
        ];
        let known = self.pool.latest_moment().known();
        let results = self.query_idempotent(&sql, &parameters).await?;
        let found = Moment::read(decode::single_row(&results, 0)?)?;
        self.pool.latest_moment().see(known, found)?;
        let rows = decode::result_set(&results, 1)?;
        rows.iter().map(read).collect()
    }

    pub(super) async fn brokers(&self) -> Result<BrokerList, StoreError> {
        let results = self.query_idempotent(&plain(INSTANCE, "list"), &[]).await?;
        read_list(&results)
    }

    pub(super) async fn request_drain(&self, broker: Uuid) -> Result<bool, StoreError> {
        let results = self
            .query_idempotent(&plain(INSTANCE, "request_drain"), &[&broker.to_string()])
            .await?;
        Ok(decode::integer(decode::single_row(&results, 0)?, 0)? > 0)
    }
}

/// Reads a broker from a row: id, version, address, draining, settings and activity.
pub(super) fn read(row: &Row) -> Result<Instance, StoreError> {
    let text = |column| decode::text(row, column);
    let id = text(0)?;
    let malformed = |_| decode::unexpected(format!("{id:?} is not the id of a broker"));
    Ok(Instance {
        id: Uuid::parse_str(&id).map_err(malformed)?,
        version: text(1)?,
        address: text(2)?,
        draining: decode::integer(row, 3)? == 1,
        settings: Instance::parse_settings(&text(4)?),
        activity: Instance::parse_activity(&text(5)?),
    })
}

/// Lists all rows. See [`Schema::brokers`](crate::schema::Schema::brokers).
pub(super) async fn list(connection: &mut Connection) -> Result<BrokerList, StoreError> {
    read_list(&connection.batch(&plain(INSTANCE, "list")).await?)
}

/// Reads the results of `list`.
fn read_list(results: &[Vec<Row>]) -> Result<BrokerList, StoreError> {
    let now = decode::time(decode::single_row(results, 0)?, 0)?;
    let read = |row: &Row| -> Result<ListedBroker, StoreError> {
        let (start, millis) = (decode::time(row, 6)?, decode::integer(row, 7)?);
        Ok(ListedBroker::seen_ago(read(row)?, start, millis))
    };
    let rows = results.iter().skip(1).flatten();
    Ok(BrokerList {
        now,
        brokers: rows.map(read).collect::<Result<_, _>>()?,
    })
}
