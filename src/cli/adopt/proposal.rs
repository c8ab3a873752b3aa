//! The settings that `adopt` proposes for a table: its queue, its key and the columns that workers write. A person checks them.

use lease_broker_model::item_state::State;
use lease_broker_model::queue::{SoftLock, SoftLockColumn};
use lease_broker_store::{Survey, SurveyedColumn};
use toml::Value;

/// The settings of a queue over an existing table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Proposal {
    /// The name of the queue.
    pub(super) queue: String,
    pub(super) table: String,
    /// The columns that identify a row. Empty: the primary key.
    pub(super) key: Vec<String>,
    /// The columns that workers may write.
    pub(super) writable: Vec<String>,
    /// The columns of the table that show the state of an item to other programs.
    pub(super) mirror: Mirror,
    /// Names for soft-lock columns whose default names the table uses for columns of its own: default name and new name.
    pub(super) renamed: Vec<(&'static str, String)>,
}

/// Values of columns by state, as the configuration writes them.
pub(super) type Mirror = Vec<(State, Vec<(String, Value)>)>;

/// Returns the columns that show a state, with their values. `None`: no column shows it.
pub(super) fn columns_of(mirror: &Mirror, state: State) -> Option<&Vec<(String, Value)>> {
    let mut states = mirror.iter();
    states.find_map(|(other, columns)| (*other == state).then_some(columns))
}

/// Returns the name of a queue over `table`: the table's name without its schema and without brackets, in lower case.
pub(super) fn queue_name(table: &str) -> String {
    let separator = if table.ends_with(']') { '[' } else { '.' };
    let name = table.rsplit(separator).next().unwrap_or(table);
    name.trim_end_matches(']').to_lowercase()
}

/// Returns the columns that a worker probably writes as its result: those that a row can lack and that show no state.
pub(super) fn result_columns(survey: &Survey, mirror: &Mirror, key: &[String]) -> Vec<String> {
    let is_mirror = |column: &SurveyedColumn| {
        let mut columns = mirror.iter().flat_map(|(_, columns)| columns);
        columns.any(|(name, _)| *name == column.name)
    };
    let soft_lock = SoftLock::default();
    let columns = survey.columns.iter();
    columns
        .filter(|column| column.nullable && column.writable && !is_mirror(column))
        .filter(|column| !column.added && !soft_lock.contains(&column.name))
        .filter(|column| !key.contains(&column.name))
        .map(|column| column.name.clone())
        .collect()
}

/// Returns the key that the configuration has to name. Empty: it need not name one. `None`: the table has no key.
pub(super) fn key(survey: &Survey) -> Option<Vec<String>> {
    if survey.has_default_key {
        return Some(Vec::new());
    }
    survey.keys.iter().min_by_key(|key| key.len()).cloned()
}

/// Returns other names for the soft-lock columns whose default names the table uses, unless the table is a queue already. A column of an
/// adoption that was interrupted is none of the table's own.
pub(super) fn renamed(survey: &Survey) -> Vec<(&'static str, String)> {
    let default = SoftLock::default();
    let exists = |column: &SoftLockColumn| survey.column(default.name(*column)).is_some();
    let is_queue = SoftLockColumn::ALL[..9].iter().all(exists);
    let is_taken = |name: &str| survey.column(name).is_some_and(|column| !column.added);
    let taken = SoftLockColumn::ALL
        .into_iter()
        .map(SoftLockColumn::default_name);
    let taken = taken.filter(|name| !is_queue && is_taken(name));
    taken
        .map(|name| {
            let mut renamed = format!("lb_{name}");
            while is_taken(&renamed) {
                renamed.insert_str(0, "lb_");
            }
            (name, renamed)
        })
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use lease_broker_store::ColumnClass;

    use super::*;

    pub(in super::super) fn column(name: &str, declared: &str, nullable: bool) -> SurveyedColumn {
        SurveyedColumn {
            name: name.to_owned(),
            class: ColumnClass::of_declaration(declared),
            nullable,
            writable: true,
            added: false,
        }
    }

    pub(in super::super) fn survey(columns: Vec<SurveyedColumn>) -> Survey {
        Survey {
            keys: vec![vec![columns[0].name.clone()]],
            nullable_keys: Vec::new(),
            has_default_key: true,
            columns,
            rows: 0,
        }
    }

    #[test]
    fn results_go_to_columns_that_a_row_can_lack() {
        let survey = survey(vec![
            column("Order_ID", "int", false),
            column("Processed", "bit", true),
            column("Completed_At", "datetime2(3)", true),
            column("Customer", "varchar(40)", false),
            column("Total", "decimal(9,2)", true),
        ]);
        let processed = |value: i32| vec![("Processed".to_owned(), value.into())];
        let mirror = vec![
            (State::Ready, processed(0)),
            (State::Completed, processed(1)),
        ];
        assert_eq!(
            result_columns(&survey, &mirror, &[]),
            ["Completed_At", "Total"]
        );
    }

    #[test]
    fn queue_has_the_name_of_the_table_without_its_schema() {
        for (table, queue) in [
            ("dbo.Orders", "orders"),
            ("[dbo].Orders", "orders"),
            ("[my schema].[My.Table]", "my.table"),
            ("[dot.ted name]", "dot.ted name"),
        ] {
            assert_eq!(queue_name(table), queue);
        }
    }

    #[test]
    fn taken_names_are_replaced_unless_the_table_is_a_queue() {
        let table = survey(vec![
            column("id", "int", false),
            column("Lease_Owner", "text", true),
        ]);
        assert_eq!(
            renamed(&table),
            [("lease_owner", "lb_lease_owner".to_owned())]
        );
        let all = SoftLockColumn::ALL[..9].iter();
        let all = all.map(|part| column(part.default_name(), "text", true));
        let all: Vec<SurveyedColumn> = all.collect();
        assert_eq!(renamed(&survey(all.clone())), []);
        let half = all.into_iter().take(4).map(|column| SurveyedColumn {
            added: true,
            ..column
        });
        assert_eq!(renamed(&survey(half.collect())), [], "of the broker");
    }

    #[test]
    fn new_name_of_a_soft_lock_column_is_free() {
        let table = survey(vec![
            column("id", "int", false),
            column("lease_owner", "text", true),
            column("LB_Lease_Owner", "text", true),
        ]);
        assert_eq!(
            renamed(&table),
            [("lease_owner", "lb_lb_lease_owner".to_owned())]
        );
    }
}
