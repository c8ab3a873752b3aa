-- Purpose: the list of leases that a heartbeat or a settlement names, and the conditions on their rows. Also the time for which every
--   batch that changes leases by a list waits for a lock. This file has no statement of its own: heartbeat.sql and settle.sql
--   contain its sections, and `lock_wait` is in cancel.sql, operation.sql and release_claims.sql too.
-- Sections: `lock_wait` is the time for which a statement waits for a lock. `lease_list` is the list, as a derived table. `is_same_lease` is true if the row carries the token and the fence of
--   the lease. `is_held` is true if, in addition, the row is leased and the lease has not expired.
-- Parameters: @P1 to @P4 as in every statement with lists (sql/README.md). @P5: number of leases. @P6: JSON array of leases,
--   {i: index in the request, k1 to k3: key, t: token, f: fence} and the fields of `extra_json` in heartbeat.sql and
--   settle.sql. No lease is in the list twice.
-- Locks: the files that contain the sections name them.
-- Indexes: the key's.
-- Why FORCE ORDER and LOOP JOIN in the statements: the list drives the join, and each row is found by a seek on its key.
--   Another plan would read rows that the statement does not change, and would wait for those that others have locked.
-- Why `lock_wait`: the list has leases of several workers. If another program has locked one of the rows, the others must not wait until
--   their leases are lost. The statement fails with error 1222 instead, and the batch is rolled back. The broker then sends the list in
--   parts (src/store/mssql/parts.rs). SQL Server restores the value of the session after the batch. On Babelfish the broker does.
-- Why ROWLOCK, also on the rows that a statement changes: SQL Server may otherwise lock pages, and READPAST does not skip them.
-- Why FORCESEEK and the index of the key: a plan that is made while the table is empty may scan it, and stays. {by_key} has both
--   except on Babelfish, which looks for the index of a constraint under a wrong name, and for a key of type money, which is
--   compared as a decimal: SQL Server cannot seek it.
-- Why KEEPFIXED PLAN: the states change several times for each item, so SQL Server updates its statistics often. It would then
--   make new plans, in the middle of a batch that holds locks.
-- Why OPTIMIZE FOR (… = 1): SQL Server expects 100 rows of TOP with a variable. For more than about 25 rows a join reads ahead,
--   and so locks rows that the statement does not take, and not in the order of the list.
-- Why the list is sorted by the key: two statements that share rows lock them in the same order, and do not wait for each
--   other. SQL Server does not promise to follow this order, so a deadlock stays possible. The broker then runs the batch
--   again.
-- Why TOP (@P5): it never removes a row. A derived table can have ORDER BY only together with TOP. TOP also tells the planner
--   how few rows drive the join. Babelfish plans by cost, in spite of the hints. Without TOP it expects a long list and reads
--   the whole table.
-- Why CASE: a planner cannot match a CASE to a filtered index, so the plan always seeks by the key. Without the CASE, a planner
--   whose statistics were collected while no lease existed expects a filtered index to be empty, and starts there.
-- Why each statement reads the JSON again: this costs less than to fill a table variable and to read from that.
-- Why IF around each UPDATE and DELETE: one that changes no row would still run the triggers of the table, each second for a
--   reaper that finds nothing. A trigger that is written for one row fails then.

-- :: lock_wait
SET LOCK_TIMEOUT 500;

-- :: lease_list
(SELECT TOP (@P5) j.i AS lb_i, {key_from_json}, j.t AS lb_t, j.f AS lb_f{extra_columns}
    FROM OPENJSON(@P6) WITH (i int '$.i', {key_json_schema}, t uniqueidentifier '$.t', f bigint '$.f'{extra_json}) AS j
    ORDER BY {key_names}) AS l

-- :: is_same_lease
1 = CASE WHEN t.{lease_token} = l.lb_t AND t.{lease_fence} = l.lb_f THEN 1 END

-- :: is_held
1 = CASE WHEN t.{lease_state} = 1 AND t.{lease_token} = l.lb_t AND t.{lease_fence} = l.lb_f AND t.{lease_due_time} > @now THEN 1 END
