-- Purpose: keep the rows of operations on many items, and change the items of their batches.
-- Sections: `forget`, `read` and `start` store an operation. `cancel` ends one. `find_free` returns the operations that no other broker
--   holds, the oldest first, and `take` makes a broker the one that runs such an operation; `is_free` is their condition. `begin_batch`
--   counts a batch and keeps the operation; `end_batch` records its results after its items were changed; between them, `redrive_item` or
--   `purge_item` changes one item each, or cancel.sql ends its lease. If one of the first two has changed no row, `find_unchanged`
--   returns a row if the table has ignored the change. `list` returns operations, the latest first. All but `read`, `find_free` and
--   `list` run in the writer's transaction.
-- Parameters: ?1 id; ?2 now (ms since 1970); ?3 queue. `start`: ?4 kind; ?5 definition; ?6 name of the caller; ?7 reason. `cancel`: ?6.
--   `forget`: ?4 time before which an operation ended long ago. `find_free` and `take`: ?4 broker; ?5 end of the longest
--   hold that can begin now. `find_free`: ?3 queues as a JSON array. `take`: ?6 end of its hold. `begin_batch`: ?4 broker; ?5 end of its
--   hold; ?6 number of the batch; ?7 position; ?8 rows that were looked at;
--   ?9 refused items; ?10 refusal. `end_batch`: ?4 changed items; ?5 state (0: it goes on). `list`: ?3 queues as a JSON array; ?4 1 to
--   leave out those that ended; ?5 create time and ?1 id of the last one on the page before; ?6 maximum number of rows.
--   `redrive_item`: ?1 to ?3 key values; ?4 time at which the operation was stored; ?5 now; ?6 fencing token; ?7 new state; ?8 due time.
--   `purge_item`: ?1 to ?6 as in `redrive_item`; ?7 state.
--   `find_unchanged`: ?1 to ?6 as in `redrive_item`; ?9 state of the item before the change.
-- Locks: the write lock of the file; none to read.
-- Indexes: primary key (by id); unique (queue, slot) for `running`; create time (forget, list). The key of the items.
-- Why `slot`: it is the kind while the operation runs and the id afterwards. So a queue runs one of a kind at a time, in every database.
-- Why `is_free` ends a hold that is longer than the longest: it began before the clock was put back, and would last until the clock
--   reaches its end.
-- Why `begin_batch` asks for the number of the batch and for the broker: a broker that has lost the operation, or that sends a batch
--   again, changes nothing.
-- Why `redrive_item` and `purge_item` ask for state, fencing token and time again: the row can have changed since it was found. With the
--   time, a redrive never meets the items that became dead after it was stored.
-- Why a time after now is accepted: the clock was put back since, so the item entered its state before the operation was stored. Otherwise
--   no operation would change it until the clock reaches that time. An item whose time the clock reaches while the operation runs is left out.
-- Why {redriven_attempt} and {redriven_checkpoint}: they are empty, or reset the attempts and remove the checkpoint.
-- Why `redrive_item` clears the token: a late settlement of the last lease must find no row.

-- :: columns
SELECT id, queue, kind, definition, actor, reason, create_time, state, end_time, batches, position, examined, changed, refused, error,
    holder, cancelled_by
FROM lease_broker_operation

-- :: read
{columns} WHERE id = ?1

-- :: running
{columns} WHERE queue = ?3 AND slot = ?4

-- :: forget
DELETE FROM lease_broker_operation WHERE create_time < ?4 AND end_time < ?4

-- :: start
INSERT INTO lease_broker_operation (id, queue, kind, slot, definition, actor, reason, create_time)
VALUES (?1, ?3, ?4, ?4, ?5, ?6, ?7, ?2)

-- :: cancel
UPDATE lease_broker_operation
SET state = 2, slot = lower(hex(id)), end_time = ?2, holder = NULL, until_time = NULL, cancelled_by = ?6
WHERE id = ?1 AND state = 0

-- :: is_free
state = 0 AND (holder IS NULL OR holder = ?4 OR until_time <= ?2 OR until_time > ?5)

-- :: find_free
{columns} WHERE {is_free} AND queue IN (SELECT value FROM json_each(?3)) ORDER BY create_time, id

-- :: take
UPDATE lease_broker_operation SET holder = ?4, until_time = ?6 WHERE id = ?1 AND {is_free}

-- :: begin_batch
UPDATE lease_broker_operation
SET batches = batches + 1, until_time = ?5, position = ?7, examined = examined + ?8, refused = refused + ?9,
    error = coalesce(error, ?10)
WHERE id = ?1 AND state = 0 AND holder = ?4 AND batches = ?6

-- :: end_batch
UPDATE lease_broker_operation
SET changed = changed + ?4, state = ?5, slot = iif(?5 = 0, slot, lower(hex(id))), end_time = iif(?5 = 0, NULL, ?2),
    holder = iif(?5 = 0, holder, NULL), until_time = iif(?5 = 0, until_time, NULL)
WHERE id = ?1

-- :: redrive_item
UPDATE {table}
SET {lease_state} = ?7, {lease_state_time} = ?5, {lease_due_time} = ?8, {lease_owner} = NULL,
    {lease_token} = NULL{redriven_attempt}{redriven_checkpoint}{mirror_redriven}
WHERE {key_match} AND {lease_state} = 4 AND {lease_fence} = ?6 AND ({lease_state_time} > ?4 AND {lease_state_time} <= ?5) IS NOT TRUE

-- :: purge_item
DELETE FROM {table}
WHERE {key_match} AND {lease_state} = ?7 AND {lease_fence} = ?6 AND ({lease_state_time} > ?4 AND {lease_state_time} <= ?5) IS NOT TRUE

-- :: find_unchanged
SELECT 1
FROM {table}
WHERE {key_match} AND {lease_state} = ?9 AND {lease_fence} = ?6 AND ({lease_state_time} > ?4 AND {lease_state_time} <= ?5) IS NOT TRUE

-- :: list
{columns}
WHERE queue IN (SELECT value FROM json_each(?3)) AND (?4 = 0 OR state = 0)
    AND (?5 IS NULL OR (create_time, id) < (?5, ?1))
ORDER BY create_time DESC, id DESC
LIMIT ?6
