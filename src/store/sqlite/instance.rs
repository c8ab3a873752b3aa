//! Lists the broker process as running, and finds the others.

use std::sync::LazyLock;
use std::time::Duration;

use lease_broker_model::millis::millis_rounded_up;
use rusqlite::Connection;
use uuid::Uuid;

use super::clock::system_clock;
use super::statement::Token;
use super::writer::WriteContext;
use crate::instance::{FORGET_TIME, Instance, LIVE_TIME};
use crate::template::{Placeholders, render};
use crate::{BrokerList, ListedBroker, StoreError};

const INSTANCE: &str = lease_broker_sql::sqlite::INSTANCE;

static STATEMENTS: LazyLock<[String; 3]> = LazyLock::new(|| {
    ["announce", "forget", "read_live"]
        .map(|section| render(INSTANCE, section, &Placeholders::new()))
});

/// Lists the process. See [`Upkeep::announce`](crate::Upkeep::announce).
pub(super) fn announce(
    context: &WriteContext,
    instance: &Instance,
) -> Result<Vec<Instance>, StoreError> {
    let [announce, forget, _] = &*STATEMENTS;
    let (connection, now) = (&context.connection, context.now());
    connection.prepare_cached(announce)?.execute((
        Token(&instance.id),
        &instance.version,
        &instance.address,
        now,
        instance.draining,
        instance.settings_json(),
    ))?;
    connection
        .prepare_cached(forget)?
        .execute([before(FORGET_TIME, now)])?;
    read_others(connection, now, &instance.id)
}

/// Reads the processes that were listed lately, except one.
pub(super) fn read_others(
    connection: &Connection,
    now: i64,
    except: &Uuid,
) -> Result<Vec<Instance>, StoreError> {
    let [_, _, read_live] = &*STATEMENTS;
    let mut read = connection.prepare_cached(read_live)?;
    let others = read.query_map((before(LIVE_TIME, now), Token(except)), |row| {
        let id: [u8; 16] = row.get(0)?;
        Ok(Instance {
            id: Uuid::from_bytes(id),
            version: row.get(1)?,
            address: row.get(2)?,
            draining: row.get(3)?,
            settings: Instance::parse_settings(&row.get::<_, String>(4)?),
        })
    })?;
    Ok(others.collect::<rusqlite::Result<_>>()?)
}

/// Returns the moment that is this time before `now`.
fn before(time: Duration, now: i64) -> i64 {
    now.saturating_sub(millis_rounded_up(time))
}

/// Lists all rows. See [`Schema::brokers`](crate::schema::Schema::brokers).
pub(super) fn list(connection: &Connection) -> Result<BrokerList, StoreError> {
    let now = system_clock()();
    let mut read = connection.prepare(&render(INSTANCE, "list", &Placeholders::new()))?;
    let brokers = read.query_map([now], |row| {
        let (address, version) = (row.get(0)?, row.get(1)?);
        Ok(ListedBroker::seen_ago(
            address,
            version,
            row.get(2)?,
            row.get(3)?,
        ))
    })?;
    Ok(BrokerList {
        now,
        brokers: brokers.collect::<rusqlite::Result<_>>()?,
    })
}
