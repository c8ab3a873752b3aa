//! The reply to a batch: its result sets, its first error, and the mark of its commit.
//!
//! A server can end a batch without an error message: the flags `DONE_ERROR` and `DONE_SRVERROR` of its last token say that a statement
//! has failed (MS-TDS 2.2.7.6), and the driver drops them. The batch of a killed session ends so, and its transaction is rolled
//! back. Therefore each batch of an operation ends with a row, the mark. Without it the outcome is unknown.

use std::io::ErrorKind;

use futures_util::StreamExt as _;
use tiberius::error::Error;
use tiberius::{QueryItem, QueryStream, ResultMetadata, Row};

/// Returns the number of open transactions. If it is 0, the statements before it have been committed, or rolled back as they say.
const MARK: &str = "SELECT @@TRANCOUNT AS lb_committed;";
const MARK_COLUMN: &str = "lb_committed";

/// Appends the mark to a batch. `claim.sql` has another one after its COMMIT, because it goes on reading.
pub(super) fn with_mark(batch: &str) -> String {
    format!("{batch}\n{MARK}")
}

/// The complete reply to a batch.
pub(super) struct BatchReply {
    results: Vec<Vec<Row>>,
    /// The first error that the server sent.
    pub(super) first_error: Option<Error>,
    /// True: a mark came before the error. The error has undone nothing.
    failed_after_commit: bool,
}

/// The error that ended a batch.
#[derive(Debug)]
pub(super) struct BatchFailure {
    pub(super) error: Error,
    /// True: the batch had committed before.
    pub(super) after_commit: bool,
}

impl From<Error> for BatchFailure {
    fn from(error: Error) -> Self {
        Self {
            error,
            after_commit: false,
        }
    }
}

impl From<BatchFailure> for Error {
    fn from(failure: BatchFailure) -> Self {
        failure.error
    }
}

/// Which batch is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultFilter {
    /// Any batch. All its result sets are kept.
    All,
    /// A batch of an operation, which ends with the mark. Only the broker's own result sets are kept: the name of their first column
    /// begins with `lb_`. A trigger may send result sets as well.
    OfOperation,
}

impl BatchReply {
    /// Reads a reply to its final DONE token. Rows arrive even if their transaction is rolled back later, so no row may be
    /// used before the end.
    ///
    /// # Errors
    /// That of the connection. A batch of an operation that ends with neither an error nor its mark is a broken connection.
    pub(super) async fn read(
        mut stream: QueryStream<'_>,
        filter: ResultFilter,
    ) -> Result<Self, Error> {
        let mut reply = Self {
            results: Vec::new(),
            first_error: None,
            failed_after_commit: false,
        };
        let (mut is_mark, mut is_kept, mut is_committed) = (false, false, false);
        while let Some(item) = stream.next().await {
            match item {
                Ok(QueryItem::Metadata(metadata)) => {
                    let name = first_column(&metadata);
                    is_committed = false;
                    is_mark = name == MARK_COLUMN;
                    is_kept = !is_mark && (name.starts_with("lb_") || filter == ResultFilter::All);
                    if is_kept {
                        reply.results.push(Vec::new());
                    }
                }
                Ok(QueryItem::Row(row)) if is_mark => {
                    is_committed = row.try_get(0)? == Some(0);
                    reply.failed_after_commit |= is_committed && reply.first_error.is_none();
                }
                Ok(QueryItem::Row(row)) => {
                    if let Some(rows) = reply.results.last_mut().filter(|_| is_kept) {
                        rows.push(row);
                    }
                }
                Err(error @ Error::Server(_)) => {
                    reply.first_error.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        if filter == ResultFilter::OfOperation && reply.first_error.is_none() && !is_committed {
            return Err(Error::Io {
                kind: ErrorKind::UnexpectedEof,
                message: "the server has ended the batch before its end, and sent no error"
                    .to_owned(),
            });
        }
        Ok(reply)
    }

    /// Returns the results, or the error if the batch failed. The results of a failed batch are void, as it may have
    /// been rolled back.
    pub(super) fn into_results(self) -> Result<Vec<Vec<Row>>, BatchFailure> {
        match self.first_error {
            None => Ok(self.results),
            Some(error) => Err(BatchFailure {
                error,
                after_commit: self.failed_after_commit,
            }),
        }
    }

    /// Takes the handle of the batch that was just prepared, and drops the results before it. Babelfish sends such
    /// results: it describes the columns of a batch that is a single query.
    pub(super) fn take_handle(&mut self) -> Option<i32> {
        let handle_in = |rows: &Vec<Row>| rows.first()?.try_get("lb_h").ok().flatten();
        let (index, handle) = (0..)
            .zip(&self.results)
            .find_map(|(index, rows)| Some((index, handle_in(rows)?)))?;
        self.results.drain(..=index);
        Some(handle)
    }
}

fn first_column(metadata: &ResultMetadata) -> &str {
    let first = metadata.columns().first();
    first.map_or("", |column| column.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claim_has_the_mark_after_its_commit() {
        let claim = lease_broker_sql::mssql::LEASE_SQL.claim;
        assert!(claim.contains(&with_mark("COMMIT TRANSACTION;")));
    }
}
