-- What turns a table into a queue; `schema plan` prints the sections that a table lacks, in this order. Each is a batch of
-- its own, safe to run once; the columns are added with constant defaults, which changes metadata only where the edition
-- allows it. The state is a smallint, as Babelfish can not add a tinyint with a default to a table that exists.

-- :: create
CREATE TABLE {table} (
    {definitions},
    {lease_state} smallint NOT NULL DEFAULT 0,
    {lease_state_time} datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME(),
    {lease_due_time} datetime2(3) NULL,
    {lease_owner} nvarchar(128) NULL,
    {lease_token} uniqueidentifier NULL,
    {lease_fence} bigint NOT NULL DEFAULT 0,
    {lease_attempt} int NOT NULL DEFAULT 0,
    {lease_error} nvarchar(1024) NULL,
    {trace_parent} varchar(55) NULL{primary_key}
)

-- :: lease_state
ALTER TABLE {table} ADD {lease_state} smallint NOT NULL DEFAULT 0

-- :: lease_state_time
ALTER TABLE {table} ADD {lease_state_time} datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME()

-- :: lease_due_time
ALTER TABLE {table} ADD {lease_due_time} datetime2(3) NULL

-- :: lease_owner
ALTER TABLE {table} ADD {lease_owner} nvarchar(128) NULL

-- :: lease_token
ALTER TABLE {table} ADD {lease_token} uniqueidentifier NULL

-- :: lease_fence
ALTER TABLE {table} ADD {lease_fence} bigint NOT NULL DEFAULT 0

-- :: lease_attempt
ALTER TABLE {table} ADD {lease_attempt} int NOT NULL DEFAULT 0

-- :: lease_error
ALTER TABLE {table} ADD {lease_error} nvarchar(1024) NULL

-- :: trace_parent
ALTER TABLE {table} ADD {trace_parent} varchar(55) NULL

-- :: backfill
UPDATE t
SET {lease_state} = {backfill_state}
FROM (SELECT TOP (4000) {key_as_names} FROM {table} AS t
    WHERE t.{lease_state} = 0 AND t.{lease_fence} = 0 AND {backfill_match}{key_present}) AS d
    INNER JOIN {table} AS t ON {t_is_d}
WHERE t.{lease_state} = 0

-- :: backfill_needed
SELECT COUNT(*) FROM (SELECT TOP (1) 1 AS one FROM {table} AS t WHERE {backfill_if_present}{backfill_match}{key_present}) AS d

-- :: ready_index
CREATE INDEX {ready_index} ON {table} ({ready_columns}){ready_filter}

-- :: due_index
CREATE INDEX {due_index} ON {table} ({due_columns}){due_filter}

-- :: token_index
CREATE INDEX {token_index} ON {table} ({token_columns}){token_filter}

-- :: drop_index
DROP INDEX {index} ON {table}

-- :: create_archive
CREATE TABLE {archive} ({archive_definitions})
