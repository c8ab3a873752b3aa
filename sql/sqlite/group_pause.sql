-- Purpose: pause a group of a queue, and end its pause.
-- Sections: `add_row` gives the queue a row if it has none. `find_collation` returns the collation of the column that names groups.
--   `find` returns the pause of a group, and `remove` deletes it. `count` returns the number of paused groups. `pause` adds one.
--   Both calls then run `count_paused` of groups.sql.
-- Parameters: ?1 queue; ?2 group; ?3 now (ms since 1970); ?4 end of the pause (ms since 1970; NULL: none); ?5 name of the caller;
--   ?6 reason. `find_collation`: ?1 index; ?2 column.
-- Locks: the write lock of the file.
-- Indexes: primary key.
-- Why the rows of all groups of the queue are compared if the collation is not BINARY: equal is what the column calls equal. There
--   are 1,000 at most.
-- Why the collation is read from the index: the catalogue does not list the collations of columns.

-- :: add_row
INSERT OR IGNORE INTO lease_broker_queue (queue) VALUES (?1)

-- :: find_collation
SELECT x.coll FROM pragma_index_xinfo(?1) AS x WHERE x.key = 1 AND x.name = ?2 COLLATE NOCASE

-- :: find
SELECT pause_time, paused_until, pause_actor, pause_reason
FROM lease_broker_group
WHERE queue = ?1 AND group_value = ?2 COLLATE {collation} AND (paused_until IS NULL OR paused_until > ?3)

-- :: remove
DELETE FROM lease_broker_group WHERE queue = ?1 AND (paused_until <= ?3 OR group_value = ?2 COLLATE {collation})

-- :: count
SELECT count(*) FROM lease_broker_group WHERE queue = ?1

-- :: pause
INSERT INTO lease_broker_group (queue, group_value, pause_time, paused_until, pause_actor, pause_reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
