//! The errors of a store: why an operation was not applied.

use lease_broker_model::named_enum;
use lease_broker_model::text::Quoted;

/// The reason why a store operation failed.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum StoreError {
    /// One request of the list cannot be applied, so the whole list was not applied.
    #[error("{}", .0.problem)]
    Rejected(Rejection),
    /// The store cannot be reached, is busy or has no space left. The operation can succeed later.
    #[error("the store is unavailable: {0}")]
    Unavailable(Outage),
    /// The queue is paused for new items.
    #[error("the queue is paused: {0}")]
    Paused(String),
    /// The operation fails until somebody changes the configuration, the schema or the permissions.
    #[error("{0}")]
    Misconfigured(String),
    /// The database file is damaged, or it cannot be opened or written.
    #[error("{0}")]
    Io(String),
    /// The store returned a result that a correct broker never gets.
    #[error("unexpected answer of the store: {0}")]
    Bug(String),
}

impl StoreError {
    /// The number of kinds.
    pub const KINDS: usize = 6;

    /// Returns a word for the kind of error.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Rejected(_) => "rejected",
            Self::Unavailable(_) => "unavailable",
            Self::Paused(_) => "paused",
            Self::Misconfigured(_) => "misconfigured",
            Self::Io(_) => "io",
            Self::Bug(_) => "bug",
        }
    }

    /// Returns an outage during an operation that may have been applied.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable(reason.into().into())
    }

    /// Returns an outage before the store has begun to apply the operation.
    pub fn not_begun(cause: OutageCause, reason: impl Into<String>) -> Self {
        Self::outage(cause, reason).not_applied()
    }

    /// Returns an outage of this cause during an operation that may have been applied.
    pub fn outage(cause: OutageCause, reason: impl Into<String>) -> Self {
        Self::Unavailable(Outage {
            cause,
            ..Outage::from(reason)
        })
    }

    /// Returns this error for an operation that was not applied and will not be.
    #[must_use]
    pub fn not_applied(self) -> Self {
        self.with_applied(Applied::No)
    }

    /// Returns this error for an operation of which a part may have been applied. An error that says that nothing was applied
    /// becomes an outage: the operation can be sent again, and then meets the error without that part.
    #[must_use]
    pub fn maybe_applied(self) -> Self {
        match self {
            Self::Misconfigured(reason) => Self::unavailable(reason),
            other => other.with_applied(Applied::Unknown),
        }
    }

    fn with_applied(mut self, applied: Applied) -> Self {
        if let Self::Unavailable(outage) = &mut self {
            outage.applied = applied;
        }
        self
    }

    /// Returns whether the operation that failed with this error was applied.
    pub const fn applied(&self) -> Applied {
        match self {
            Self::Rejected(_) | Self::Paused(_) | Self::Misconfigured(_) => Applied::No,
            Self::Unavailable(outage) => outage.applied,
            Self::Io(_) | Self::Bug(_) => Applied::Unknown,
        }
    }
}

named_enum! {
    /// Whether an operation that failed has changed the database. Clients read the names.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Applied {
        /// It has changed nothing, and will change nothing.
        No = "no",
        /// Its changes may have been made, or may still be made.
        #[default]
        Unknown = "unknown",
    }
}

/// A request that was rejected, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The index of the request in the list. `None`: a constraint that is checked at the commit refused a change, and
    /// the request is not known.
    pub item: Option<usize>,
    /// The column that caused the rejection, if it is known.
    pub column: Option<String>,
    /// The reason.
    pub problem: Problem,
    /// Later requests of the list that would be refused too, even if this one were left out. In the order of the list. It
    /// need not be complete.
    pub more: Vec<Rejection>,
}

impl Rejection {
    /// Returns the rejection of the request at index `item`.
    pub fn of_item(item: usize, column: Option<String>, problem: Problem) -> Self {
        Self {
            item: Some(item),
            column,
            problem,
            more: Vec::new(),
        }
    }

    /// Returns the error of a list with these rejections. `Ok`: there are none.
    pub(crate) fn of_all(rejections: Vec<Self>) -> Result<(), StoreError> {
        let mut rejections = rejections.into_iter();
        let Some(first) = rejections.next() else {
            return Ok(());
        };
        let more = rejections.collect();
        Err(StoreError::Rejected(Self { more, ..first }))
    }

    /// Returns the rejection of a list in which the refused request is not known.
    pub fn of_list(column: Option<String>, problem: Problem) -> Self {
        Self {
            item: None,
            column,
            problem,
            more: Vec::new(),
        }
    }
}

/// The reason why one entry of a call was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The path of the refused field in the entry, such as `follow_ups[1].item.columns["id"]`. `None`: the database
    /// refused the change of the item's row, and the field is not known.
    pub field: Option<String>,
    /// The reason.
    pub problem: Problem,
}

