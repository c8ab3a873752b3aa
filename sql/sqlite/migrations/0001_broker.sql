-- The broker's own tables. After the first release this file never changes, because databases keep its checksum. Then a change is
-- another file. Times are in milliseconds since 1970.

-- One row. Each claim gives a fencing token greater than `fence`, so a restore that raises it gives no token twice. `raise_time` is
-- the time of the last such restore. A file with a `backup_time` is a backup of that moment. No broker serves it.
CREATE TABLE lease_broker_epoch (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id = 0),
    fence INTEGER NOT NULL,
    raise_time INTEGER,
    backup_time INTEGER
);

INSERT INTO lease_broker_epoch (id, fence) VALUES (0, 0);

-- One row. `generation`, a big-endian number, grows with each announcement of a broker. A broker that reads a smaller one than before
-- works on a file that went back in time. `mark` is random: it finds the row in the bytes of the file.
CREATE TABLE lease_broker_generation (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id = 0),
    mark BLOB NOT NULL CHECK (length(mark) = 16),
    generation BLOB NOT NULL CHECK (length(generation) = 8)
);

INSERT INTO lease_broker_generation (id, mark, generation) VALUES (0, randomblob(16), zeroblob(8));

-- The secrets that sign lease ids. A lease id holds the number of its secret. The store adds secret 0.
CREATE TABLE lease_broker_secret (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id BETWEEN 0 AND 255),
    secret BLOB NOT NULL,
    made_time INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
    retire_time INTEGER
);

-- One row. A health check writes it to test that the file accepts writes.
CREATE TABLE lease_broker_probe (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id = 0),
    writes INTEGER NOT NULL
);

INSERT INTO lease_broker_probe (id, writes) VALUES (0, 0);

-- One row per queue with keep_for. Until until_time only the holder, one broker, deletes old items of the queue.
CREATE TABLE lease_broker_retention (
    queue TEXT PRIMARY KEY NOT NULL,
    holder BLOB NOT NULL,
    until_time INTEGER NOT NULL
) WITHOUT ROWID;

-- One row per Enqueue call with a request id, until expire_time, so that a call that is sent again adds nothing. `keys` has the
-- keys of the items, in the format of src/lease_id/key_bytes.rs. `digest` is the SHA-256 hash of the items.
CREATE TABLE lease_broker_request (
    queue TEXT NOT NULL,
    request_id BLOB NOT NULL,
    digest BLOB NOT NULL,
    keys BLOB NOT NULL,
    expire_time INTEGER NOT NULL,
    PRIMARY KEY (queue, request_id)
) WITHOUT ROWID;

-- Expired rows are found by it.
CREATE INDEX lease_broker_request_expiry ON lease_broker_request (expire_time);

-- One row per item whose last lease has expired, from then until its next lease ends: a suspect. It waits if `worker` is NULL. Otherwise
-- this worker holds it. `fence` is the fencing token that the item's row has meanwhile. k1 to k3 are the key.
CREATE TABLE lease_broker_suspect (
    queue TEXT NOT NULL,
    worker TEXT,
    ready_time INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    k1 NOT NULL,
    k2,
    k3
);

-- Claims find the entries of a worker by it, and the suspect that waits longest.
CREATE INDEX lease_broker_suspect_wait ON lease_broker_suspect (queue, worker, ready_time);

