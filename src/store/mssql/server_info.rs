//! Properties of the server and its database that the broker depends on, and the check that the broker can work there.

use std::fmt;

use tiberius::Row;
use tiberius::error::Error;

use crate::StoreError;

/// Reads the fields of [`ServerInfo`], and checks the SET options that filtered indexes need (Microsoft's documentation
/// of CREATE INDEX, "Required SET options for filtered indexes"). The database is found by its name, because on Azure SQL
/// Database `DB_ID()` may differ from `sys.databases.database_id` (Microsoft's documentation of `DB_ID`).
pub(super) const SERVER_INFO_SQL: &str = "SELECT CONVERT(int, SERVERPROPERTY('EngineEdition')), \
    CONVERT(nvarchar(128), SERVERPROPERTY('ProductVersion')), CONVERT(int, d.compatibility_level), \
    CONVERT(int, d.is_read_committed_snapshot_on), COALESCE(CONVERT(int, SERVERPROPERTY('babelfish')), 0), \
    CONVERT(int, SESSIONPROPERTY('QUOTED_IDENTIFIER')) * CONVERT(int, SESSIONPROPERTY('ANSI_NULLS')) \
    * CONVERT(int, SESSIONPROPERTY('ANSI_PADDING')) * CONVERT(int, SESSIONPROPERTY('ANSI_WARNINGS')) \
    * CONVERT(int, SESSIONPROPERTY('ARITHABORT')) * CONVERT(int, SESSIONPROPERTY('CONCAT_NULL_YIELDS_NULL')) \
    * (1 - CONVERT(int, SESSIONPROPERTY('NUMERIC_ROUNDABORT'))) \
    FROM sys.databases AS d WHERE d.name = DB_NAME()";

/// The lowest compatibility level that has OPENJSON.
const MIN_COMPATIBILITY_LEVEL: i32 = 130;

/// Properties of a server and its database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServerInfo {
    /// `SERVERPROPERTY('EngineEdition')`: 2 Standard, 3 Enterprise and Developer, 4 Express, 5 Azure SQL Database,
    /// 8 Managed Instance.
    pub(super) edition: i32,
    pub(super) version: String,
    pub(super) compatibility: i32,
    /// `READ_COMMITTED_SNAPSHOT`: readers get the last committed version of a row and do not wait for locks.
    pub(super) snapshot: bool,
    pub(super) babelfish: bool,
}

/// The ways to get the size of a text in UTF-8, the encoding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextBytes {
    /// `DATALENGTH` counts UTF-8. Only on Babelfish.
    Length,
    /// `DATALENGTH` after a conversion to a UTF-8 collation. SQL Server 2019 and later.
    Conversion,
    /// There is no way: the size in UTF-16 is taken. SQL Server 2017.
    Unknown,
}

impl ServerInfo {
    /// Reads the row that [`SERVER_INFO_SQL`] returns.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] if the broker cannot work on this database, or if the session's options cannot be
    /// set.
    pub(super) fn read(row: Option<&Row>) -> Result<Self, StoreError> {
        let missing = || StoreError::Bug("the server returned no properties".to_owned());
        let row = row.ok_or_else(missing)?;
        let number =
            |column| -> Result<i32, Error> { Ok(row.try_get(column)?.unwrap_or_default()) };
        let version: Option<&str> = row.try_get(1)?;
        let server = Self {
            edition: number(0)?,
            version: version.unwrap_or("unknown").to_owned(),
            compatibility: number(2)?,
            snapshot: number(3)? == 1,
            babelfish: number(4)? == 1,
        };
        if number(5)? != 1 {
            return Err(StoreError::Misconfigured(
                "the session lacks SET options that filtered indexes need (QUOTED_IDENTIFIER, ANSI_NULLS and others); check \
                 the server for a logon trigger that changes them"
                    .to_owned(),
            ));
        }
        if !server.babelfish && server.compatibility < MIN_COMPATIBILITY_LEVEL {
            return Err(StoreError::Misconfigured(format!(
                "the database has compatibility level {}, and OPENJSON needs {MIN_COMPATIBILITY_LEVEL}: ALTER DATABASE CURRENT \
                 SET COMPATIBILITY_LEVEL = {MIN_COMPATIBILITY_LEVEL}",
                server.compatibility
            )));
        }
        Ok(server)
    }

    /// Returns whether the server adds a NOT NULL column without writing every row (Microsoft's documentation of ALTER
    /// TABLE, "Adding NOT NULL columns as an online operation").
    pub(super) fn adds_columns_without_rewrite(&self) -> bool {
        self.babelfish || self.supports_online_indexes()
    }

    /// Returns the way to get the size of a text in UTF-8. UTF-8 collations came with version 15, SQL Server 2019; Azure SQL
    /// has them in every version (Microsoft's documentation of "Collation and Unicode support").
    pub(super) fn text_bytes(&self) -> TextBytes {
        if self.babelfish {
            TextBytes::Length
        } else if matches!(self.edition, 5 | 8) || self.major().is_some_and(|major| major >= 15) {
            TextBytes::Conversion
        } else {
            TextBytes::Unknown
        }
    }

    /// Returns the options with which an index is created on a table that has rows. Other sessions write meanwhile, where the
    /// edition allows it. At its end such a build waits for a lock of the table, and other sessions would queue behind it. Since
    /// version 16, SQL Server 2022, and on Azure SQL it lets them pass for an hour (Microsoft's documentation of CREATE INDEX).
    pub(super) fn index_options(&self) -> &'static str {
        let waits_at_low_priority =
            matches!(self.edition, 5 | 8) || self.major().is_some_and(|major| major >= 16);
        match (self.supports_online_indexes(), waits_at_low_priority) {
            (false, _) => "",
            (true, false) => " WITH (ONLINE = ON)",
            (true, true) => {
                " WITH (ONLINE = ON (WAIT_AT_LOW_PRIORITY (MAX_DURATION = 60 MINUTES, ABORT_AFTER_WAIT = NONE)))"
            }
        }
    }

    /// Returns whether `sp_rename` can rename an index.
    pub(super) fn renames_indexes(&self) -> bool {
        !self.babelfish
    }

    fn major(&self) -> Option<u32> {
        self.version.split('.').next()?.parse().ok()
    }

    /// Returns whether the server can create an index while other sessions write to the table.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_waits_at_low_priority_since_version_16() {
        for (edition, version, options) in [
            (3, "15.0.4430.1", " WITH (ONLINE = ON)"),
            (2, "16.0.4135.4", ""),
            (
                3,
                "16.0.4135.4",
                "WAIT_AT_LOW_PRIORITY (MAX_DURATION = 60 MINUTES",
            ),
            (
                5,
                "12.0.2000.8",
                "WAIT_AT_LOW_PRIORITY (MAX_DURATION = 60 MINUTES",
            ),
        ] {
            let server = ServerInfo {
                edition,
                version: version.to_owned(),
                ..ServerInfo::default()
            };
            let actual = server.index_options();
            assert!(actual.contains(options), "{edition} {version}: {actual}");
            assert_eq!(actual.is_empty(), options.is_empty());
        }
    }
}
