-- Script of pgbench: claims one item, then completes it, in two transactions. The completion matches key, token and
-- fence, which is faster here than the token alone. Without `+ 0`, the planner would use the index of all leases
-- instead of the key, because its statistics are from a table without leases.
\set token random(1, 9223372036854775807)
WITH picked AS MATERIALIZED (
    SELECT id FROM items WHERE lease_state = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE items
SET lease_state = 1, lease_state_time = now(), lease_due_time = now() + interval '5 minutes',
    lease_owner = 'worker-' || :client_id, lease_token = lpad(to_hex(:token::bigint), 32, '0')::uuid,
    lease_fence = lease_fence + 1, lease_attempt = lease_attempt + 1
FROM picked
WHERE items.id = picked.id AND items.lease_state = 0
RETURNING items.id, items.lease_fence, items.lease_attempt, items.payload
\gset
UPDATE items
SET lease_state = 3, lease_state_time = now(), lease_due_time = NULL, lease_error = NULL
WHERE id = :id AND lease_state + 0 = 1 AND lease_token = lpad(to_hex(:token::bigint), 32, '0')::uuid
  AND lease_fence = :lease_fence AND lease_due_time > now();
