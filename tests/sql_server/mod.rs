//! Tests of the T-SQL store on a server: kinds of tables, types of keys and values, adoption by hand, broken networks.
//!
//! Features that Babelfish lacks are tested on SQL Server only.

mod network;
mod outage;

mod adoption;
mod application_lock;
mod applied;
mod blocked_settlement;
mod broker_process;
mod events;
mod group_names;
mod held_rows;
mod keys;
mod killed_broker;
mod load;
mod locks;
mod lost_replies;
mod masked_columns;
mod migrations;
mod names;
mod network_faults;
mod permissions;
mod plans;
mod random_load;
mod readers;
mod refused_claims;
mod refused_leases;
mod refused_settlements;
mod refused_values;
mod service;
mod shared_proxy;
mod special_tables;
mod statements;
mod stopped_broker;
mod tables;
mod texts;
mod triggers;
mod types;
mod unread_claims;
