//! The SQL of lease-broker, one constant for each file. `README.md` explains the files.

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

    /// `mssql/adopt.sql`
    pub const ADOPT: &str = include_str!("mssql/adopt.sql");
    /// `mssql/cancel.sql`
    pub const CANCEL: &str = include_str!("mssql/cancel.sql");
    /// `mssql/claim.sql`
    pub const CLAIM: &str = include_str!("mssql/claim.sql");
    /// `mssql/enqueue.sql`
    pub const ENQUEUE: &str = include_str!("mssql/enqueue.sql");
    /// `mssql/enqueue_once.sql`
    pub const ENQUEUE_ONCE: &str = include_str!("mssql/enqueue_once.sql");
    /// `mssql/epoch.sql`
    pub const EPOCH: &str = include_str!("mssql/epoch.sql");
    /// `mssql/group_list.sql`
    pub const GROUP_LIST: &str = include_str!("mssql/group_list.sql");
    /// `mssql/group_pause.sql`
    pub const GROUP_PAUSE: &str = include_str!("mssql/group_pause.sql");
    /// `mssql/groups.sql`
    pub const GROUPS: &str = include_str!("mssql/groups.sql");
    /// `mssql/heartbeat.sql`
    pub const HEARTBEAT: &str = include_str!("mssql/heartbeat.sql");
    /// `mssql/instance.sql`
    pub const INSTANCE: &str = include_str!("mssql/instance.sql");
    /// `mssql/leases.sql`
    pub const LEASES: &str = include_str!("mssql/leases.sql");
    /// `mssql/left_out.sql`
    pub const LEFT_OUT: &str = include_str!("mssql/left_out.sql");
    /// `mssql/list.sql`
    pub const LIST: &str = include_str!("mssql/list.sql");
    /// `mssql/migrations/0001_broker.sql`
    pub const MIGRATION_0001_BROKER: &str = include_str!("mssql/migrations/0001_broker.sql");
    /// `mssql/permissions.sql`
    pub const PERMISSIONS: &str = include_str!("mssql/permissions.sql");
    /// `mssql/operation.sql`
    pub const OPERATION: &str = include_str!("mssql/operation.sql");
    /// `mssql/pause.sql`
    pub const PAUSE: &str = include_str!("mssql/pause.sql");
    /// `mssql/purge.sql`
    pub const PURGE: &str = include_str!("mssql/purge.sql");
    /// `mssql/reap.sql`
    pub const REAP: &str = include_str!("mssql/reap.sql");
    /// `mssql/release_claims.sql`
    pub const RELEASE_CLAIMS: &str = include_str!("mssql/release_claims.sql");
    /// `mssql/remove.sql`
    pub const REMOVE: &str = include_str!("mssql/remove.sql");
    /// `mssql/runs.sql`
    pub const RUNS: &str = include_str!("mssql/runs.sql");
    /// `mssql/search.sql`
    pub const SEARCH: &str = include_str!("mssql/search.sql");
    /// `mssql/secrets.sql`
    pub const SECRETS: &str = include_str!("mssql/secrets.sql");
    /// `mssql/settle.sql`
    pub const SETTLE: &str = include_str!("mssql/settle.sql");
    /// `mssql/stats.sql`
    pub const STATS: &str = include_str!("mssql/stats.sql");
    /// `mssql/suspects.sql`
    pub const SUSPECTS: &str = include_str!("mssql/suspects.sql");
    /// `mssql/triggers.sql`
    pub const TRIGGERS: &str = include_str!("mssql/triggers.sql");
    /// `mssql/why.sql`
    pub const WHY: &str = include_str!("mssql/why.sql");
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

    /// `sqlite/adopt.sql`
    pub const ADOPT: &str = include_str!("sqlite/adopt.sql");
    /// `sqlite/cancel.sql`
    pub const CANCEL: &str = include_str!("sqlite/cancel.sql");
    /// `sqlite/claim.sql`
    pub const CLAIM: &str = include_str!("sqlite/claim.sql");
    /// `sqlite/enqueue.sql`
    pub const ENQUEUE: &str = include_str!("sqlite/enqueue.sql");
    /// `sqlite/enqueue_once.sql`
    pub const ENQUEUE_ONCE: &str = include_str!("sqlite/enqueue_once.sql");
    /// `sqlite/epoch.sql`
    pub const EPOCH: &str = include_str!("sqlite/epoch.sql");
    /// `sqlite/group_list.sql`
    pub const GROUP_LIST: &str = include_str!("sqlite/group_list.sql");
    /// `sqlite/group_pause.sql`
    pub const GROUP_PAUSE: &str = include_str!("sqlite/group_pause.sql");
    /// `sqlite/groups.sql`
    pub const GROUPS: &str = include_str!("sqlite/groups.sql");
    /// `sqlite/heartbeat.sql`
    pub const HEARTBEAT: &str = include_str!("sqlite/heartbeat.sql");
    /// `sqlite/instance.sql`
    pub const INSTANCE: &str = include_str!("sqlite/instance.sql");
    /// `sqlite/list.sql`
    pub const LIST: &str = include_str!("sqlite/list.sql");
    /// `sqlite/migrations/0001_broker.sql`
    pub const MIGRATION_0001_BROKER: &str = include_str!("sqlite/migrations/0001_broker.sql");
    /// `sqlite/operation.sql`
    pub const OPERATION: &str = include_str!("sqlite/operation.sql");
    /// `sqlite/pause.sql`
    pub const PAUSE: &str = include_str!("sqlite/pause.sql");
    /// `sqlite/purge.sql`
    pub const PURGE: &str = include_str!("sqlite/purge.sql");
    /// `sqlite/reap.sql`
    pub const REAP: &str = include_str!("sqlite/reap.sql");
    /// `sqlite/release_claims.sql`
    pub const RELEASE_CLAIMS: &str = include_str!("sqlite/release_claims.sql");
    /// `sqlite/remove.sql`
    pub const REMOVE: &str = include_str!("sqlite/remove.sql");
    /// `sqlite/runs.sql`
    pub const RUNS: &str = include_str!("sqlite/runs.sql");
    /// `sqlite/search.sql`
    pub const SEARCH: &str = include_str!("sqlite/search.sql");
    /// `sqlite/secrets.sql`
    pub const SECRETS: &str = include_str!("sqlite/secrets.sql");
    /// `sqlite/settle.sql`
    pub const SETTLE: &str = include_str!("sqlite/settle.sql");
    /// `sqlite/stats.sql`
    pub const STATS: &str = include_str!("sqlite/stats.sql");
    /// `sqlite/suspects.sql`
    pub const SUSPECTS: &str = include_str!("sqlite/suspects.sql");
    /// `sqlite/why.sql`
    pub const WHY: &str = include_str!("sqlite/why.sql");
}
