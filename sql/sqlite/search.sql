-- Purpose: find items of one state that fit a filter, page by page, and read single items for operators.
-- Sections: `search` is the statement of a page. {match} is 1, or an AND of the sections that begin with `fits_`. {walk} is the index of
--   the state with its condition, and {after} one of the sections that begin with `after_`, or empty. `read_item` reads one item
--   without its columns, `read_record` with them.
-- Parameters: ?1 to ?3 key values; ?4 time of the last row of the page before, or of an item (ms since 1970); ?5 maximum number of
--   rows to look at; ?6 owner; ?7 part of the error; ?8 first time and ?9 time after the last one (ms since 1970); ?10 least number of
--   attempts; ?11 time at which an operation was stored; ?12 now (ms since 1970); ?13 and following: the values of columns.
-- Locks: none.
-- Indexes: dead, for dead items; due, for leased and delayed ones; ready, for ready items of a queue whose order is that of the key. For
--   others the key.
-- Why `fits_not_since` accepts a time after now: the clock was put back since (operation.sql).
-- Why the program counts the rows and not the statement: it stops when the page is full, and then knows the row at which it stopped.

-- :: search
SELECT {key}, {lease_state}, {lease_owner}, {lease_state_time}, {lease_due_time}, {lease_attempt}, {lease_fence}, {lease_error}, {match}
FROM {table}{walk}{key_not_null}{after}
ORDER BY {search_order}
LIMIT ?5

-- :: after_time
 AND ({search_time}, {key}) {beyond} (?4, {key_parameters})

-- :: after_no_time
 AND ({search_time} IS NULL AND ({key}) > ({key_parameters}) OR {search_time} IS NOT NULL)

-- :: after_key
 AND ({key}) > ({key_parameters})

-- :: since
 AND {lease_state_time} >= ?8

-- :: before
 AND {lease_state_time} < ?9

-- :: fits_state
{lease_state} = {state}

-- :: fits_owner
{lease_owner} = ?6

-- :: fits_error
instr({lease_error}, ?7) > 0

-- :: fits_since
{lease_state_time} >= ?8 AND {lease_state_time} > 0

-- :: fits_before
{lease_state_time} < ?9 AND {lease_state_time} > 0

-- :: fits_attempt
{lease_attempt} >= ?10

-- :: fits_not_since
({lease_state_time} > ?11 AND {lease_state_time} <= ?12) IS NOT TRUE

-- :: read_item
SELECT {key}, {lease_state}, {lease_owner}, {lease_state_time}, {lease_due_time}, {lease_attempt}, {lease_fence}, {lease_error}, 1
FROM {table}
WHERE {key_match}

-- :: read_record
SELECT {key}, {lease_state}, {lease_owner}, {lease_state_time}, {lease_due_time}, {lease_attempt}, {lease_fence}, {lease_error},
    {trace_parent}, {checkpoint_bytes}{data_columns}
FROM {table}
WHERE {key_match}
