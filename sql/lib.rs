//! The SQL of lease-broker, one constant for each file. `README.md` explains the files.

/// Declares a constant for the text of each file.
macro_rules! files {
    ($($name:ident = $file:literal,)*) => {
        $(
            #[doc = concat!("`", $file, "`")]
            pub const $name: &str = include_str!($file);
        )*
    };
}

/// The text of the files whose statements give, extend and end leases, or make dead items ready again.
///
/// A store takes it as a value. So a test can open a store whose statements have a mistake, and show that the mistake is found.
#[derive(Clone, Copy, Debug)]
pub struct LeaseSql {
    /// `cancel.sql`
    pub cancel: &'static str,
    /// `claim.sql`
    pub claim: &'static str,
    /// `groups.sql`
    pub groups: &'static str,
    /// `heartbeat.sql`
    pub heartbeat: &'static str,
    /// `leases.sql`. Empty for SQLite, which has no such file.
    pub leases: &'static str,
    /// `left_out.sql`. Empty for SQLite, which has no such file.
    pub left_out: &'static str,
    /// `operation.sql`
    pub operation: &'static str,
    /// `reap.sql`
    pub reap: &'static str,
    /// `release_claims.sql`
    pub release_claims: &'static str,
    /// `runs.sql`
    pub runs: &'static str,
    /// `settle.sql`
    pub settle: &'static str,
    /// `suspects.sql`
    pub suspects: &'static str,
}

/// Statements for SQL Server and Babelfish.
pub mod mssql {
    /// The files that the broker uses.
    pub const LEASE_SQL: super::LeaseSql = super::LeaseSql {
        cancel: CANCEL,
        claim: CLAIM,
        groups: GROUPS,
        heartbeat: HEARTBEAT,
        leases: LEASES,
        left_out: LEFT_OUT,
        operation: OPERATION,
        reap: REAP,
        release_claims: RELEASE_CLAIMS,
        runs: RUNS,
        settle: SETTLE,
        suspects: SUSPECTS,
    };

    files! {
        ADOPT = "mssql/adopt.sql",
        CANCEL = "mssql/cancel.sql",
        CLAIM = "mssql/claim.sql",
        ENQUEUE = "mssql/enqueue.sql",
        ENQUEUE_ONCE = "mssql/enqueue_once.sql",
        EPOCH = "mssql/epoch.sql",
        GROUP_LIST = "mssql/group_list.sql",
        GROUP_PAUSE = "mssql/group_pause.sql",
        GROUPS = "mssql/groups.sql",
        HEARTBEAT = "mssql/heartbeat.sql",
        INSTANCE = "mssql/instance.sql",
        LEASES = "mssql/leases.sql",
        LEFT_OUT = "mssql/left_out.sql",
        LIST = "mssql/list.sql",
        MIGRATION_0001_BROKER = "mssql/migrations/0001_broker.sql",
        PERMISSIONS = "mssql/permissions.sql",
        OPERATION = "mssql/operation.sql",
        PAUSE = "mssql/pause.sql",
        PURGE = "mssql/purge.sql",
        REAP = "mssql/reap.sql",
        RELEASE_CLAIMS = "mssql/release_claims.sql",
        REMOVE = "mssql/remove.sql",
        RUNS = "mssql/runs.sql",
        SEARCH = "mssql/search.sql",
        SECRETS = "mssql/secrets.sql",
        SETTLE = "mssql/settle.sql",
        STATS = "mssql/stats.sql",
        SUSPECTS = "mssql/suspects.sql",
        TRIGGERS = "mssql/triggers.sql",
        WHY = "mssql/why.sql",
    }
}

/// Statements for SQLite.
pub mod sqlite {
    /// The files that the broker uses.
    pub const LEASE_SQL: super::LeaseSql = super::LeaseSql {
        cancel: CANCEL,
        claim: CLAIM,
        groups: GROUPS,
        heartbeat: HEARTBEAT,
        leases: "",
        left_out: "",
        operation: OPERATION,
        reap: REAP,
        release_claims: RELEASE_CLAIMS,
        runs: RUNS,
        settle: SETTLE,
        suspects: SUSPECTS,
    };

    files! {
        ADOPT = "sqlite/adopt.sql",
        CANCEL = "sqlite/cancel.sql",
        CLAIM = "sqlite/claim.sql",
        ENQUEUE = "sqlite/enqueue.sql",
        ENQUEUE_ONCE = "sqlite/enqueue_once.sql",
        EPOCH = "sqlite/epoch.sql",
        GROUP_LIST = "sqlite/group_list.sql",
        GROUP_PAUSE = "sqlite/group_pause.sql",
        GROUPS = "sqlite/groups.sql",
        HEARTBEAT = "sqlite/heartbeat.sql",
        INSTANCE = "sqlite/instance.sql",
        LIST = "sqlite/list.sql",
        MIGRATION_0001_BROKER = "sqlite/migrations/0001_broker.sql",
        OPERATION = "sqlite/operation.sql",
        PAUSE = "sqlite/pause.sql",
        PURGE = "sqlite/purge.sql",
        REAP = "sqlite/reap.sql",
        RELEASE_CLAIMS = "sqlite/release_claims.sql",
        REMOVE = "sqlite/remove.sql",
        RUNS = "sqlite/runs.sql",
        SEARCH = "sqlite/search.sql",
        SECRETS = "sqlite/secrets.sql",
        SETTLE = "sqlite/settle.sql",
        STATS = "sqlite/stats.sql",
        SUSPECTS = "sqlite/suspects.sql",
        WHY = "sqlite/why.sql",
    }
}
