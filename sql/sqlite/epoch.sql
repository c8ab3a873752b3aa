-- Purpose: keep the fencing tokens of a database that goes back in time apart from those that were given before.
-- Sections: `read_fence` is part of each claim. `read` returns the row. `raise`, `forget_brokers`, `cancel_operations`,
--   `write_generation` and, for each queue, `find_leased` and `end_lease` for each row that it returns are one transaction, after a restore. If a constraint or a trigger
--   refuses `end_lease`, it runs again without the mirror columns. `mark_backup` makes a copy of the database a backup. `read_generation` and
--   `write_generation` are part of each announcement. `find_generation` returns the page that has the generation.
-- Parameters: `raise`: ?1 fence; ?2 now (ms since 1970). `cancel_operations`: ?2 now. `mark_backup`: ?1 now. `find_leased`: ?4 fence. `end_lease`: ?1 to ?3 key values; ?5 now. `write_generation`: ?1 generation
--   (8 bytes, big-endian).
-- Locks: the write lock of the file (`raise`, `forget_brokers`, `cancel_operations`, `end_lease`, `mark_backup`, `write_generation`).
-- Indexes: the key (`end_lease`). `find_leased` reads the whole table: a restored table can lack the indexes.
-- Why one row raises the tokens of all items: a restored file also has old tokens in rows that are inserted later, because keys repeat.
-- Why `cancel_operations` ends operations of all queues: a broker would continue one that was cancelled since, or one whose changes are
--   the reason for the restore.
-- Why `end_lease` gives the attempt back: the item did not fail. The row has no token, so the worker that held the lease gets
--   LEASE_LOST.

-- :: read_fence
SELECT fence FROM lease_broker_epoch

-- :: read
SELECT fence, backup_time FROM lease_broker_epoch

-- :: raise
UPDATE lease_broker_epoch SET fence = ?1, raise_time = ?2, backup_time = NULL

-- :: forget_brokers
DELETE FROM lease_broker_instance

-- :: cancel_operations
UPDATE lease_broker_operation
SET state = 2, slot = lower(hex(id)), end_time = ?2, holder = NULL, until_time = NULL, cancelled_by = 'restore'
WHERE state = 0
RETURNING id, queue, kind

-- :: end_lease
UPDATE {table}
SET {lease_state} = 0, {lease_state_time} = ?5, {lease_due_time} = NULL, {lease_owner} = NULL, {lease_token} = NULL,
    {lease_attempt} = {lease_attempt} - 1{mirror_ready}
WHERE {key_match} AND {lease_state} = 1

-- :: find_leased
SELECT {key} FROM {table} WHERE {lease_state} = 1 AND {lease_fence} <= ?4{key_not_null}

-- :: mark_backup
UPDATE lease_broker_epoch SET backup_time = ?1

-- :: read_generation
SELECT mark, generation FROM lease_broker_generation

-- :: write_generation
UPDATE lease_broker_generation SET generation = ?1

-- :: find_generation
SELECT rootpage FROM sqlite_schema WHERE name = 'lease_broker_generation' AND type = 'table'
