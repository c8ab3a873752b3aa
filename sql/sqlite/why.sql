-- Purpose: find out why an item is not being claimed. Operators run it by hand.
-- Sections: `read_row` returns the row with the key. If the item is ready, `find_ready` returns the keys of the items that claims take
--   first; the place of the item among them is the number of items ahead. If there is no row, `same_group` is a part of it in a queue with groups.
--   `find_null_key` looks for rows that
--   have no key. `find_broker_table` looks for the list of the brokers, which `read_live` in instance.sql reads.
-- Parameters: ?1 to ?3 key values; ?4 maximum number of rows.
-- Locks: none; a read in WAL mode does not wait for a writer. The sections run in one read transaction, so that they see the same
--   data.
-- Indexes: key (read_row), ready (find_ready), in its order. `find_null_key` reads the whole table if no index begins with a column
--   of the key that can be NULL.
-- Why `find_ready` has the conditions and the order of `pick_ready` in claim.sql: the count must be that of a claim.
-- Why {same_group}: only the items of its own group come before an item. Groups take turns.
-- Why the items ahead are not counted by a comparison with the item's columns: the order can have several columns with different
--   directions, and NULLs. A read of the index in its order needs no comparison, and ?4 limits its cost.

-- :: read_row
SELECT {key}, {lease_state}, {lease_owner}, {lease_state_time}, {lease_due_time}, {lease_attempt}, {lease_fence}, {lease_error},
    {lease_token} IS NULL
FROM {table}
WHERE {key_match}

-- :: find_ready
SELECT {key}
FROM {table} INDEXED BY {ready_index}
WHERE {lease_state} = 0{key_not_null}{same_group}
{order_by}
LIMIT ?4

-- :: same_group
AND {group} IS (SELECT g.{group} FROM {table} AS g WHERE {g_key_match})

-- :: find_null_key
SELECT 1 FROM {table} WHERE {key_is_null} LIMIT 1

-- :: find_broker_table
SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'lease_broker_instance'
