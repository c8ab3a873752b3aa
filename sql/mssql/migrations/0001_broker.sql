-- The broker's own tables. After the first release this file never changes, because databases keep its checksum. Then a change is
-- another file. Batches end at lines of GO.

-- One row. Each claim gives a fencing token greater than fence, so a restore that raises it gives no token twice. raise_time is the
-- time of the last such restore.
CREATE TABLE lease_broker_epoch (
    id smallint NOT NULL CONSTRAINT PK_lease_broker_epoch PRIMARY KEY CONSTRAINT CK_lease_broker_epoch_id CHECK (id = 0),
    fence bigint NOT NULL,
    raise_time datetime2(3) NULL
)
GO
INSERT lease_broker_epoch (id, fence) VALUES (0, 0)
GO
-- One row. generation grows with each announcement of a broker. A broker that reads a smaller one than before works on a database that
-- went back in time.
CREATE TABLE lease_broker_generation (
    id smallint NOT NULL CONSTRAINT PK_lease_broker_generation PRIMARY KEY
        CONSTRAINT CK_lease_broker_generation_id CHECK (id = 0),
    generation bigint NOT NULL
)
GO
INSERT lease_broker_generation (id, generation) VALUES (0, 0)
GO
-- The secrets that sign lease ids. A lease id holds the number of its secret. The store adds secret 0.
CREATE TABLE lease_broker_secret (
    id smallint NOT NULL CONSTRAINT PK_lease_broker_secret PRIMARY KEY
        CONSTRAINT CK_lease_broker_secret_id CHECK (id BETWEEN 0 AND 255),
    secret varbinary(64) NOT NULL,
    made_time datetime2(3) NOT NULL CONSTRAINT DF_lease_broker_secret_made_time DEFAULT SYSUTCDATETIME(),
    retire_time datetime2(3) NULL
)
GO
-- One row. A health check writes it to test that the database accepts writes.
CREATE TABLE lease_broker_probe (
    id smallint NOT NULL CONSTRAINT PK_lease_broker_probe PRIMARY KEY CONSTRAINT CK_lease_broker_probe_id CHECK (id = 0),
    write_time datetime2(3) NOT NULL
)
GO
INSERT lease_broker_probe (id, write_time) VALUES (0, SYSUTCDATETIME())
GO
-- One row per queue with keep_for. Until until_time only the holder, one broker, deletes old items of the queue.
CREATE TABLE lease_broker_retention (
    queue nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL CONSTRAINT PK_lease_broker_retention PRIMARY KEY,
    holder uniqueidentifier NOT NULL,
    until_time datetime2(3) NOT NULL
)
GO
-- One row per Enqueue call with a request id, until expire_time, so that a call that is sent again adds nothing. digest is the
-- SHA-256 hash of the items, in hexadecimal digits.
CREATE TABLE lease_broker_request (
    queue nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
    request_id uniqueidentifier NOT NULL,
    digest char(64) NOT NULL,
    item_count int NOT NULL,
    expire_time datetime2(3) NOT NULL,
    CONSTRAINT PK_lease_broker_request PRIMARY KEY (queue, request_id)
)
GO
-- Expired rows are found by it.
CREATE INDEX lease_broker_request_expiry ON lease_broker_request (expire_time)
GO
-- One row per item of such a call: the key of the item, in up to three columns. item_list and item_position give the order.
CREATE TABLE lease_broker_request_key (
    queue nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
    request_id uniqueidentifier NOT NULL,
    item_list int NOT NULL,
    item_position int NOT NULL,
    k1 sql_variant NOT NULL,
    k2 sql_variant NULL,
    k3 sql_variant NULL,
    CONSTRAINT PK_lease_broker_request_key PRIMARY KEY (queue, request_id, item_list, item_position)
)
GO
-- One row per item whose last lease has expired, from then until its next lease ends: a suspect. It waits if worker is NULL. Otherwise
-- this worker holds it. fence is the fencing token that the item's row has meanwhile. k1 to k3 are the key.
CREATE TABLE lease_broker_suspect (
    id bigint NOT NULL IDENTITY(1, 1) CONSTRAINT PK_lease_broker_suspect PRIMARY KEY,
    queue nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
    worker nvarchar(128) COLLATE Latin1_General_100_BIN2 NULL,
    ready_time datetime2(3) NOT NULL,
    fence bigint NOT NULL,
    k1 sql_variant NOT NULL,
    k2 sql_variant NULL,
    k3 sql_variant NULL
)
GO
-- Claims find the entries of a worker by it, and the suspect that waits longest.
CREATE INDEX lease_broker_suspect_wait ON lease_broker_suspect (queue, worker, ready_time)
GO
-- One row per broker process, by its random id. The broker writes seen_time every 5 s. `settings` is a JSON object with hashes of
-- the settings of each queue, by the queue's name, and `activity` one with its events per second. `drain` is 1 if an operator told the
-- broker to stop. Rows that are a day old are deleted.
CREATE TABLE lease_broker_instance (
    id uniqueidentifier NOT NULL CONSTRAINT PK_lease_broker_instance PRIMARY KEY,
    version varchar(64) NOT NULL,
    address nvarchar(300) NOT NULL,
    start_time datetime2(3) NOT NULL,
    seen_time datetime2(3) NOT NULL,
    draining bit NOT NULL,
    settings nvarchar(max) NOT NULL,
    activity nvarchar(max) NOT NULL CONSTRAINT DF_lease_broker_instance_activity DEFAULT N'{}',
    drain bit NOT NULL CONSTRAINT DF_lease_broker_instance_drain DEFAULT 0
)
GO
-- One row per queue that an operator has paused, or that has groups or limits. pause_mode: 1 claims get no lease, 2 no client adds items,
-- 3 both. NULL: there is no pause. Until pause_until; NULL: it does not end by itself. Each claim on a queue with groups or limits
-- raises `claims`, and so takes its turn. `policy` has the rules of the groups: brokers with other rules give no leases. `turn` is the
-- group that had the last turn; NULL: a round begins. A round that a claim has left ends at round_start. round_wrapped is 1 if it
-- has begun again with the first group. Limits: 0 is none, NULL is one that the configuration can still set. `arrival` is the
-- theoretical arrival time of the rate, in microseconds since 2000. `paused_groups` is the number of rows that the queue has in
-- lease_broker_group.
CREATE TABLE lease_broker_queue (
    queue nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL CONSTRAINT PK_lease_broker_queue PRIMARY KEY,
    pause_mode smallint NULL CONSTRAINT CK_lease_broker_queue_pause_mode CHECK (pause_mode BETWEEN 1 AND 3),
    pause_time datetime2(3) NULL,
    pause_until datetime2(3) NULL,
    pause_actor nvarchar(2048) NULL,
    pause_reason nvarchar(2048) NULL,
    claims bigint NOT NULL CONSTRAINT DF_lease_broker_queue_claims DEFAULT 0,
    policy nvarchar(400) COLLATE Latin1_General_100_BIN2 NULL,
    turn sql_variant NULL,
    round_start sql_variant NULL,
    round_wrapped smallint NOT NULL CONSTRAINT DF_lease_broker_queue_round_wrapped DEFAULT 0,
    arrival bigint NULL,
    max_leases int NULL,
    rate_items int NULL,
    rate_micros bigint NULL,
    rate_burst int NULL,
    group_max_leases int NULL,
    group_rate_items int NULL,
    group_rate_micros bigint NULL,
    group_rate_burst int NULL,
    paused_groups int NOT NULL CONSTRAINT DF_lease_broker_queue_paused_groups DEFAULT 0
)
GO
-- One row per group that an operator has paused: claims lease no item of it. Until paused_until; NULL: the pause does not end by itself.
-- `group_text` is a value of the column that names the groups of the queue, as text. Only a transaction that has updated the row of the
-- queue changes rows of this table.
CREATE TABLE lease_broker_group (
    queue nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
    id bigint NOT NULL IDENTITY(1, 1),
    group_text nvarchar(4000) NOT NULL,
    pause_time datetime2(3) NOT NULL,
    paused_until datetime2(3) NULL,
    pause_actor nvarchar(2048) NOT NULL,
    pause_reason nvarchar(2048) NOT NULL,
    CONSTRAINT PK_lease_broker_group PRIMARY KEY (queue, id)
)
GO
-- One row per group that was given items and whose rate still remembers them. `arrival` is the theoretical arrival time of the group's
-- rate, in microseconds since 2000. A row whose arrival has passed means the same as no row. Claims delete such rows. `group_hash` is
-- the SHA-256 of the value of the column, as text: a text can be longer than an index allows. Only a transaction that has updated the
-- row of the queue changes rows of this table.
CREATE TABLE lease_broker_group_rate (
    queue nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
    group_hash binary(32) NOT NULL,
    arrival bigint NOT NULL,
    CONSTRAINT PK_lease_broker_group_rate PRIMARY KEY (queue, group_hash)
)
GO
CREATE INDEX lease_broker_group_rate_arrival ON lease_broker_group_rate (queue, arrival)
GO
-- One row per operation on many items, by the request id of the call that started it. `kind` is redrive, cancel_leases or purge.
-- `definition` is a JSON object with the filter and the change. state: 0 running, 1 done, 2 cancelled, 3 failed. `slot` is the kind while
-- the operation runs and its id afterwards, so a queue runs one of a kind at a time. `position` is the place at which batch number
-- `batches` begins. The holder, a broker, runs the operation until until_time. Rows that ended ten days ago are deleted.
CREATE TABLE lease_broker_operation (
    id uniqueidentifier NOT NULL CONSTRAINT PK_lease_broker_operation PRIMARY KEY,
    queue nvarchar(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
    kind varchar(32) NOT NULL,
    slot varchar(64) NOT NULL,
    definition nvarchar(max) NOT NULL,
    actor nvarchar(2048) NOT NULL,
    reason nvarchar(2048) NOT NULL,
    create_time datetime2(3) NOT NULL,
    state smallint NOT NULL CONSTRAINT DF_lease_broker_operation_state DEFAULT 0
        CONSTRAINT CK_lease_broker_operation_state CHECK (state BETWEEN 0 AND 3),
    end_time datetime2(3) NULL,
    batches bigint NOT NULL CONSTRAINT DF_lease_broker_operation_batches DEFAULT 0,
    position nvarchar(max) NULL,
    examined bigint NOT NULL CONSTRAINT DF_lease_broker_operation_examined DEFAULT 0,
    changed bigint NOT NULL CONSTRAINT DF_lease_broker_operation_changed DEFAULT 0,
    refused bigint NOT NULL CONSTRAINT DF_lease_broker_operation_refused DEFAULT 0,
    error nvarchar(1024) NULL,
    holder uniqueidentifier NULL,
    until_time datetime2(3) NULL,
    cancelled_by nvarchar(2048) NULL,
    CONSTRAINT UQ_lease_broker_operation_slot UNIQUE (queue, slot)
)
GO
-- Lists of operations and the search for those that have ended long ago.
CREATE INDEX lease_broker_operation_time ON lease_broker_operation (create_time)
GO
-- The names of the numbers in lease_state, for people and reports to join.
CREATE TABLE lease_broker_state (
    lease_state smallint NOT NULL CONSTRAINT PK_lease_broker_state PRIMARY KEY,
    name varchar(16) NOT NULL CONSTRAINT UQ_lease_broker_state_name UNIQUE
)
GO
INSERT lease_broker_state (lease_state, name)
VALUES (0, 'ready'), (1, 'leased'), (2, 'delayed'), (3, 'completed'), (4, 'dead')
