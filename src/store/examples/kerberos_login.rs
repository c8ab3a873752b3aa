//! Opens a store on a T-SQL server, for `.ci/kerberos`, which checks the login. The connection string is the first argument.

use lease_broker_store::mssql::{MssqlStore, Settings};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let connection_string = std::env::args().nth(1);
    let connection_string = connection_string.ok_or("the first argument is a connection string")?;
    MssqlStore::open(&Settings::new(connection_string), &[]).await?;
    Ok(())
}
