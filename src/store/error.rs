//! The errors of a store: why an operation was not applied.

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
    pub const KINDS: usize = 5;

    /// Returns a word for the kind of error.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Rejected(_) => "rejected",
            Self::Unavailable(_) => "unavailable",
            Self::Misconfigured(_) => "misconfigured",
            Self::Io(_) => "io",
            Self::Bug(_) => "bug",
        }
    }

    /// Returns an outage of which only the reason is known.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable(reason.into().into())
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
    /// The reason, as text for the caller.
    pub problem: String,
    /// Later requests of the list that would be refused too, even if this one were left out. In the order of the list. It
    /// need not be complete.
    pub more: Vec<Rejection>,
}

impl Rejection {
    /// Returns the rejection of the request at index `item`.
    pub fn of_item(item: usize, column: Option<String>, problem: String) -> Self {
        Self {
            item: Some(item),
            column,
            problem,
            more: Vec::new(),
        }
    }

    /// Returns the rejection of a list in which the refused request is not known.
    pub fn of_list(column: Option<String>, problem: String) -> Self {
        Self {
            item: None,
            column,
            problem,
            more: Vec::new(),
        }
    }
}

/// The reason why one settlement was refused. The text never contains a value of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The path of the refused field in the settlement, such as `follow_ups[1].item.columns["id"]`. `None`: the database
    /// refused the change of the item's row, and the field is not known.
    pub field: Option<String>,
    /// The reason, as text for the caller.
    pub problem: String,
}

impl Refusal {
    /// Returns the refusal of a column that the settlement writes.
    pub(crate) fn of_column(column: &str, problem: String) -> Self {
        Self {
            field: Some(format!("columns[{}]", Quoted(column))),
            problem,
        }
    }

    /// Returns the refusal of the follow-up at `index`, and of its `column` if that is known.
    pub(crate) fn of_follow_up(index: usize, column: Option<&str>, problem: String) -> Self {
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
            None => out.write_str(&self.problem),
        }
    }
}

/// The reason why a store is unavailable, and how often the operation was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outage {
    /// The last failure.
    pub reason: String,
    /// The number of tries; 0 if the operation was not tried.
    pub tries: u32,
    /// The error number of the database server, if the failure has one.
    pub number: Option<u32>,
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
