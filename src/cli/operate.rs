//! The commands for operators. Each calls a running service or, with `--config` or `--store`, opens the database itself. Both ways
//! serve the same rpcs of `AdminService`, so they give the same results and the same errors.

mod admin;
mod archive;
mod audit_args;
mod brokers;
mod cancel;
mod change;
mod change_kind;
pub(super) mod complete;
mod database_user;
mod filter_args;
mod group_list;
mod groups;
mod item_row;
mod limits;
mod list;
mod listing;
mod operation_row;
mod operations;
mod pause;
mod pause_parts;
mod place_args;
mod progress;
mod purge;
mod queue_row;
mod redrive;
mod service;
mod show;
mod stats;
mod time_args;
mod top;
mod watch;
mod word_arg;

pub(super) use self::brokers::{Brokers, Drain};
pub(super) use self::cancel::Cancel;
pub(super) use self::groups::Groups;
pub(super) use self::limits::Limits;
pub(super) use self::list::List;
pub(super) use self::operations::Operations;
pub(super) use self::pause::{Pause, Resume};
pub(super) use self::purge::Purge;
pub(super) use self::redrive::Redrive;
pub(super) use self::show::Show;
pub(super) use self::stats::Stats;
pub(super) use self::top::Top;
