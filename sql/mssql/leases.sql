-- No statement, but a part of settle.sql and heartbeat.sql: the leases that a list names, each with its row.
-- Parameters: @P1 to @P4 as for every list, @P5 how many there are; @P6, a JSON array of {i: place, k1 to k3: key, t: token,
--   f: fence} and what those files add; no lease twice.
-- The list drives and each row is sought by its key (FORCE ORDER, LOOP JOIN), so that nothing waits for a row that it does not
--   change. It is sorted by the key, so that two lists lock the rows that they share in one order and never wait for each other.
-- TOP (@P5) leaves no row out. It lets the list be sorted, and tells an engine that plans by cost whatever the hints say, as
--   Babelfish does, how few rows drive the join: it would take the list for a large one, and read the whole table.
-- What is asked of a row stands in a CASE, so that no plan begins with one of the filtered indexes instead of the key: to a
--   planner whose statistics are of a moment without leases it looks empty.
-- The JSON is read by each statement anew, which costs less than a table variable to keep it in.

-- :: lease_list
(SELECT TOP (@P5) j.i AS lb_i, {key_from_json}, j.t AS lb_t, j.f AS lb_f{extra_columns}
    FROM OPENJSON(@P6) WITH (i int '$.i', {key_json_schema}, t uniqueidentifier '$.t', f bigint '$.f'{extra_json}) AS j
    ORDER BY {key_names}) AS l

-- :: is_same_lease
1 = CASE WHEN t.{lease_token} = l.lb_t AND t.{lease_fence} = l.lb_f THEN 1 END

-- :: is_held
1 = CASE WHEN t.{lease_state} = 1 AND t.{lease_token} = l.lb_t AND t.{lease_fence} = l.lb_f AND t.{lease_due_time} > @now THEN 1 END
