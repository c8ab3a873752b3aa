-- Purpose: let claims take turns in a queue that has groups or limits: read and write the turn, count leases, find the groups
--   whose items can be leased.
-- Sections: `read_row` and `write_row` read and write the row of the queue. `count_leased` counts leases for the limit of the
--   queue. A claim on a queue with groups walks from group to group. A `visit_…` returns the first ready item of the next
--   group, the group, and `strict_block` or `parallel_block`: `visit_first` begins, `visit_after` goes on behind ?2,
--   `visit_until` begins and ends with ?3, `visit_between` goes on and ends with ?3, and `visit_one` returns the group ?2
--   itself. `is_first` tells whether the first ready item of the group ?2 comes before its delayed items, and before its dead
--   ones if the queue halts at them. `pick_of_group` and `pick_without_group` return the first ready items of a group, and
--   those without one. `read_head` reads an item that was found. `find_group` returns the group of an item, and `is_of_group`
--   tells whether it is ?4. If groups have a rate, `read_rate` and `write_rate` read and write the theoretical arrival time of
--   a group, `forget_rates` deletes those that have passed, and `bound_rates` brings back those that a step of the clock has
--   left in the future. If operators have paused groups, `end_pauses` and `count_paused` remove pauses that have ended, and
--   `is_paused` tells whether the group of an item is paused. `read_policy` is for `schema plan` and `schema check`. `fill_row` runs when a broker
--   starts. It gives the row the policy and the limits that it does not have yet. `set_limits` is the change of an operator.
-- Parameters: ?1 queue; ?2 and ?3 groups; ?4 a number of rows, or the maximum number of leases of a group. `read_head`,
--   `find_group`, `is_of_group` and `is_paused`: ?1 to ?3 key values. `end_pauses`: ?2 now (ms since 1970). `write_rate`: ?3
--   the arrival (µs since 1970). `bound_rates`: ?2 the latest arrival (µs). `forget_rates`: ?2 now (µs); ?3 a number of rows.
--   `fill_row` and `set_limits`: ?2 policy; ?3 to ?10 limits. A limit of 0 is no limit. NULL: it is missing, or not changed.
-- Locks: the write lock of the file, so claims take turns.
-- Indexes: group (visits, picks), busy (blocks), token (count_leased), key (read_head). Without filtered indexes the group index
--   serves for the busy one, and the due index for the token one.
-- Why {except_suspects} is in the visits and in `pick_of_group` only without order: a suspect that begins a strict group holds back
--   the items behind it. The walk passes such a group over.
-- Why a statement per visit, and no recursive one: each visit costs two seeks, about as much as to run it. SQLite has no round
--   trips.
-- Why `is_paused` compares with the row of an item: a comparison with a column has its collation and its type. The key of
--   lease_broker_group serves only if the collation is BINARY. Otherwise all paused groups of the queue are compared, at most
--   1,000.
-- Why a block is a number: 1 holds the group back, and 2 can. Strict groups: 1, an item is leased; 2, one is delayed (or dead),
--   perhaps behind the first ready one. Parallel groups: the number of leases, counted up to ?4.
-- Why `is_first` compares whole rows by ORDER BY: the order can have several columns, directions and NULLs.
-- Why {busy_states} has the words of the index: SQLite uses a filtered index only if the condition has the terms of its filter.

-- :: read_row
SELECT policy, turn, round_start, round_wrapped, arrival, max_leases, rate_items, rate_micros, rate_burst, group_max_leases,
    group_rate_items, group_rate_micros, group_rate_burst, paused_groups
FROM lease_broker_queue
WHERE queue = ?1

-- :: write_row
UPDATE lease_broker_queue SET turn = ?2, round_start = ?3, round_wrapped = ?4, arrival = ?5 WHERE queue = ?1

-- :: count_leased
SELECT count(*) FROM (SELECT 1 FROM {table} INDEXED BY {state_index} WHERE {lease_state} = 1 LIMIT ?4)

-- :: strict_block
CASE WHEN EXISTS (SELECT 1 FROM {table} AS b INDEXED BY {busy_index}
        WHERE {busy_states} AND b.{group} = t.{group} AND b.{lease_state} = 1) THEN 1
    WHEN EXISTS (SELECT 1 FROM {table} AS b INDEXED BY {busy_index}
        WHERE {busy_states} AND b.{group} = t.{group} AND b.{lease_state} IN ({behind_states})) THEN 2
    ELSE 0 END

-- :: parallel_block
(SELECT count(*) FROM (SELECT 1 FROM {table} AS b INDEXED BY {busy_index}
        WHERE {busy_states} AND b.{group} = t.{group} AND b.{lease_state} = 1 LIMIT ?4))

-- :: visit
SELECT {t_key}, t.{group}, {block}
FROM {table} AS t INDEXED BY {group_index}
WHERE t.{lease_state} = 0 AND {bounds}{key_not_null}{except_suspects}
ORDER BY t.{group}, {t_group_order}
LIMIT 1

-- :: visit_first
t.{group} IS NOT NULL

