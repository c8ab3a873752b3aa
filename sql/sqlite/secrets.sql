-- Purpose: reads the secrets that sign lease ids, and adds one.
-- Sections: `read`. `delete_retired`, `retire` and `add` are one transaction.
-- Parameters: `read`, `delete_retired`: ?1 now (ms since 1970). `retire`: ?1 time until which ids that the present secrets have
--   signed are valid (ms since 1970). `add`: ?1 secret; ?2 now (ms since 1970).
-- Results: `read`: number, secret, age (ms), 1 if it has retired. `add`: the number; no row if every number is in use.
-- Locks: the write lock of the file; none (`read`).
-- Indexes: none. The table has at most 256 rows.
-- Why secret 0 is never deleted: lease tokens and spans are derived from it.

-- :: read
SELECT id, secret, ?1 - made_time, retire_time IS NOT NULL AND retire_time <= ?1
FROM lease_broker_secret

-- :: delete_retired
DELETE FROM lease_broker_secret
WHERE id > 0 AND retire_time <= ?1

-- :: retire
UPDATE lease_broker_secret
SET retire_time = ?1
WHERE retire_time IS NULL OR retire_time > ?1

-- :: add
INSERT INTO lease_broker_secret (id, secret, made_time)
SELECT s.id + 1, ?1, ?2
FROM lease_broker_secret AS s
WHERE s.id < 255 AND NOT EXISTS (SELECT 1 FROM lease_broker_secret AS n WHERE n.id = s.id + 1)
ORDER BY s.id
LIMIT 1
RETURNING id
