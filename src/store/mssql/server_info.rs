//! What kind of server a connection has reached, and whether a broker can work on it.

use std::fmt;

use tiberius::Row;
use tiberius::error::Error;

use crate::store::StoreError;

/// Asks for [`ServerInfo`]'s parts, and for the SET options that filtered indexes need (Microsoft's documentation of CREATE
/// INDEX, "Required SET options for filtered indexes").
pub(super) const SERVER_INFO_SQL: &str = "SELECT CONVERT(int, SERVERPROPERTY('EngineEdition')), \
    CONVERT(nvarchar(128), SERVERPROPERTY('ProductVersion')), CONVERT(int, d.compatibility_level), \
    CONVERT(int, d.is_read_committed_snapshot_on), COALESCE(CONVERT(int, SERVERPROPERTY('babelfish')), 0), \
    CONVERT(int, SESSIONPROPERTY('QUOTED_IDENTIFIER')) * CONVERT(int, SESSIONPROPERTY('ANSI_NULLS')) \
    * CONVERT(int, SESSIONPROPERTY('ANSI_PADDING')) * CONVERT(int, SESSIONPROPERTY('ANSI_WARNINGS')) \
    * CONVERT(int, SESSIONPROPERTY('ARITHABORT')) * CONVERT(int, SESSIONPROPERTY('CONCAT_NULL_YIELDS_NULL')) \
    * (1 - CONVERT(int, SESSIONPROPERTY('NUMERIC_ROUNDABORT'))) \
    FROM sys.databases AS d WHERE d.database_id = DB_ID()";

/// OPENJSON needs it.
const MIN_COMPATIBILITY_LEVEL: i32 = 130;

/// A server and its database, as far as a broker cares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServerInfo {
    /// `SERVERPROPERTY('EngineEdition')`: 2 Standard, 3 Enterprise and Developer, 4 Express, 5 Azure SQL Database,
    /// 8 Managed Instance.
    pub(super) edition: i32,
    pub(super) version: String,
    pub(super) compatibility: i32,
    /// Whether readers see the last committed version of a row and don't wait (`READ_COMMITTED_SNAPSHOT`).
    pub(super) snapshot: bool,
    pub(super) babelfish: bool,
}

impl ServerInfo {
    /// Reads the answer to [`SERVER_INFO_SQL`].
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if a broker can't work on this database, or the session's options can't be set.
    pub(super) fn read(answer: Option<&Row>) -> Result<Self, StoreError> {
        let silent = || StoreError::Bug("the server does not say what it is".to_owned());
        let row = answer.ok_or_else(silent)?;
        let number = |at| -> Result<i32, Error> { Ok(row.try_get(at)?.unwrap_or_default()) };
        let version: Option<&str> = row.try_get(1)?;
        let engine = Self {
            edition: number(0)?,
            version: version.unwrap_or("unknown").to_owned(),
            compatibility: number(2)?,
            snapshot: number(3)? == 1,
            babelfish: number(4)? == 1,
        };
        if number(5)? != 1 {
            return Err(StoreError::Misconfigured(
                "the server does not keep the SET options that filtered indexes need (QUOTED_IDENTIFIER, ANSI_NULLS and \
                 others); is there a logon trigger?"
                    .to_owned(),
            ));
        }
        if !engine.babelfish && engine.compatibility < MIN_COMPATIBILITY_LEVEL {
            return Err(StoreError::Misconfigured(format!(
                "the database has compatibility level {}, and OPENJSON needs {MIN_COMPATIBILITY_LEVEL}: ALTER DATABASE CURRENT \
                 SET COMPATIBILITY_LEVEL = {MIN_COMPATIBILITY_LEVEL}",
                engine.compatibility
            )));
        }
        Ok(engine)
    }

    /// Returns whether a column that is never NULL is added without writing every row (Microsoft's documentation of ALTER
    /// TABLE, "Adding NOT NULL columns as an online operation").
    pub(super) fn adds_columns_without_rewrite(&self) -> bool {
        self.babelfish || self.supports_online_indexes()
    }

    /// Returns whether an index can be made while the table is written to.
    pub(super) fn supports_online_indexes(&self) -> bool {
        !self.babelfish && matches!(self.edition, 3 | 5 | 8)
    }
}

impl fmt::Display for ServerInfo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.babelfish {
            "Babelfish"
        } else {
            "SQL Server"
        };
        write!(out, "{name} {}", self.version)
    }
}