-- :: visit_after
t.{group} > ?2

-- :: visit_until
t.{group} <= ?3

-- :: visit_between
t.{group} > ?2 AND t.{group} <= ?3

-- :: visit_one
t.{group} = ?2

-- :: is_first
SELECT lb_state
FROM (SELECT * FROM (SELECT {lease_state} AS lb_state, {order_columns} FROM {table} INDEXED BY {group_index}
        WHERE {lease_state} = 0 AND {group} = ?2{key_not_null} ORDER BY {group_order} LIMIT 1){first_behind})
ORDER BY {group_order}
LIMIT 1

-- :: first_behind
UNION ALL SELECT * FROM (SELECT b.{lease_state} AS lb_state, {order_columns} FROM {table} AS b INDEXED BY {busy_index}
        WHERE {busy_states} AND b.{group} = ?2 AND b.{lease_state} = {behind_state} ORDER BY {group_order} LIMIT 1)

-- :: end_pauses
DELETE FROM lease_broker_group WHERE queue = ?1 AND paused_until <= ?2

-- :: count_paused
UPDATE lease_broker_queue SET paused_groups = (SELECT count(*) FROM lease_broker_group AS g WHERE g.queue = ?1) WHERE queue = ?1

-- :: is_paused
SELECT 1 FROM {table} AS t
WHERE {key_match}
    AND EXISTS (SELECT 1 FROM lease_broker_group AS g WHERE g.queue = {queue_literal} AND t.{group} = g.group_value)

-- :: pick_of_group
SELECT {key} FROM {table} INDEXED BY {group_index}
WHERE {lease_state} = 0 AND {group} = ?2{key_not_null}{except_suspects}
ORDER BY {group_order}
LIMIT ?4

-- :: pick_without_group
SELECT {key} FROM {table} INDEXED BY {group_index}
WHERE {lease_state} = 0 AND {group} IS NULL{key_not_null}{except_suspects}
ORDER BY {group_order}
LIMIT ?4

-- :: read_head
SELECT {key}, {lease_state_time}{item_columns}
FROM {table}
WHERE {key_match} AND {lease_state} = 0{except_suspects}

-- :: find_group
SELECT {group} FROM {table} WHERE {key_match}

-- :: is_of_group
SELECT 1 FROM {table} WHERE {key_match} AND {group} = ?4

-- :: bound_rates
UPDATE lease_broker_group_rate SET arrival = ?2 WHERE queue = ?1 AND arrival > ?2

-- :: read_rate
SELECT arrival FROM lease_broker_group_rate WHERE queue = ?1 AND group_value = ?2

-- :: write_rate
INSERT INTO lease_broker_group_rate (queue, group_value, arrival) VALUES (?1, ?2, ?3)
ON CONFLICT (queue, group_value) DO UPDATE SET arrival = excluded.arrival

-- :: forget_rates
DELETE FROM lease_broker_group_rate
WHERE (queue, group_value) IN (SELECT r.queue, r.group_value FROM lease_broker_group_rate AS r
    WHERE r.queue = ?1 AND r.arrival <= ?2 ORDER BY r.arrival LIMIT ?3)

-- :: set_limits
UPDATE lease_broker_queue
SET max_leases = COALESCE(?3, max_leases), rate_items = COALESCE(?4, rate_items),
    rate_micros = CASE WHEN ?4 IS NULL THEN rate_micros ELSE ?5 END, rate_burst = CASE WHEN ?4 IS NULL THEN rate_burst ELSE ?6 END,
    group_max_leases = COALESCE(?7, group_max_leases), group_rate_items = COALESCE(?8, group_rate_items),
    group_rate_micros = CASE WHEN ?8 IS NULL THEN group_rate_micros ELSE ?9 END,
    group_rate_burst = CASE WHEN ?8 IS NULL THEN group_rate_burst ELSE ?10 END
WHERE queue = ?1

-- :: read_policy
SELECT policy FROM lease_broker_queue WHERE queue = ?1

-- :: fill_row
INSERT INTO lease_broker_queue (queue, policy, max_leases, rate_items, rate_micros, rate_burst, group_max_leases,
    group_rate_items, group_rate_micros, group_rate_burst)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (queue) DO UPDATE SET policy = COALESCE(policy, excluded.policy), max_leases = COALESCE(max_leases, excluded.max_leases),
    rate_items = COALESCE(rate_items, excluded.rate_items),
    rate_micros = CASE WHEN rate_items IS NULL THEN excluded.rate_micros ELSE rate_micros END,
    rate_burst = CASE WHEN rate_items IS NULL THEN excluded.rate_burst ELSE rate_burst END,
    group_max_leases = COALESCE(group_max_leases, excluded.group_max_leases),
    group_rate_items = COALESCE(group_rate_items, excluded.group_rate_items),
    group_rate_micros = CASE WHEN group_rate_items IS NULL THEN excluded.group_rate_micros ELSE group_rate_micros END,
    group_rate_burst = CASE WHEN group_rate_items IS NULL THEN excluded.group_rate_burst ELSE group_rate_burst END
