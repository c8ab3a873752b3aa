-- Purpose: list the groups of a queue, page by page.
-- Sections: `next` returns the first group, or the one behind ?2. It contains `next_ready`, `next_busy` once or per state, and
--   `next_paused`. `head` returns the item that decides about the state of a group: key, state, time of the state, due time. It
--   contains `of_state` per state. `leases` counts the leases of a group, and `max_leases` returns the limit of a group. The pause
--   of a group comes from `find` of group_pause.sql.
-- Parameters: ?1 queue; ?2 group; ?4 maximum of the count.
-- Locks: none; a read in WAL mode does not wait for a writer. The sections of a page run in one read transaction.
-- Indexes: group (ready items), busy (others). Without filtered indexes the group index serves for both. Each section is a few
--   seeks.
-- Why `next_busy` once per state without filtered indexes: the state leads the index then, so only one state can be sought in.
-- Why COLLATE in the outer ORDER BY: a column of a compound SELECT has no collation of its own.
-- Why a strict group's lease decides before its first item: one item of it is leased at a time, whichever that is.

-- :: next
SELECT lb_group FROM ({next_ready}{next_busy}{next_paused}) ORDER BY lb_group COLLATE {collation} LIMIT 1

-- :: next_ready
SELECT * FROM (SELECT t.{group} AS lb_group FROM {table} AS t INDEXED BY {group_index}
        WHERE t.{lease_state} = 0 AND {t_bound}{key_not_null} ORDER BY t.{group} LIMIT 1)

-- :: next_busy
UNION ALL SELECT * FROM (SELECT b.{group} FROM {table} AS b INDEXED BY {busy_index} WHERE {in_state} AND {b_bound} ORDER BY b.{group} LIMIT 1)

-- :: next_paused
UNION ALL SELECT * FROM (SELECT g.group_value FROM lease_broker_group AS g
        WHERE g.queue = ?1 AND {g_bound} ORDER BY g.group_value COLLATE {collation} LIMIT 1)

-- :: head
SELECT {key}, {lease_state}, {lease_state_time}, {lease_due_time} FROM ({states}) ORDER BY {lease_state}{leased_first}, {group_order} LIMIT 1

-- :: ready
SELECT * FROM (SELECT * FROM {table} INDEXED BY {group_index} WHERE {lease_state} = 0 AND {group} = ?2{key_not_null}
        ORDER BY {group_order} LIMIT 1)

-- :: of_state
UNION ALL SELECT * FROM (SELECT b.* FROM {table} AS b INDEXED BY {busy_index}
        WHERE {busy_states} AND b.{group} = ?2 AND b.{lease_state} = {state} ORDER BY {group_order} LIMIT 1)

-- :: leases
SELECT count(*) FROM (SELECT 1 FROM {table} AS b INDEXED BY {busy_index}
    WHERE {busy_states} AND b.{group} = ?2 AND b.{lease_state} = 1 LIMIT ?4)

-- :: max_leases
SELECT group_max_leases FROM lease_broker_queue WHERE queue = ?1
