-- Purpose: list items of one state, those that have been in it longest first.
-- Sections: `list_dead` for dead items; `list_completed` for completed items; `list_by_index` for ready, leased and delayed
--   items.
-- Parameters: ?1 maximum number of rows.
-- Locks: none; a read in WAL mode does not wait for a writer.
-- Indexes: dead (list_dead), whose order is that of the list; the index of the state (list_by_index). `list_completed` reads
--   and sorts the whole table, because no filtered index has the completed items.
-- Why `list_by_index` sorts only the first 10000 items of the index (or the first ?1, if that is more): otherwise the cost would
--   grow with the table. The index has another order than the list: ready items have the queue's order, leases the order of
--   their tokens, delayed items that of their due times. So the list of a larger state can miss the oldest items. The due index
--   holds leases too; a list of delayed items reads and skips those that are due earlier.
-- Why the state is a literal and not a parameter: SQLite uses a filtered index only if the text of the statement proves that all
--   rows that it asks for are in the index.

-- :: list_by_index
SELECT *
FROM (SELECT {key}, {lease_owner}, {lease_state_time}, {lease_due_time}, {lease_attempt}, {lease_fence}, {lease_error}
    FROM {table} INDEXED BY {state_index}
    WHERE {lease_state} {index_states} AND {lease_state} = {state}
    LIMIT max(?1, 10000))
ORDER BY {lease_state_time}, {key}
LIMIT ?1

-- :: list_dead
SELECT {key}, {lease_owner}, {lease_state_time}, {lease_due_time}, {lease_attempt}, {lease_fence}, {lease_error}
FROM {table} INDEXED BY {dead_index}
WHERE {lease_state} = 4
ORDER BY {lease_state_time}
LIMIT ?1

-- :: list_completed
SELECT {key}, {lease_owner}, {lease_state_time}, {lease_due_time}, {lease_attempt}, {lease_fence}, {lease_error}
FROM {table}
WHERE {lease_state} = 3
ORDER BY {lease_state_time}, {key}
LIMIT ?1
