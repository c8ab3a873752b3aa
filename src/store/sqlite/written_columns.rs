//! The columns and the checkpoint that a settlement writes into its item's row: checks, values, and the text of the statement.

use lease_broker_model::queue::SoftLockColumn;
use lease_broker_value::Value;
use rusqlite::types::Value as SqlValue;

use super::column_value::store;
use super::enqueue::ItemError;
use super::queue_statements::QueueStatements;
use super::quote::quote;
use super::statement::stored_checkpoint;
use super::types::ColumnType;
use crate::template::render;
use crate::{Problem, Refusal, Settled, Settlement, written_columns};

/// The number of the parameter for the first written column. Those before are the same in every section of
/// `settle.sql`.
pub(super) const FIRST_COLUMN_PARAMETER: usize = 10;

impl QueueStatements {
    /// Returns the refusal of the first column that the settlement cannot write, or `None`.
    pub(super) fn refused_column_of(&self, settlement: &Settlement) -> Option<Refusal> {
        let check = |_: &str, column: &ColumnType, value: &Value| store(value, *column).map(drop);
        written_columns::refusal(&self.spec.name, settlement, &self.writable, check)
    }

    /// Returns the values to bind for a settlement that has passed [`Self::refused_column_of`]: those of its columns, in their
    /// order, and its checkpoint.
    pub(super) fn encode_written(
        &self,
        settlement: &Settlement,
    ) -> Result<Vec<SqlValue>, ItemError> {
        let encode = |(name, value): &(String, Value)| {
            let column = self.writable.get(name).copied();
            let stored = store(value, column.unwrap_or(ColumnType::Any));
            stored.map_err(|text| ItemError::Rejected {
                column: Some(name.clone()),
                problem: Problem::unfit(text),
            })
        };
        let columns = settlement.columns.iter().map(encode);
        let checkpoint = settlement.checkpoint.as_deref();
        let checkpoint = checkpoint
            .map(|checkpoint| Ok(stored_checkpoint(checkpoint).map(<[u8]>::to_vec).into()));
        columns.chain(checkpoint).collect()
    }

    /// Renders a section of `settle.sql` that also writes the columns and the checkpoint of the settlement.
    pub(super) fn render_writing(&self, section: &str, settlement: &Settlement) -> String {
        let mut placeholders = self.placeholders.clone();
        let columns = settlement.columns.iter().map(|(name, _)| name.as_str());
        let checkpoint = settlement.checkpoint.as_ref();
        let checkpoint = checkpoint.map(|_| self.spec.soft_lock.name(SoftLockColumn::Checkpoint));
        let names = (FIRST_COLUMN_PARAMETER..).zip(columns.chain(checkpoint));
        let clauses = names.map(|(number, name)| format!(", {} = ?{number}", quote(name)));
        placeholders.insert("written_columns", clauses.collect());
        render(self.lease_sql.settle, section, &placeholders)
    }

    /// Adds to a refusal of the item's row the written column that SQLite's message names.
    pub(super) fn name_written_column(&self, refused: Settled, settlement: &Settlement) -> Settled {
        let Settled::Refused(Refusal {
            field: None,
            problem,
        }) = refused
        else {
            return refused;
        };
        let column = self.refused_column(&problem.text).filter(|column| {
            let mut written = settlement.columns.iter();
            written.any(|(name, _)| name == column)
        });
        Settled::Refused(match column {
            Some(column) => Refusal::of_column(&column, problem),
            None => Refusal::of_row(problem),
        })
    }
}
