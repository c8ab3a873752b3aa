//! The two published designs to compare with, and the ways in which workers access a table.

/// A published design of a queue in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Design {
    /// S1: a worker writes its number and the time into the next row, processes it, and marks it as processed.
    SoftLocks,
    /// S4: a worker reads and locks the next row, processes it, and deletes it, all in one transaction.
    Delete,
}

/// The way in which workers access the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Directly, each worker on its own connection, as published.
    Direct,
    /// Directly, and each worker only takes rows from its own range, so that workers never contend for a row. This is
    /// the upper bound of the design on an engine that ignores lock hints.
    DirectPartitioned,
    /// Through the broker, by a claim and a completion.
    Broker,
    /// Through the broker, by completions that claim the next item in the same call.
    BrokerNext,
}

impl Design {
    pub(crate) const ALL: [Self; 2] = [Self::SoftLocks, Self::Delete];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::SoftLocks => "S1 soft locks",
            Self::Delete => "S4 delete",
        }
    }

    pub(crate) const fn table(self) -> &'static str {
        match self {
            Self::SoftLocks => "Rainfall_Events",
            Self::Delete => "Queue",
        }
    }

    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::SoftLocks => "Event_ID",
            Self::Delete => "QueueID",
        }
    }

    /// Returns the query for the keys of the rows that are not processed.
    pub(crate) fn unprocessed(self) -> String {
        let (key, table) = (self.key(), self.table());
        match self {
            Self::SoftLocks => format!("SELECT {key} FROM {table} WHERE Processed = 0"),
            Self::Delete => format!("SELECT {key} FROM {table}"),
        }
    }

    /// Returns the configuration of the broker's queue `work` over the table.
    pub(crate) const fn queue(self) -> &'static str {
        match self {
            Self::SoftLocks => {
                "[queues.work]\ntable = \"Rainfall_Events\"\nlease_duration = \"15m\"\n\
                 [queues.work.mirror]\nready = { Processed = 0 }\ncompleted = { Processed = 1 }\n"
            }
            Self::Delete => "[queues.work]\ntable = \"Queue\"\non_complete = \"delete\"\n",
        }
    }
}

impl Access {
    pub(crate) const fn has_broker(self) -> bool {
        matches!(self, Self::Broker | Self::BrokerNext)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Direct => "straight",
            Self::DirectPartitioned => "straight, kept apart",
            Self::Broker => "broker",
            Self::BrokerNext => "broker, the next in the same call",
        }
    }
}
