-- Purpose: lists the groups of a queue, page by page.
-- Sections: `list` is one batch. It goes from group to group by `next`, without and with a lower bound, which contains
--   `next_ready`, and `next_busy` once or per state. Then it reads the item that decides about the state of each group, by
--   `of_state` per state.
-- Parameters: @P1: queue. @P2: group, as text. @P3: 1 if the page begins behind @P2, or 0. @P4: number of groups to look at. @P5:
--   maximum of the count of leases.
-- Results: 1. the server's time, and the limit of leases of a group or NULL. 2. For each group: its name, its leases, the pause
--   (time, end, caller, reason), and the item: state, time of the state, due time and key. All NULL if there is none.
-- Locks: none; READUNCOMMITTED. S on the row of the queue and on its paused groups, one at a time.
-- Indexes: group (ready items), busy (others). Without filtered indexes the group index serves for both. Each group takes a few
--   seeks.
-- Why READUNCOMMITTED: an operator looks, and waits for no program.
-- Why the paused groups are read first: a login that may not see the table lists the groups without their pauses.
-- Why `next_busy` once per state without filtered indexes: the state leads the index then, so only one state can be sought in.
-- Why `next_busy` has no FORCESEEK: without a lower bound nothing is sought in a column that cannot be NULL, and the hint would be
--   refused.
-- Why a strict group's lease decides before its first item: one item of it is leased at a time, whichever that is.

-- :: list
/* lease-broker list groups {queue_comment} */
SET NOCOUNT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @now datetime2(3) = SYSUTCDATETIME(), @group {group_variable}, @at {group_variable} = {given_group}, @has_bound int = @P3, @count int = 0,
    @group_max_leases int;
DECLARE @paused_group TABLE ({group_declaration}, lb_since datetime2(3) NULL, lb_due datetime2(3) NULL, lb_w nvarchar(2048) NULL,
    lb_error nvarchar(2048) NULL);
DECLARE @listed TABLE (lb_p int NOT NULL PRIMARY KEY, {group_declaration});
IF OBJECT_ID(N'lease_broker_queue') IS NOT NULL
    SELECT @group_max_leases = q.group_max_leases FROM lease_broker_queue AS q WHERE q.queue = @P1;
IF OBJECT_ID(N'lease_broker_group') IS NOT NULL
    INSERT @paused_group (lb_group, lb_since, lb_due, lb_w, lb_error)
    SELECT {stored_group}, g.pause_time, g.paused_until, g.pause_actor, g.pause_reason
    FROM lease_broker_group AS g
    WHERE g.queue = @P1 AND (g.paused_until IS NULL OR g.paused_until > @now);
WHILE @count < @P4
BEGIN
    SET @group = NULL;
    IF @has_bound = 0
        {next_first}
    ELSE
        {next_after}
    IF @group IS NULL BREAK;
    SELECT @at = @group, @has_bound = 1, @count = @count + 1;
    INSERT @listed (lb_p, lb_group) VALUES (@count, {group_value});
END;
SELECT @now AS lb_now, @group_max_leases AS lb_n;
SELECT l.lb_group, (SELECT COUNT(*) FROM (SELECT TOP (@P5) 1 AS lb_one FROM {table} AS t WITH (READUNCOMMITTED{busy_hint})
            WHERE {t_busy_states} AND t.{group} = l.lb_group AND t.{lease_state} = 1) AS c) AS lb_leases,
    p.lb_since AS lb_pause_time, p.lb_due AS lb_until, p.lb_w, p.lb_error, h.lb_state, h.lb_since, h.lb_due, {h_key_names}
FROM @listed AS l
    LEFT JOIN @paused_group AS p ON p.lb_group = l.lb_group
    OUTER APPLY (SELECT TOP (1) f.* FROM ({states}) AS f ORDER BY {head_order}) AS h
ORDER BY l.lb_p;

-- :: next
SELECT TOP (1) @group = n.lb_group
        FROM ({next_ready}{next_busy}
            UNION ALL SELECT * FROM (SELECT TOP (1) p.lb_group FROM @paused_group AS p WHERE {p_bound} ORDER BY p.lb_group) AS np) AS n
        ORDER BY n.lb_group;

-- :: next_ready
SELECT * FROM (SELECT TOP (1) t.{group} AS lb_group FROM {table} AS t WITH (READUNCOMMITTED{group_hint})
            WHERE t.{lease_state} = 0 AND {t_bound}{key_not_null} ORDER BY t.{group}) AS nr

-- :: next_busy
UNION ALL SELECT * FROM (SELECT TOP (1) t.{group} AS lb_group FROM {table} AS t WITH (READUNCOMMITTED{busy_list_hint})
            WHERE {in_state} AND {t_bound} ORDER BY t.{group}) AS nb{number}

-- :: ready
SELECT * FROM (SELECT TOP (1) CONVERT(int, t.{lease_state}) AS lb_state, t.{lease_state_time} AS lb_since, t.{lease_due_time} AS lb_due,
                {t_key_as_names}, {t_order_columns}
            FROM {table} AS t WITH (READUNCOMMITTED{group_seek_hint})
            WHERE t.{lease_state} = 0 AND t.{group} = l.lb_group{key_not_null} ORDER BY {t_group_order}) AS r0

-- :: of_state
UNION ALL SELECT * FROM (SELECT TOP (1) CONVERT(int, t.{lease_state}) AS lb_state, t.{lease_state_time} AS lb_since,
                t.{lease_due_time} AS lb_due, {t_key_as_names}, {t_order_columns}
            FROM {table} AS t WITH (READUNCOMMITTED{busy_hint})
            WHERE {t_busy_states} AND t.{group} = l.lb_group AND t.{lease_state} = {state} ORDER BY {t_group_order}) AS r{state}
