//! Tests of the T-SQL store on a server: kinds of tables, types of keys and values, adoption by hand, broken networks.
//!
//! Features that Babelfish lacks are tested on SQL Server only.

#[path = "harness/harness.rs"]
mod harness;
#[path = "support/skipped.rs"]
mod skipped;
mod support;

#[path = "sql_server/network.rs"]
mod network;
#[path = "sql_server/outage.rs"]
mod outage;
#[path = "sql_server/program.rs"]
mod program;

#[path = "sql_server/adoption.rs"]
mod adoption;
#[path = "sql_server/application_lock.rs"]
mod application_lock;
#[path = "sql_server/blocked_settlement.rs"]
mod blocked_settlement;
#[path = "sql_server/broker_process.rs"]
mod broker_process;
#[path = "sql_server/events.rs"]
mod events;
#[path = "sql_server/held_rows.rs"]
mod held_rows;
#[path = "sql_server/keys.rs"]
mod keys;
#[path = "sql_server/killed_broker.rs"]
mod killed_broker;
#[path = "sql_server/load.rs"]
mod load;
#[path = "sql_server/locks.rs"]
mod locks;
#[path = "sql_server/lost_replies.rs"]
mod lost_replies;
#[path = "sql_server/masked_columns.rs"]
mod masked_columns;
#[path = "sql_server/migrations.rs"]
mod migrations;
#[path = "sql_server/names.rs"]
mod names;
#[path = "sql_server/network_faults.rs"]
mod network_faults;
#[path = "sql_server/permissions.rs"]
mod permissions;
#[path = "sql_server/plans.rs"]
mod plans;
#[path = "sql_server/proxy.rs"]
#[allow(dead_code, reason = "another target uses the rest")]
mod proxy;
#[path = "sql_server/random_load.rs"]
mod random_load;
#[path = "sql_server/readers.rs"]
mod readers;
#[path = "sql_server/refused_settlements.rs"]
mod refused_settlements;
#[path = "sql_server/refused_values.rs"]
mod refused_values;
#[path = "sql_server/service.rs"]
mod service;
#[path = "sql_server/shared_proxy.rs"]
mod shared_proxy;
#[path = "sql_server/special_tables.rs"]
mod special_tables;
#[path = "sql_server/statements.rs"]
mod statements;
#[path = "sql_server/stopped_broker.rs"]
mod stopped_broker;
#[path = "sql_server/tables.rs"]
mod tables;
#[path = "sql_server/texts.rs"]
mod texts;
#[path = "sql_server/triggers.rs"]
mod triggers;
#[path = "sql_server/types.rs"]
mod types;
