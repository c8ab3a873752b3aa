-- Purpose: pause a queue, end its pause, and read pauses.
-- Sections: `pause`, `read_one` and `resume` in the writer's transaction; `find_table` and `read_all` on the connection for reads.
--   `holds` runs in the transaction of a claim, and of an operation that adds items, and returns the mode and the text of the pause.
-- Parameters: ?1 queue; ?2 now (ms since 1970); ?3 mode (1 claims, 2 new items, 3 both); ?4 end of the pause (ms since 1970; NULL:
--   none); ?5 name of the caller; ?6 reason.
-- Locks: the write lock of the file; none to read.
-- Indexes: primary key. `read_all` reads the whole table, which has a row for each queue that was ever paused.
-- Why the claim reads the pause: a claim that begins after the pause was committed sees it, at every broker. SQLite has one writer at a
--   time, so no claim runs beside the statement that pauses.

-- :: pause
INSERT INTO lease_broker_queue (queue, pause_mode, pause_time, pause_until, pause_actor, pause_reason)
VALUES (?1, ?3, ?2, ?4, ?5, ?6)
ON CONFLICT (queue) DO UPDATE SET pause_mode = excluded.pause_mode, pause_time = excluded.pause_time,
    pause_until = excluded.pause_until, pause_actor = excluded.pause_actor, pause_reason = excluded.pause_reason

-- :: resume
UPDATE lease_broker_queue SET pause_mode = NULL WHERE queue = ?1

-- :: columns
SELECT queue, pause_mode, pause_time, pause_until, pause_actor, pause_reason FROM lease_broker_queue
WHERE pause_mode IS NOT NULL AND (pause_until IS NULL OR pause_until > ?2)

-- :: read_one
{columns} AND queue = ?1

-- :: read_all
{columns} AND ?1 = ''
ORDER BY queue

-- :: find_table
SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'lease_broker_queue'
