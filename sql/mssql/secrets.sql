-- Purpose: reads the secrets that sign lease ids, and adds one.
-- Sections: `read` and `add` are one batch each.
-- Parameters: `add`: @P1: time for which ids that the present secrets have signed stay valid, in seconds; @P2: secret.
-- Results: `read`: number, secret, age in seconds, 1 if it has retired. `add`: the number; -1 if every number is in use.
-- Locks, in order: X on the retired rows; X on the other rows; X on the new row. `read`: S on all rows.
-- Indexes: primary key. The table has at most 256 rows.
-- Why secret 0 is never deleted: lease tokens and spans are derived from it.
-- Why no lock keeps two rotations apart: both would add the same number, and the second fails with a duplicate key.

-- :: read
/* lease-broker read secrets */
SELECT s.id AS lb_n, s.secret AS lb_secret, DATEDIFF(second, s.made_time, SYSUTCDATETIME()) AS lb_age,
    CASE WHEN s.retire_time <= SYSUTCDATETIME() THEN 1 ELSE 0 END AS lb_retired
FROM lease_broker_secret AS s;

-- :: add
/* lease-broker rotate secrets */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME();
DECLARE @retire datetime2(3) = DATEADD(second, @P1, @now), @id int;
BEGIN TRANSACTION;
DELETE FROM lease_broker_secret WHERE id > 0 AND retire_time <= @now;
UPDATE lease_broker_secret SET retire_time = @retire WHERE retire_time IS NULL OR retire_time > @retire;
SELECT @id = MIN(s.id) + 1
FROM lease_broker_secret AS s
WHERE s.id < 255 AND NOT EXISTS (SELECT 1 FROM lease_broker_secret AS n WHERE n.id = s.id + 1);
IF @id IS NOT NULL
    INSERT lease_broker_secret (id, secret, made_time) VALUES (@id, @P2, @now);
COMMIT TRANSACTION;
SELECT ISNULL(@id, -1) AS lb_n;
