-- Script of pgbench: claims a batch of items, then completes all items with the claim's token, in two transactions.
-- BATCH is replaced by a number before the run, because a planner that does not know the limit may not use the ready
-- index.
\set token random(1, 9223372036854775807)
WITH picked AS MATERIALIZED (
    SELECT id FROM items WHERE lease_state = 0 ORDER BY id LIMIT BATCH FOR UPDATE SKIP LOCKED
)
UPDATE items
SET lease_state = 1, lease_state_time = now(), lease_due_time = now() + interval '5 minutes',
    lease_owner = 'worker-' || :client_id, lease_token = lpad(to_hex(:token::bigint), 32, '0')::uuid,
    lease_fence = lease_fence + 1, lease_attempt = lease_attempt + 1
FROM picked
WHERE items.id = picked.id AND items.lease_state = 0
RETURNING items.id, items.lease_fence, items.lease_attempt, items.payload;
UPDATE items
SET lease_state = 3, lease_state_time = now(), lease_due_time = NULL, lease_error = NULL
WHERE lease_token = lpad(to_hex(:token::bigint), 32, '0')::uuid AND lease_state = 1 AND lease_due_time > now();