impl Refusal {
    /// Returns the refusal of a field that is malformed or out of its bounds.
    pub fn of_field(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: Some(field.into()),
            problem: Problem::new(ProblemKind::InvalidField, problem),
        }
    }

    /// Returns the refusal of a change by the row itself, for example by a trigger or a constraint.
    pub const fn of_row(problem: Problem) -> Self {
        Self {
            field: None,
            problem,
        }
    }

    /// Returns the refusal of a change whose row another program has locked.
    pub fn locked() -> Self {
        Self::of_row(Problem::new(
            ProblemKind::Locked,
            "another program has locked the row; a lease that was held is still held, so try again",
        ))
    }

    /// Returns the refusal of a settlement whose lease belongs to a run in which an earlier item is leased.
    pub fn out_of_order() -> Self {
        Self::of_row(Problem::new(
            ProblemKind::OutOfOrder,
            "an earlier item of the run is still leased; settle the items of a run in their order",
        ))
    }

    /// Returns the refusal of a column that the settlement writes.
    pub(crate) fn of_column(column: &str, problem: Problem) -> Self {
        Self {
            field: Some(format!("columns[{}]", Quoted(column))),
            problem,
        }
    }

    /// Returns the refusal of the follow-up at `index`, and of its `column` if that is known.
    pub(crate) fn of_follow_up(index: usize, column: Option<&str>, problem: Problem) -> Self {
        let item = format!("follow_ups[{index}].item");
        Self {
            field: Some(match column {
                Some(column) => format!("{item}.columns[{}]", Quoted(column)),
                None => item,
            }),
            problem,
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.field {
            Some(field) => write!(out, "{field}: {}", self.problem),
            None => write!(out, "{}", self.problem),
        }
    }
}

/// What is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The kind, for programs.
    pub kind: ProblemKind,
    /// The name of the constraint, index or foreign key that refused the change, as the database gives it.
    pub constraint: Option<String>,
    /// The text for the caller. It never contains a value of a column.
    pub text: String,
}

impl Problem {
    /// Returns a problem that no constraint has found.
    pub fn new(kind: ProblemKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            constraint: None,
            text: text.into(),
        }
    }

    /// Returns the problem of a value that its column cannot hold.
    pub(crate) fn unfit(text: impl Into<String>) -> Self {
        Self::new(ProblemKind::ValueUnfit, text)
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.text)
    }
}

/// The kinds of problems. `lease_broker.proto` explains them (`RefusalReason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// None of the others.
    Other,
    /// A field is malformed or out of its bounds.
    InvalidField,
    /// No queue with this name is configured.
    QueueNotFound,
    /// The request cannot write this column.
    ColumnNotWritable,
    /// The column cannot hold the value.
    ValueUnfit,
    /// A row with this key or this unique value exists.
    AlreadyExists,
    /// A CHECK constraint refuses the row.
    Check,
    /// A foreign key refuses the change.
    ForeignKey,
    /// A trigger refuses the change.
    Trigger,
    /// An earlier item of the run is still leased.
    OutOfOrder,
    /// Another program has locked the row. The same change can succeed later.
    Locked,
}

/// The reason why a store is unavailable, and how often the operation was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outage {
    /// The last failure, for the operator: it can name hosts, files and statements.
    pub reason: String,
    /// Its kind, which callers may know.
    pub cause: OutageCause,
    /// The number of tries; 0 if the operation was not tried.
    pub tries: u32,
    /// The error number of the database server, if the failure has one.
    pub number: Option<u32>,
    /// Whether the operation was applied.
    pub applied: Applied,
    /// Whether it waited for the lock of another session as long as it may.
    pub waited_for_lock: bool,
}

named_enum! {
    /// The kinds of outages. The names are the words for metrics. The texts name nothing of this deployment.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum OutageCause {
        /// The database cannot be reached, or ended the connection.
        NoConnection = "no_connection",
        /// The broker cannot log in: its user, password, token or address is refused, or the server's certificate. Somebody has to
        /// correct it.
        Login = "login",
        /// The database did not answer in time.
        NoAnswer = "no_answer",
        /// Locks or connections were in use for too long, or the database refuses work for now.
        Busy = "busy",
        /// The database has no space left.
        NoSpace = "no_space",
        /// The file of the database cannot be read or written, or is damaged. Or the database went back in time.
        File = "file",
        /// None of the others.
        #[default]
        Other = "other",
    }
}

impl std::fmt::Display for OutageCause {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::NoConnection => "the database cannot be reached",
            Self::Login => "the broker cannot log in to the database",
            Self::NoAnswer => "the database does not answer",
            Self::Busy => "the database is locked or busy",
            Self::NoSpace => "the database has no space left",
            Self::File => "the database cannot be used",
            Self::Other => "the broker's log has the cause",
        })
    }
}

impl std::fmt::Display for Outage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.tries {
            0 | 1 => write!(out, "{}", self.reason),
            tries => write!(out, "{} (tried {tries} times)", self.reason),
        }
    }
}

impl<T: Into<String>> From<T> for Outage {
    fn from(reason: T) -> Self {
        Self {
            reason: reason.into(),
            ..Self::default()
        }
    }
}
