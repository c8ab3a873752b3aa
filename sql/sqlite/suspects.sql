-- Purpose: lease items whose last lease expired, the suspects, alone. `src/store/contract/suspects.rs` has the rule and its reason.
-- Sections: `has_any` runs at the beginning of each claim. If it returns a row, the claim decides for each call by `find_held`,
--   `find_waiting` and `holds_lease` which items the call may lease. It then picks items by pick_ready of claim.sql, which contains
--   `except_suspects` if suspects are kept from the call, or by `pick_suspect`. `note_lease` runs after the lease of a suspect, and
--   `remove` if the database refuses the lease. The reaper runs `remember` for each item that becomes ready because its lease has
--   expired, and `forget` at its end.
-- Parameters: ?1 to ?3 key values; ?4 queue; ?5 now (ms since 1970); ?6 worker id; ?7 number of the entry; ?8 fencing
--   token of the row.
-- Locks: the write lock of the file.
-- Indexes: lease_broker_suspect_wait (all reads of the list), key, due (holds_lease).
-- Why a list: no index of the queue finds suspects among ready items, and each claim must know whether there are any. The list is empty
--   while no lease expires, and then a claim only looks at its first entry.
-- Why an entry has the fencing token: it shows whether the row still has the lease that the entry is about. An entry without a worker is
--   valid while the row is ready and has its fencing token, and one with a worker while the row is leased and has it. Other entries
--   are ignored, and `forget` deletes them. So settlements need not know the list.
-- Why `find_waiting` returns several: the first ones can be held back by their groups, or be too large for the call.
-- Why `except_suspects` looks at the columns of the row first: most rows are not read from the list then. A row with these columns is no
--   suspect without an entry: a redriven item can keep its attempts, and other programs write rows.
-- Why `holds_lease` begins with the leases that last longest: a worker that holds leases has extended some of them lately.

-- :: has_any
SELECT 1 FROM lease_broker_suspect WHERE queue = ?4 LIMIT 1

-- :: find_held
SELECT 1
FROM lease_broker_suspect AS s CROSS JOIN {table} AS t ON {suspect_match}
WHERE s.queue = ?4 AND s.worker = ?6 AND t.{lease_state} = 1 AND t.{lease_fence} = s.fence AND t.{lease_due_time} > ?5
LIMIT 1

-- :: find_waiting
SELECT {t_key}, s.rowid, s.ready_time
FROM lease_broker_suspect AS s CROSS JOIN {table} AS t ON {suspect_match}
WHERE s.queue = ?4 AND s.worker IS NULL AND t.{lease_state} = 0 AND t.{lease_fence} = s.fence
ORDER BY s.ready_time, s.rowid
LIMIT 100

-- :: holds_lease
SELECT 1
FROM {table} INDEXED BY {due_index}
WHERE {lease_state} IN (1, 2) AND {lease_due_time} > ?5 AND {lease_state} = 1 AND {lease_owner} = ?6
ORDER BY {lease_due_time} DESC
LIMIT 1

-- :: except_suspects
 AND NOT ({lease_attempt} > 0 AND {lease_owner} IS NULL AND {lease_token} IS NULL
        AND ({key}, {lease_fence}) IN (
            SELECT {key_numbers}, fence FROM lease_broker_suspect WHERE queue = {queue_literal} AND worker IS NULL))

-- :: pick_suspect
SELECT {key}, {lease_state_time}{item_columns}
FROM {table}
WHERE {key_match} AND {lease_state} = 0

-- :: note_lease
UPDATE lease_broker_suspect
SET worker = ?6, fence = ?8
WHERE rowid = ?7

-- :: remove
DELETE FROM lease_broker_suspect WHERE rowid = ?7

-- :: remember
INSERT INTO lease_broker_suspect (queue, ready_time, fence, k1, k2, k3)
VALUES (?4, ?5, ?8, ?1, ?2, ?3)

-- :: forget
DELETE FROM lease_broker_suspect AS s
WHERE s.queue = ?4 AND NOT EXISTS (
    SELECT 1 FROM {table} AS t
    WHERE {suspect_match} AND t.{lease_fence} = s.fence AND t.{lease_state} = CASE WHEN s.worker IS NULL THEN 0 ELSE 1 END)