-- One row per broker process, by its random id. The broker writes seen_time every 5 s. `settings` is a JSON object with hashes of
-- the settings of each queue, by the queue's name, and `activity` one with its events per second. `drain` is 1 if an operator told the
-- broker to stop. Rows that are a day old are deleted.
CREATE TABLE lease_broker_instance (
    id BLOB PRIMARY KEY NOT NULL,
    version TEXT NOT NULL,
    address TEXT NOT NULL,
    start_time INTEGER NOT NULL,
    seen_time INTEGER NOT NULL,
    draining INTEGER NOT NULL,
    settings TEXT NOT NULL,
    activity TEXT NOT NULL DEFAULT '{}',
    drain INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- One row per queue that an operator has paused, or that has groups or limits. pause_mode: 1 claims get no lease, 2 no client adds items,
-- 3 both. NULL: there is no pause. Until pause_until; NULL: it does not end by itself. `policy` has the rules of the groups: brokers
-- with other rules give no leases. `turn` is the group that had the last turn; NULL: a round begins. A round that a claim has left
-- ends at round_start. round_wrapped is 1 if it has begun again with the first group. Limits: 0 is none, NULL is one that the
-- configuration can still set. `arrival` is the theoretical arrival time of the rate, in microseconds. `paused_groups` is the number of
-- rows that the queue has in lease_broker_group.
CREATE TABLE lease_broker_queue (
    queue TEXT PRIMARY KEY NOT NULL,
    pause_mode INTEGER CHECK (pause_mode BETWEEN 1 AND 3),
    pause_time INTEGER,
    pause_until INTEGER,
    pause_actor TEXT,
    pause_reason TEXT,
    policy TEXT,
    turn,
    round_start,
    round_wrapped INTEGER NOT NULL DEFAULT 0,
    arrival INTEGER,
    max_leases INTEGER,
    rate_items INTEGER,
    rate_micros INTEGER,
    rate_burst INTEGER,
    group_max_leases INTEGER,
    group_rate_items INTEGER,
    group_rate_micros INTEGER,
    group_rate_burst INTEGER,
    paused_groups INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- One row per group that an operator has paused: claims lease no item of it. Until paused_until; NULL: the pause does not end by itself.
-- `group_value` is a value of the column that names the groups of the queue.
CREATE TABLE lease_broker_group (
    queue TEXT NOT NULL,
    group_value NOT NULL,
    pause_time INTEGER NOT NULL,
    paused_until INTEGER,
    pause_actor TEXT NOT NULL,
    pause_reason TEXT NOT NULL,
    PRIMARY KEY (queue, group_value)
) WITHOUT ROWID;

-- One row per group that was given items and whose rate still remembers them. `arrival` is the theoretical arrival time of the group's
-- rate, in microseconds. A row whose arrival has passed means the same as no row. Claims delete such rows. `group_value` is as in
-- lease_broker_group; values that the column calls equal are stored as one.
CREATE TABLE lease_broker_group_rate (
    queue TEXT NOT NULL,
    group_value NOT NULL,
    arrival INTEGER NOT NULL,
    PRIMARY KEY (queue, group_value)
) WITHOUT ROWID;

CREATE INDEX lease_broker_group_rate_arrival ON lease_broker_group_rate (queue, arrival);

-- One row per operation on many items, by the request id of the call that started it. `kind` is redrive, cancel_leases or purge.
-- `definition` is a JSON object with the filter and the change. state: 0 running, 1 done, 2 cancelled, 3 failed. `slot` is the kind while
-- the operation runs and its id afterwards, so a queue runs one of a kind at a time. `position` is the place at which batch number
-- `batches` begins. The holder, a broker, runs the operation until until_time. Rows that ended ten days ago are deleted.
CREATE TABLE lease_broker_operation (
    id BLOB PRIMARY KEY NOT NULL,
    queue TEXT NOT NULL,
    kind TEXT NOT NULL,
    slot TEXT NOT NULL,
    definition TEXT NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    create_time INTEGER NOT NULL,
    state INTEGER NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 3),
    end_time INTEGER,
    batches INTEGER NOT NULL DEFAULT 0,
    position TEXT,
    examined INTEGER NOT NULL DEFAULT 0,
    changed INTEGER NOT NULL DEFAULT 0,
    refused INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    holder BLOB,
    until_time INTEGER,
    cancelled_by TEXT,
    UNIQUE (queue, slot)
) WITHOUT ROWID;

-- Lists of operations and the search for those that have ended long ago.
CREATE INDEX lease_broker_operation_time ON lease_broker_operation (create_time);

-- The names of the numbers in lease_state, for people and reports to join.
CREATE TABLE lease_broker_state (
    lease_state INTEGER PRIMARY KEY NOT NULL,
    name TEXT NOT NULL UNIQUE
);

INSERT INTO lease_broker_state (lease_state, name)
VALUES (0, 'ready'), (1, 'leased'), (2, 'delayed'), (3, 'completed'), (4, 'dead');
