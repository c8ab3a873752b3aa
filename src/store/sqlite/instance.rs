//! Lists the broker process as running, and finds the others.

use std::sync::LazyLock;
use std::time::Duration;

use lease_broker_model::millis::millis_rounded_up;
use rusqlite::{Connection, Row};
use uuid::Uuid;

use super::pause::has_tables;
use super::statement::Token;
use super::write_context::WriteContext;
use crate::contract::due_after;
use crate::instance::{FORGET_TIME, Instance, LIVE_TIME};
use crate::template::plain;
use crate::{BrokerList, ListedBroker, StoreError};

const INSTANCE: &str = lease_broker_sql::sqlite::INSTANCE;

static STATEMENTS: LazyLock<[String; 3]> =
    LazyLock::new(|| ["announce", "forget", "read_live"].map(|section| plain(INSTANCE, section)));

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
        instance.activity_json(),
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
    let (first, last) = (before(LIVE_TIME, now), due_after(now, LIVE_TIME));
    let others = read.query_map((first, last, Token(except)), read_instance)?;
    Ok(others.collect::<rusqlite::Result<_>>()?)
}

fn read_instance(row: &Row<'_>) -> rusqlite::Result<Instance> {
    let id: [u8; 16] = row.get(0)?;
    Ok(Instance {
        id: Uuid::from_bytes(id),
        version: row.get(1)?,
        address: row.get(2)?,
        draining: row.get(3)?,
        settings: Instance::parse_settings(&row.get::<_, String>(4)?),
        activity: Instance::parse_activity(&row.get::<_, String>(5)?),
    })
}

/// Returns the moment that is this time before `now`.
fn before(time: Duration, now: i64) -> i64 {
    now.saturating_sub(millis_rounded_up(time))
}

/// Tells a process to drain. See [`Operate::request_drain`](crate::Operate::request_drain).
pub(super) fn request_drain(context: &WriteContext, broker: &Uuid) -> Result<bool, StoreError> {
    let sql = plain(INSTANCE, "request_drain");
    let mut request = context.connection.prepare_cached(&sql)?;
    Ok(request.execute([Token(broker)])? > 0)
}

/// Returns whether an operator told the process to drain.
pub(super) fn is_told_to_drain(connection: &Connection, broker: &Uuid) -> Result<bool, StoreError> {
    let sql = plain(INSTANCE, "is_told_to_drain");
    Ok(connection.prepare_cached(&sql)?.exists([Token(broker)])?)
}

/// Lists all rows. `None`: the tables of the brokers do not exist. See [`Browse::brokers`](crate::Browse::brokers).
pub(super) fn list(connection: &Connection, now: i64) -> Result<Option<BrokerList>, StoreError> {
    if !has_tables(connection)? {
        return Ok(None);
    }
    let mut read = connection.prepare(&plain(INSTANCE, "list"))?;
    let brokers = read.query_map([now], |row| {
        Ok(ListedBroker::seen_ago(
            read_instance(row)?,
            row.get(6)?,
            row.get(7)?,
        ))
    })?;
    Ok(Some(BrokerList {
        now,
        brokers: brokers.collect::<rusqlite::Result<_>>()?,
    }))
}
