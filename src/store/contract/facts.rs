//! What a store knows about itself and its tables.

use std::sync::Arc;

use async_trait::async_trait;
use lease_broker_model::lease_id::{Secret, SigningSecrets};

use super::queue_index::QueueIndex;
use crate::error::StoreError;
use crate::pool_status::PoolStatus;

/// The names of a database and of its server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Database {
    /// The name of the database, or of its file without the folder. `None`: it is the default one of the login.
    pub namespace: Option<String>,
    /// The host of the server. `None`: the database is in this process.
    pub address: Option<String>,
    /// The port of the server.
    pub port: Option<u16>,
}

/// Facts that do not change while a store is open, or that it knows without asking the database.
#[async_trait]
pub trait Facts: Send + Sync + 'static {
    /// Returns secret 0, from which lease tokens and spans are derived. It is created when a database is first used, and
    /// every broker on the database has the same.
    fn secret(&self) -> &Secret;

    /// Returns the secrets that sign lease ids, as they were read last.
    fn signing_secrets(&self) -> &Arc<SigningSecrets>;

    /// Returns the file or the server and database that holds the leases, as text for logs and messages.
    fn location(&self) -> String;

    /// Returns the database that holds the leases, for spans.
    fn database(&self) -> Database;

    /// Returns the present state of the connections. It asks no database.
    fn pool_status(&self) -> PoolStatus;

    /// Returns the names of the columns whose values [`ClaimedItem::columns`](super::ClaimedItem::columns) holds, in the same
    /// order.
    fn columns(&self, queue: QueueIndex) -> Arc<[String]>;

    /// Returns columns with values, as text, of an item with which a user can try
    /// [`Leases::enqueue`](super::Leases::enqueue). `None`: the store knows no item that the table certainly accepts, because a
    /// rule of the table can refuse the values.
    async fn example_item(
        &self,
        queue: QueueIndex,
    ) -> Result<Option<Vec<(String, String)>>, StoreError>;
}
