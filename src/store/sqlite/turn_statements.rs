//! The SQL statements of queues with groups or limits. Rendered once, when the store opens.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::QueueSpec;
use lease_broker_sql::LeaseSql;

use super::state_index;
use super::suspect_statements::PickStatements;
use crate::adoption::with;
use crate::template::{Placeholders, render};

/// The SQL text of the statements.
pub(super) struct TurnStatements {
    pub(super) read_row: String,
    pub(super) write_row: String,
    pub(super) count_leased: String,
    pub(super) fill_row: String,
    /// `None`: the queue has limits and no groups.
    pub(super) groups: Option<GroupStatements>,
}

/// The statements of a walk over groups.
pub(super) struct GroupStatements {
    /// Find all ready items.
    pub(super) all: WalkStatements,
    /// Find those that are not suspects. In a strict group the visits and `pick_of_group` also find suspects, because these hold back the
    /// items behind them.
    pub(super) others: WalkStatements,
    /// `None`: the groups keep no order.
    pub(super) is_first: Option<String>,
    pub(super) find_group: String,
    pub(super) is_of_group: String,
    pub(super) is_paused: String,
    pub(super) bound_rates: String,
    pub(super) read_rate: String,
    pub(super) write_rate: String,
    pub(super) forget_rates: String,
    pub(super) end_pauses: String,
    pub(super) count_paused: String,
}

/// The statements that find items and read them.
pub(super) struct WalkStatements {
    pub(super) visit_first: String,
    pub(super) visit_after: String,
    pub(super) visit_until: String,
    pub(super) visit_between: String,
    pub(super) visit_one: String,
    pub(super) pick_of_group: String,
    pub(super) pick_without_group: String,
    /// Reads an item that was found.
    pub(super) read_head: PickStatements,
}

impl TurnStatements {
    /// Renders the statements. `None`: the queue has neither groups nor limits.
    pub(super) fn new(
        sql: &LeaseSql,
        queue: &QueueSpec,
        item_columns: &str,
        placeholders: &Placeholders,
    ) -> Option<Self> {
        queue.takes_turns().then(|| {
            let text = |section| render(sql.groups, section, placeholders);
            let groups = queue.groups.as_ref();
            Self {
                read_row: text("read_row"),
                write_row: text("write_row"),
                count_leased: state_index::render(
                    queue,
                    State::Leased,
                    sql.groups,
                    "count_leased",
                    placeholders,
                ),
                fill_row: text("fill_row"),
                groups: groups.map(|groups| {
                    let is_strict = groups.is_strict();
                    GroupStatements::new(sql, is_strict, item_columns, placeholders)
                }),
            }
        })
    }
}

impl GroupStatements {
    fn new(
        sql: &LeaseSql,
        is_strict: bool,
        item_columns: &str,
        placeholders: &Placeholders,
    ) -> Self {
        let text = |section| render(sql.groups, section, placeholders);
        let block = if is_strict {
            "strict_block"
        } else {
            "parallel_block"
        };
        let except = render(sql.suspects, "except_suspects", placeholders);
        let except = with(placeholders, [("except_suspects", except)]);
        let walk = |placeholders: &Placeholders, of_groups: &Placeholders| {
            let visit = |bounds| {
                let parts = [("block", text(block)), ("bounds", text(bounds))];
                render(sql.groups, "visit", &with(of_groups, parts))
            };
            WalkStatements {
                visit_first: visit("visit_first"),
                visit_after: visit("visit_after"),
                visit_until: visit("visit_until"),
                visit_between: visit("visit_between"),
                visit_one: visit("visit_one"),
                pick_of_group: render(sql.groups, "pick_of_group", of_groups),
                pick_without_group: render(sql.groups, "pick_without_group", placeholders),
                read_head: PickStatements::new(sql.groups, "read_head", item_columns, placeholders),
            }
        };
        Self {
            all: walk(placeholders, placeholders),
            others: walk(&except, if is_strict { placeholders } else { &except }),
            is_first: is_strict.then(|| {
                let behind = placeholders["behind_states"].split(", ").map(|state| {
                    let state = [("behind_state", state.to_owned())];
                    let behind = render(sql.groups, "first_behind", &with(placeholders, state));
                    format!("\n    {behind}")
                });
                let behind = [("first_behind", behind.collect())];
                render(sql.groups, "is_first", &with(placeholders, behind))
            }),
            find_group: text("find_group"),
            is_of_group: text("is_of_group"),
            is_paused: text("is_paused"),
            bound_rates: text("bound_rates"),
            read_rate: text("read_rate"),
            write_rate: text("write_rate"),
            forget_rates: text("forget_rates"),
            end_pauses: text("end_pauses"),
            count_paused: text("count_paused"),
        }
    }
}
