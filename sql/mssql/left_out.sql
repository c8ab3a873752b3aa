-- Purpose: leaves out the rows that the server does not let a claim lease, because a constraint or a trigger refuses the change.
-- Sections: `leave_out` and `is_left_out` are parts of `choose_share` in suspects.sql. So a claim leaves rows out as it does suspects. `pick_one`
--   is a batch of its own. The broker sends it after a claim of one item was refused: it picks as the claim and leases nothing.
-- Parameters: those of claim.sql. {left_out_list}: JSON array of the rows that are left out, with the values of the key and f, the
--   fencing token.
-- Results: `pick_one`: fencing token and key of the item that a claim of one item would lease.
-- Locks, indexes: `pick_one`: those of a claim. ROLLBACK releases them.
-- Why the broker has the list, and not the database: it is a guess that lasts for a minute. If the row is mended, or another broker picks
--   between the claim and `pick_one`, the item only waits for that time.
-- Why the fencing token: a row that was leased since is not left out.
-- Why a batch for each call: the server undoes the whole batch and does not tell the row that it refuses. So the broker asks for fewer
--   items until one is left.

-- :: leave_out
DECLARE @has_left_out int = 0;
DECLARE @left_out TABLE ({key_declarations}, lb_f bigint NOT NULL, PRIMARY KEY NONCLUSTERED ({key_names}, lb_f));
INSERT @left_out ({key_names}, lb_f)
SELECT {key_from_json}, j.f
FROM OPENJSON({left_out_list}) WITH (f bigint '$.f', {key_json_schema}) AS j;
IF EXISTS (SELECT 1 FROM @left_out) SET @has_left_out = 1;

-- :: is_left_out
EXISTS (SELECT 1 FROM @left_out AS p WHERE {join_picked_on_key} AND p.lb_f >= t.{lease_fence})

-- :: pick_one
/* lease-broker pick {queue_comment} */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
DECLARE @lock_deadline datetime2(3) = DATEADD(second, 5, @now);
BEGIN TRANSACTION;
DECLARE @total int = (SELECT COALESCE(SUM(j.n), 0) FROM OPENJSON(@P6) WITH (n int '$.n') AS j);
DECLARE @picked TABLE (lb_p int NOT NULL PRIMARY KEY, {key_declarations}, lb_f bigint NOT NULL, lb_since datetime2(3) NULL{turn_column});
{claim_lock}{hold_claims}
{pick_ready}
SELECT k.lb_f, {k_key_values} FROM @picked AS k;
ROLLBACK TRANSACTION;
