-- One item: complete what this client claimed last and claim the next, one statement; pgbench runs it. Completion is by
-- key, token and fence, as in claim-one.sql, and the client learns whether it held. `+ 0` keeps the planner, which knows a
-- table without leases, from walking an index of all leases instead of the key: a tenth to a fifth faster here.
--
-- `picked` counts `done` so that completion comes first. A claim that saw a row as ready locks it even if another client has
-- claimed it since, till the claim's transaction ends; a completion that waits for such a lock while it holds others is
-- now and then part of a deadlock. Completion that comes first holds none yet, and claims wait for no lock.
\set last :token
\set token random(1, 9223372036854775807)
WITH done AS (
    UPDATE items
    SET lease_state = 3, lease_state_time = now(), lease_due_time = NULL, lease_error = NULL
    WHERE id = :id AND lease_state + 0 = 1 AND lease_token = lpad(to_hex(:last::bigint), 32, '0')::uuid
      AND lease_fence = :lease_fence AND lease_due_time > now()
    RETURNING id
), picked AS MATERIALIZED (
    SELECT id FROM items WHERE lease_state = 0 AND (SELECT count(*) FROM done) >= 0 ORDER BY id LIMIT 1
    FOR UPDATE SKIP LOCKED
)
UPDATE items
SET lease_state = 1, lease_state_time = now(), lease_due_time = now() + interval '5 minutes',
    lease_owner = 'worker-' || :client_id, lease_token = lpad(to_hex(:token::bigint), 32, '0')::uuid,
    lease_fence = lease_fence + 1, lease_attempt = lease_attempt + 1
FROM picked
WHERE items.id = picked.id AND items.lease_state = 0
RETURNING items.id, items.lease_fence, items.lease_attempt, items.payload, (SELECT count(*) FROM done) AS completed
\gset
