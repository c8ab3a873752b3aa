-- Purpose: delete items that have been completed or dead for long, and old rows of the archive.
-- Sections: `visit_first` and `visit_next` read the next rows in the order of the key, and tell which are old. If the queue has an
--   index of completed items, `old_first` and `old_next` are in their place, and read only old rows in the order of their time, and
--   then of the key. They run on the connection for reads. `delete_old` deletes one row. `find_archived` returns old rows of the archive, `delete_archived` deletes
--   one of them, and `count_archived` counts them. `take_turn` makes a broker the only one that deletes old items of a queue, unless another one is; `read_turn` returns
--   the broker that is.
-- Parameters: ?1 to ?3 key values; ?4 maximum number of rows; ?5 and ?6 time before which a completed and a dead item is old
--   (ms since 1970; NULL: never); ?7 time of the row after which `old_next` starts. `take_turn` and `read_turn`: ?1 queue; ?2 broker; ?3 end of the turn; ?4 now; ?5 end of the longest turn
--   that can begin now (ms since 1970).
--   `delete_archived`: ?1 row id.
-- Locks: the write lock of the file (delete_old, delete_archived, take_turn); none to read.
-- Indexes: key (visit_first, visit_next, delete_old); completed and dead items (old_first, old_next); state time of the archive (find_archived, count_archived).
-- Why a walk is in the order of the key: no index holds the completed items, because for most tables it would cost the completions
--   more than the walk costs.
-- Why `delete_old` asks for state and time again: the row can have changed since it was read.
-- Why `take_turn` ends a turn that is longer than the longest: it was taken before the clock was put back, and would last until the clock
--   reaches its end.
-- Why a state time of 0 is not old: 0 means unknown (sql/README.md).

-- :: is_old
({lease_state} = 3 AND {lease_state_time} < ?5 OR {lease_state} = 4 AND {lease_state_time} < ?6) AND {lease_state_time} > 0

-- :: visit_first
SELECT {key}, {is_old}
FROM {table}
WHERE 1 = 1{key_not_null}
ORDER BY {key}
LIMIT ?4

-- :: visit_next
SELECT {key}, {is_old}
FROM {table}
WHERE ({key}) > ({key_parameters}){key_not_null}
ORDER BY {key}
LIMIT ?4

-- :: old_first
SELECT {key}, 1, {lease_state_time} AS lb_time FROM {table} INDEXED BY {completed_index}
WHERE {lease_state} = 3 AND {lease_state_time} > 0 AND {lease_state_time} < ?5{key_not_null}
UNION ALL
SELECT {key}, 1, {lease_state_time} FROM {table} INDEXED BY {dead_index}
WHERE {lease_state} = 4 AND {lease_state_time} > 0 AND {lease_state_time} < ?6{key_not_null}
ORDER BY lb_time, {key}
LIMIT ?4

-- :: old_next
SELECT {key}, 1, {lease_state_time} AS lb_time FROM {table} INDEXED BY {completed_index}
WHERE {lease_state} = 3 AND {lease_state_time} < ?5 AND ({lease_state_time}, {key}) > (?7, {key_parameters}){key_not_null}
UNION ALL
SELECT {key}, 1, {lease_state_time} FROM {table} INDEXED BY {dead_index}
WHERE {lease_state} = 4 AND {lease_state_time} < ?6 AND ({lease_state_time}, {key}) > (?7, {key_parameters}){key_not_null}
ORDER BY lb_time, {key}
LIMIT ?4

-- :: delete_old
DELETE FROM {table}
WHERE {key_match} AND {is_old}

-- :: find_archived
SELECT {archive_rowid}
FROM {archive} INDEXED BY {archive_index}
WHERE {lease_state_time} < ?5 AND {lease_state_time} > 0
LIMIT ?4

-- :: delete_archived
DELETE FROM {archive}
WHERE {archive_rowid} = ?1

-- :: count_archived
SELECT count(*) FROM {archive} INDEXED BY {archive_index} WHERE {lease_state_time} < ?5 AND {lease_state_time} > 0

-- :: take_turn
INSERT INTO lease_broker_retention (queue, holder, until_time) VALUES (?1, ?2, ?3)
ON CONFLICT (queue) DO UPDATE SET holder = excluded.holder, until_time = excluded.until_time
WHERE until_time <= ?4 OR until_time > ?5 OR holder = excluded.holder

-- :: read_turn
SELECT holder, until_time FROM lease_broker_retention WHERE queue = ?1
