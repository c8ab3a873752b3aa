//! The two published designs that are compared: soft locks on an events table, and a table as a data queue.

/// How workers share a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Design {
    /// A worker writes its number and the time into the next row, works, and marks the row processed.
    SoftLocks,
    /// A worker reads the next row and locks it, works, and deletes the row, all in one transaction.
    Delete,
}

/// Who works on the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Workers with a connection of their own each, as published.
    Straight,
    /// The same where each worker takes from a range of rows of its own: no worker ever meets another, as if skipping
    /// locked rows were free. The most that the design can reach on an engine that ignores its hints.
    Apart,
    /// Workers of the broker, who claim and complete.
    Broker,
    /// Workers of the broker, whose completion claims the next item in the same call.
    Chained,
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

    /// Selects the keys of the rows that nobody has processed.
    pub(crate) fn unprocessed(self) -> String {
        let (key, table) = (self.key(), self.table());
        match self {
            Self::SoftLocks => format!("SELECT {key} FROM {table} WHERE Processed = 0"),
            Self::Delete => format!("SELECT {key} FROM {table}"),
        }
    }

    /// The queue `work` over the table, for the broker.
    pub(crate) const fn queue(self) -> &'static str {
        match self {
            Self::SoftLocks => {
                "[queues.work]\ntable = \"Rainfall_Events\"\nlease = \"15m\"\n\
                 [queues.work.mirror]\nready = { Processed = 0 }\ncompleted = { Processed = 1 }\n"
            }
            Self::Delete => "[queues.work]\ntable = \"Queue\"\non_complete = \"delete\"\n",
        }
    }
}

impl Way {
    pub(crate) const fn has_broker(self) -> bool {
        matches!(self, Self::Broker | Self::Chained)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Straight => "straight",
            Self::Apart => "straight, kept apart",
            Self::Broker => "broker",
            Self::Chained => "broker, the next in the same call",
        }
    }
}
