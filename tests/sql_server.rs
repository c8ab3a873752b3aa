//! The T-SQL store's own: the kinds of tables and of values that a server has, adoption by hand, and a network that breaks.
//! What SQL Server has and Babelfish lacks is tried on the former alone.

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
#[path = "sql_server/for_others.rs"]
mod for_others;
#[path = "sql_server/keys.rs"]
mod keys;
#[path = "sql_server/killed.rs"]
mod killed;
#[path = "sql_server/kinds.rs"]
mod kinds;
#[path = "sql_server/load.rs"]
mod load;
#[path = "sql_server/names.rs"]
mod names;
#[path = "sql_server/proxy.rs"]
mod proxy;
#[path = "sql_server/refused.rs"]
mod refused;
#[path = "sql_server/replies.rs"]
mod replies;
#[path = "sql_server/service.rs"]
mod service;
#[path = "sql_server/special_tables.rs"]
mod special_tables;
#[path = "sql_server/storm.rs"]
mod storm;
#[path = "sql_server/texts.rs"]
mod texts;
#[path = "sql_server/triggers.rs"]
mod triggers;
#[path = "sql_server/types.rs"]
mod types;
