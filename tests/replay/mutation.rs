//! Deliberate mistakes in the statements of a store.
//!
//! A replay that finds no difference says nothing unless it finds mistakes. So a test makes one mistake after the other in the
//! shipped SQL, opens a store with it, and lets the replay look for it. A mistake that changes nothing has the reason beside it.

use std::fmt;

use lease_broker_model::queue::OnComplete;
use lease_broker_proof::domain::operations;
use lease_broker_sql::LeaseSql;
use lease_broker_store::RowOperation;

use super::Replay;
use super::database::Database;

/// A file of [`LeaseSql`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum File {
    Cancel,
    Claim,
    Heartbeat,
    Leases,
    Operation,
    Reap,
    ReleaseClaims,
    Settle,
}

impl File {
    fn text(self, sql: &mut LeaseSql) -> &mut &'static str {
        match self {
            Self::Cancel => &mut sql.cancel,
            Self::Claim => &mut sql.claim,
            Self::Heartbeat => &mut sql.heartbeat,
            Self::Leases => &mut sql.leases,
            Self::Operation => &mut sql.operation,
            Self::Reap => &mut sql.reap,
            Self::ReleaseClaims => &mut sql.release_claims,
            Self::Settle => &mut sql.settle,
        }
    }

    /// Returns whether the operation uses the file.
    fn has(self, operation: &RowOperation<()>) -> bool {
        match operation {
            RowOperation::Claim { .. } => self == Self::Claim,
            RowOperation::Heartbeat(..) => matches!(self, Self::Heartbeat | Self::Leases),
            RowOperation::Settle(..) => matches!(self, Self::Settle | Self::Leases),
            RowOperation::ReleaseClaim(_) => self == Self::ReleaseClaims,
            RowOperation::Cancel { .. } => self == Self::Cancel,
            RowOperation::Reap { .. } => self == Self::Reap,
            RowOperation::Redrive => self == Self::Operation,
            // No broker runs it, and its statements are given to no store.
            RowOperation::BeginEpoch(_) => false,
        }
    }
}

/// Another text in a section of a file.
struct Change {
    section: &'static str,
    from: &'static str,
    to: &'static str,
}

/// A mistake in one file.
pub(super) struct Mutation {
    file: File,
    changes: Vec<Change>,
    on_complete: OnComplete,
    /// The reason why no row and no result differs. `None`: the replay must find the mistake.
    equivalent: Option<&'static str>,
}

/// Replaces a text of a section.
pub(super) fn change(
    file: File,
    section: &'static str,
    from: &'static str,
    to: &'static str,
) -> Mutation {
    Mutation {
        file,
        changes: vec![Change { section, from, to }],
        on_complete: OnComplete::Keep,
        equivalent: None,
    }
}

/// Leaves a text of a section out.
pub(super) fn without(file: File, section: &'static str, text: &'static str) -> Mutation {
    change(file, section, text, "")
}

impl Mutation {
    /// Makes one more change of the file.
    pub(super) fn and(
        mut self,
        section: &'static str,
        from: &'static str,
        to: &'static str,
    ) -> Self {
        self.changes.push(Change { section, from, to });
        self
    }

    /// Sets what a completion does with the row.
    pub(super) fn if_completions(self, on_complete: OnComplete) -> Self {
        Self {
            on_complete,
            ..self
        }
    }

    /// Says why the mistake changes nothing.
    pub(super) fn equivalent_because(self, reason: &'static str) -> Self {
        let equivalent = Some(reason);
        Self { equivalent, ..self }
    }

    /// Returns the statements with the mistake.
    ///
    /// # Panics
    /// If the text is not in the section any more. Then the mutation must follow the statement.
    fn apply(&self, mut sql: LeaseSql) -> LeaseSql {
        let text = self.file.text(&mut sql);
        for Change { section, from, to } in &self.changes {
            let marker = format!("-- :: {section}\n");
            let start = text.find(&marker).map(|start| start + marker.len());
            let start = start.unwrap_or_else(|| panic!("{self} names no section"));
            let end = text[start..].find("\n-- :: ");
            let end = end.map_or(text.len(), |end| start + end);
            let old = &text[start..end];
            assert!(old.contains(from), "{self} is not in the statement:\n{old}");
            let new = [&text[..start], &old.replace(from, to), &text[end..]].concat();
            // A store takes statements that live as long as the program.
            *text = new.leak();
        }
        sql
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.file)?;
        for Change { section, from, to } in &self.changes {
            write!(formatter, ", {section}: {from:?} -> {to:?}")?;
        }
        Ok(())
    }
}

/// The page that has the numbers of mistakes.
const PAGE: &str = include_str!("../../docs/proof.md");

/// Checks that the replay finds each of these mistakes, except those that are equivalent, and that the page has their numbers.
pub(super) async fn find<D: Database>(mutations: &[Mutation]) {
    let equivalent = mutations.iter().filter(|one| one.equivalent.is_some());
    let (count, equivalent) = (mutations.len(), equivalent.count());
    let row = format!(
        "| {} | {count} | {} | {equivalent} |",
        D::NAME,
        count - equivalent
    );
    assert!(PAGE.contains(&row), "docs/proof.md has not the line {row}");
    // Without a database too, so that a changed statement is noticed.
    let statements: Vec<LeaseSql> = mutations
        .iter()
        .map(|mutation| mutation.apply(D::LEASE_SQL))
        .collect();
    if !crate::harness::can_run::<D::Harness>() {
        return;
    }
    let mut replays: Vec<Replay<D>> = Vec::new();
    let mut wrong = Vec::new();
    for (mutation, sql) in mutations.iter().zip(&statements) {
        let same = |replay: &Replay<D>| replay.queue.on_complete == mutation.on_complete;
        let at = if let Some(at) = replays.iter().position(same) {
            at
        } else {
            replays.push(Replay::start(mutation.on_complete.clone()).await);
            replays.len() - 1
        };
        let replay = &mut replays[at];
        replay.store = replay.database.open(&replay.queue, sql).await;
        let found = first_difference(replay, mutation.file).await;
        match (&found, mutation.equivalent) {
            (Some(difference), _) if is_refused(difference) => {
                wrong.push(format!("{mutation} is no SQL: {difference}"));
            }
            (Some(difference), None) => {
                let lines: Vec<&str> = difference.lines().map(str::trim).collect();
                eprintln!("found: {mutation}\n    {}", lines.join("; "));
            }
            (None, Some(reason)) => eprintln!("equivalent: {mutation}\n    {reason}"),
            (None, None) => wrong.push(format!("{mutation} is not found")),
            (Some(difference), Some(_)) => {
                wrong.push(format!("{mutation} is not equivalent: {difference}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns whether the database has refused the statement. Such a mistake says nothing about the replay.
fn is_refused(difference: &str) -> bool {
    let texts = ["no query solution", "syntax error", "no such column"];
    texts.iter().any(|text| difference.contains(text))
}

/// Replays the operations that use the file until one differs from `step`.
async fn first_difference<D: Database>(replay: &mut Replay<D>, file: File) -> Option<String> {
    replay.differences.clear();
    for operation in operations() {
        if file.has(&operation) && replay.differences.is_empty() {
            replay.run(operation).await;
        }
    }
    if file == File::Claim && replay.differences.is_empty() {
        replay.find_retried_claims().await;
    }
    replay.differences.first().cloned()
}
