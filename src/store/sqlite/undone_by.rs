//! The two ways in which the change of a row that refuses is undone.

/// The part that undoes the change of a row that refuses.
#[derive(Clone, Copy)]
pub(super) enum UndoneBy {
    /// SQLite undoes the statement that fails. The change is one statement, and it runs no trigger.
    Statement,
    /// A savepoint around the change.
    Savepoint,
}
