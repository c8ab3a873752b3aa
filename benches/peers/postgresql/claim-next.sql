-- Script of pgbench: one statement completes the item that the client claimed last and claims the next one.
--
-- The completion matches key, token and fence, as in claim-one.sql, and its result tells the client whether it was
-- applied. Without `+ 0`, the planner uses the index of all leases instead of the key, because its statistics are from
-- a table without leases. With it, the script is a tenth to a fifth faster.
--
-- `picked` counts `done`, so that the completion runs first. A claim that saw a row as ready locks it until the end of
-- its transaction, even if another client has claimed the row since. A completion that waits for such a lock while it
-- holds other locks sometimes causes a deadlock. A completion that runs first holds no locks yet, and claims never
-- wait for locks.
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
