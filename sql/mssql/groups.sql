-- Purpose: lets claims take turns in a queue that has groups or limits. A claim on such a queue contains most sections.
-- Sections: in the claim, `take_turn` stands in place of `hold_claims` of pause.sql. It takes the turn, reads the row of the
--   queue and counts what the limits allow; with groups it contains `declare_walk`. `walk` stands in place of `pick_ready`: it
--   goes from group to group, by the sections `visit_…`, notes the first item of each (`head_of_group`), and then locks the items. It contains `strict_size` or
--   `parallel_size`, which tell how many items of a group can be leased, and `give_more` for groups that can give several.
--   `first_of_group` returns the state of the first item of a group that is ready or holds others back. `read_paused_groups` reads
--   the groups that operators have paused, if the row of the queue says that there are some, and removes pauses that have ended.
--   `end_turn` writes the row back before COMMIT, and `tell_limits` tells the broker why there are no more leases. If groups have
--   a rate, `rate_size` asks for the tokens of a group, and `charge_groups` counts what each group was given. `next_in_turn` and
--   `end_of_groups` are the steps of the walk. If groups may burst, `declare_burst`, `begin_burst` and `end_burst` keep for each
--   group how many items it can give beyond its limit, and `exceed_limits` takes them if no group can give more within its own. In
--   the claim of a call that names groups, `declare_given`, `begin_given` and `next_given` stand in their place: it visits these
--   groups and takes no turn. While there are suspects, a walk leaves them out, and with `except_heads` also strict groups that begin
--   with one. `suspect_is_free`, which contains `or_overdue` if groups may burst, and `suspect_is_given` are conditions of
--   suspects.sql. `tell_busy_suspects` stands at the end of its `choose_share`: if no suspect is free, groups can be the reason. `set_policy`, in adopt.sql, `fill_row` and `set_limits` are batches of their own: the broker runs `fill_row` when
--   it starts, and `set_limits` is the change of an operator. Both contain `read_row`.
-- Parameters: those of claim.sql. `declare_given`: @P7: JSON array of groups, {n: number, g: group as text}. `fill_row`: @P1:
--   queue. @P2: policy; empty: claims take no turns. @P3 to @P10: limits as text; empty: missing. `set_limits`: @P1: queue. @P2 to @P9: limits; empty: not
--   changed.
-- Results: `tell_limits`: a row with lb_limited (max_leases, rate, busy or an empty text), the microseconds until the next
--   token, whether the walk was cut, the number of groups that it has looked at, and the microseconds that the claim waited for the
--   row of the queue. `fill_row`, `set_limits`: the policy and the limits of the row.
-- Locks, in order: X on the row of the queue until COMMIT. S on its paused groups, and X on those whose pause has ended. X on
--   the rates of the groups that were given items, and on those that are deleted. S for a moment on leases of the queue (limit of
--   leases), and on leased, delayed and dead items of the groups that are visited. U on the items that are leased; READPAST skips
--   those that others have locked.
-- Indexes: token (limit of leases), group (visits), busy (sizes), the key (locks). Without filtered indexes the group index
--   serves for the busy one.
-- Why the row of the queue is updated first: every engine makes a second claim wait at an update, also one that ignores lock
--   hints. So no two claims look at a group at the same time, and they cannot deadlock over rows. A claim that waits in vain fails
--   with 1222.
-- Why paused groups are read after the row of the queue was updated: a pause of a group updates that row too. So a claim that
--   begins after the answer sees the pause, also on an engine that ignores lock hints.
-- Why the paused groups are put into a table with the column's type and collation: equal is what the column calls equal.
-- Why the first ready item is found without READPAST and then locked: a claim that skips a locked item would lease the next one of
--   the group, out of order. If the item is locked by another program, its group gives nothing this time.
-- Why READUNCOMMITTED in visits: they wait for no other program. An item that is not committed is locked, so it is not leased.
-- Why sizes are read with locks: a settlement that has not committed can still be rolled back.
-- Why items of a burst get places from 10000 on: they come after all others, and take no turn. If there are no others, they begin
--   at 0, so that groups take turns in a burst too.
-- Why a walk that found too few items also looks at the groups that it served: other calls of the batch get nothing, and the reason is
--   that these groups hold further items back.
-- Why U+FDD0 in the error: see pause.sql.
-- Why @now is read again after the row was updated: the wait can last seconds.
-- Why {busy_states} has the words of the index: a planner whose statistics know of no leases would otherwise choose an index that
--   is not sorted by group, and read all of it in each visit.
-- Why the first visit of a round has no lower bound: NULL sorts before all groups and names none.
-- Why `first_of_group` compares whole rows by ORDER BY: the order can have several columns, directions and NULLs.
-- Why the rate of a group is found by a hash: its name can be longer than an index allows. Names that the column calls equal and
--   that differ only in accents have different hashes, so each has a rate of its own.
-- Why `charge_groups` joins the table: the items can also come from `give_more` or from the list of suspects.
-- Why the rate is one number, the theoretical arrival time: see src/model/rate.rs. It is in microseconds since 2000. One that a step
--   of the clock has left too far in the future is stored anew at once. Otherwise the rate would wait until the clock is there again.

-- :: take_turn
DECLARE @pause_mode int, @pause_until datetime2(3), @paused int = 0, @policy nvarchar(400), @max_leases bigint, @rate_items bigint,
    @rate_micros bigint, @rate_burst bigint, @arrival bigint, @clock bigint, @latest bigint, @tokens bigint, @left bigint, @wait bigint = 0,
    @limited varchar(16) = '', @group_wait bigint, @is_cut int = 0, @visits int = 0, @given int = 0, @asked datetime2 = SYSUTCDATETIME(),
    @turn_wait bigint;{declare_walk}{declare_run}
UPDATE lease_broker_queue SET claims = claims + 1 WHERE queue = {queue_literal};
SELECT @pause_mode = q.pause_mode, @pause_until = q.pause_until, @policy = q.policy, @max_leases = q.max_leases,
    @rate_items = q.rate_items, @rate_micros = q.rate_micros, @rate_burst = q.rate_burst, @arrival = q.arrival{read_walk}
FROM lease_broker_queue AS q
WHERE q.queue = {queue_literal};
SET @policy = COALESCE(@policy, N'not set');
IF @policy COLLATE Latin1_General_100_BIN2 <> {policy}
BEGIN
    SET @policy = REPLACE(@policy COLLATE Latin1_General_100_BIN2, N'%', NCHAR(64976));
    THROW 51227, @policy, 1;
END;
SELECT @now = SYSUTCDATETIME(), @clock = DATEDIFF_BIG(microsecond, '2000-01-01', SYSUTCDATETIME()),
    @turn_wait = DATEDIFF_BIG(microsecond, @asked, SYSUTCDATETIME());
IF @max_leases > 0
    SELECT @left = CASE WHEN l.lb_n < @max_leases THEN @max_leases - l.lb_n ELSE 0 END, @limited = 'max_leases'
    FROM (SELECT COUNT(*) AS lb_n
        FROM (SELECT TOP (@max_leases) 1 AS lb_one FROM {table} AS b WITH (ROWLOCK{leased_hint}) WHERE b.{lease_state} = 1) AS c) AS l
    OPTION (KEEPFIXED PLAN);
IF @rate_items > 0 AND @rate_micros > 0 AND @rate_burst > 0
BEGIN
    SET @latest = @clock + (@rate_burst * @rate_micros + @rate_items - 1) / @rate_items + 1000000;
    IF @arrival > @latest
    BEGIN
        UPDATE lease_broker_queue SET arrival = @latest WHERE queue = {queue_literal};
        SET @arrival = @latest;
    END;
    SET @arrival = CASE WHEN @arrival > @clock THEN @arrival ELSE @clock END;
    SET @tokens = @rate_burst - ((@arrival - @clock) * @rate_items + @rate_micros - 1) / @rate_micros;
    IF @tokens < 0 SET @tokens = 0;
    SET @wait = @arrival - @clock + (@tokens * @rate_micros + @rate_items - 1) / @rate_items - (@rate_burst - 1) * @rate_micros / @rate_items;
    IF @wait < 1 SET @wait = 1;
    IF @left IS NULL OR @tokens < @left SELECT @left = @tokens, @limited = 'rate';
END;
IF @left < @total SET @total = @left;
ELSE SET @limited = '';
IF @pause_mode IN (1, 3) AND (@pause_until IS NULL OR @pause_until > @now)
    SELECT @paused = 1, @total = 0;{read_paused_groups}

-- :: declare_walk

DECLARE @turn {group_variable}, @at {group_variable}, @group {group_variable}, @round_start {group_variable}, @stored_start {group_variable}, @wrapped int,
    @stored_wrapped int, @begins_round int,
    @is_over int, @has_busy int, @group_count int, @size int, @each int, @group_max_leases int, @most_visits int, @paused_groups int = 0,
    @group_rate_items bigint, @group_rate_micros bigint, @group_rate_burst bigint, @group_arrival bigint, @group_latest bigint, @group_tokens bigint;
DECLARE @paused_group TABLE ({group_declaration});
DECLARE @claimable TABLE (lb_place int NOT NULL, lb_turn int NOT NULL, {key_declarations}, {group_declaration}, lb_size int NOT NULL,
    PRIMARY KEY (lb_place, lb_turn));

-- :: read_walk
,
    @turn = CONVERT({group_variable}, q.turn), @stored_start = CONVERT({group_variable}, q.round_start),
    @stored_wrapped = q.round_wrapped,
    @group_max_leases = q.group_max_leases, @paused_groups = q.paused_groups, @group_rate_items = q.group_rate_items,
    @group_rate_micros = q.group_rate_micros, @group_rate_burst = q.group_rate_burst

-- :: read_paused_groups
IF @group_rate_items > 0 AND @group_rate_micros > 0 AND @group_rate_burst > 0
BEGIN
    SET @group_latest = @clock + (@group_rate_burst * @group_rate_micros + @group_rate_items - 1) / @group_rate_items + 1000000;
    UPDATE lease_broker_group_rate SET arrival = @group_latest WHERE queue = {queue_literal} AND arrival > @group_latest;
END;
IF @paused_groups > 0
BEGIN
    DELETE FROM lease_broker_group WHERE queue = {queue_literal} AND paused_until <= @now;
    IF @@ROWCOUNT > 0
        UPDATE lease_broker_queue
        SET paused_groups = (SELECT COUNT(*) FROM lease_broker_group AS g WHERE g.queue = {queue_literal})
        WHERE queue = {queue_literal};
    INSERT @paused_group (lb_group)
    SELECT {stored_group} FROM lease_broker_group AS g WHERE g.queue = {queue_literal};
END;

-- :: walk
BEGIN
    DELETE FROM @claimable;
    SELECT @at = @turn, @is_over = 0, @has_busy = 0, @group_count = 0,
        @begins_round = CASE WHEN @turn IS NULL AND @stored_start IS NULL THEN 1 ELSE 0 END,
        @wrapped = CASE WHEN @stored_start IS NULL THEN 0 ELSE @stored_wrapped END, @round_start = COALESCE(@stored_start, @turn),
        @most_visits = @visits + CASE WHEN {pick_count} < 234 THEN {pick_count} * 4 + 64 ELSE 1000 END;{begin_given}
    WHILE @group_count < {pick_count} AND @is_over = 0 AND @visits < @most_visits
    BEGIN
        SELECT @visits = @visits + 1, @group = NULL;
        {next_group}
        IF @group IS NOT NULL
        BEGIN
            SET @at = @group;
            IF @round_start IS NULL SET @round_start = @group;
            {size}
            IF @size > 0 AND @paused_groups > 0 AND EXISTS (SELECT 1 FROM @paused_group AS u WHERE u.lb_group = {group_value})
                SET @size = 0;
            {rate_size}
            IF @size > 0
            BEGIN
                {head_of_group}
                SET @group_count = @group_count + @@ROWCOUNT;{except_heads}
            END
            ELSE SET @has_busy = 1;
        END
        {no_group}
    END;
    SET @is_cut = CASE WHEN @is_over = 0 AND @group_count < {pick_count} THEN 1 ELSE 0 END;
    {give_more}{exceed_limits}
    INSERT @picked (lb_p, {key_names}, lb_f, lb_since, lb_turn{size_name})
    SELECT ROW_NUMBER() OVER (ORDER BY p.lb_place, p.lb_turn), {t_key_columns}, t.{lease_fence}, t.{lease_state_time},
        CASE p.lb_place WHEN 0 THEN p.lb_turn END{size_value}
    FROM (SELECT TOP ({pick_count}) * FROM @claimable ORDER BY lb_place, lb_turn) AS p
        INNER JOIN {table} AS t WITH (UPDLOCK, {by_key}{skip_locked}) ON {join_picked_on_key}
    WHERE 1 = CASE WHEN t.{lease_state} = 0 AND (t.{group} = p.lb_group OR t.{group} IS NULL AND p.lb_group IS NULL){except_suspects} THEN 1 END
    OPTION (FORCE ORDER, LOOP JOIN, KEEPFIXED PLAN, OPTIMIZE FOR ({pick_count} = 1));
    IF @is_over = 1 AND @limited = '' AND @has_busy = 0 AND (SELECT COUNT(*) FROM @picked) < {pick_count}
        SELECT TOP (1) @has_busy = 1
        FROM (SELECT * FROM @claimable WHERE lb_place = 0 AND lb_group IS NOT NULL) AS c
            INNER JOIN {table} AS t WITH (READUNCOMMITTED{group_seek_hint}) ON t.{group} = c.lb_group
        WHERE t.{lease_state} = 0{key_not_null}{except_suspects} AND NOT EXISTS (SELECT 1 FROM @picked AS p WHERE {join_picked_on_key})
        OPTION (KEEPFIXED PLAN);
    IF @is_over = 1 AND @limited = '' AND @has_busy = 1 SET @limited = 'busy';
    IF @is_cut = 1 AND @limited = '' SET @limited = 'busy';
END;

-- :: head_of_group
INSERT @claimable (lb_place, lb_turn, {key_names}, lb_group, lb_size)
                SELECT TOP (1) 0, @visits, {t_key_columns}, t.{group}, @size
                FROM {table} AS t WITH (READUNCOMMITTED{group_seek_hint})
                WHERE t.{lease_state} = 0 AND t.{group} = {group_value}{key_not_null}{except_in_group}
                ORDER BY {t_group_order}
                OPTION (KEEPFIXED PLAN);

-- :: except_heads

                DELETE FROM @claimable
                WHERE lb_turn >= {turn_number} AND EXISTS (
                    SELECT 1
                    FROM (SELECT * FROM @claimable WHERE lb_turn = {turn_number}) AS p
                        INNER JOIN {table} AS t WITH (READUNCOMMITTED{key_hint}) ON {join_picked_on_key}
                    WHERE NOT (1 = 1{except_suspects}))
                OPTION (KEEPFIXED PLAN);
                SET @group_count = @group_count - @@ROWCOUNT;

-- :: next_in_turn
IF @wrapped = 0 AND @at IS NULL
            {visit_first}
        ELSE IF @wrapped = 0
            {visit_after}
        ELSE IF @at IS NULL
            {visit_until}
        ELSE
            {visit_between}

-- :: end_of_groups
ELSE
        BEGIN
            IF @wrapped = 0
            BEGIN
                INSERT @claimable (lb_place, lb_turn, {key_names}, lb_group, lb_size)
                SELECT TOP (1) 0, {turn_number}, {t_key_columns}, NULL, 2147483647
                FROM {table} AS t WITH (READUNCOMMITTED{group_hint})
                WHERE t.{lease_state} = 0 AND t.{group} IS NULL{key_not_null}{except_suspects}
                ORDER BY {t_group_order}
                OPTION (KEEPFIXED PLAN);
                SET @group_count = @group_count + @@ROWCOUNT;
            END;
            IF @wrapped = 1 OR @begins_round = 1 SET @is_over = 1;
            SELECT @at = NULL, @wrapped = 1;
        END;

-- :: declare_given
DECLARE @given_group TABLE (lb_n int NOT NULL PRIMARY KEY, {group_declaration});
DECLARE @number int;
INSERT @given_group (lb_n, lb_group)
SELECT j.n, {listed_group} FROM OPENJSON(@P7) WITH (n int '$.n', g nvarchar(4000) '$.g') AS j;

-- :: begin_given

    SELECT @number = -1, @most_visits = @visits + 1000;

-- :: next_given
SET @at = NULL;
        SELECT TOP (1) @at = o.lb_group, @number = o.lb_n
        FROM @given_group AS o
        WHERE o.lb_n > @number AND o.lb_group IS NOT NULL AND NOT EXISTS (SELECT 1 FROM @claimable AS c WHERE c.lb_group = o.lb_group)
        ORDER BY o.lb_n;
        IF @at IS NULL
            SET @is_over = 1;
        ELSE
            {visit_one}

-- :: suspect_is_given
 AND EXISTS (SELECT 1 FROM @given_group AS o WHERE o.lb_group = t.{group})

-- :: visit
SELECT TOP (1) @group = t.{group}
            FROM {table} AS t WITH (READUNCOMMITTED{group_hint})
            WHERE t.{lease_state} = 0 AND {bounds}{key_not_null}
            ORDER BY t.{group}, {t_group_order}
            OPTION (KEEPFIXED PLAN);

-- :: visit_first
t.{group} IS NOT NULL

-- :: visit_after
t.{group} > {at_value}

-- :: visit_until
t.{group} <= {round_start_value}

-- :: visit_one
t.{group} = {at_value}

-- :: visit_between
t.{group} > {at_value} AND t.{group} <= {round_start_value}

-- :: strict_size
SELECT @size = CASE WHEN EXISTS (SELECT 1 FROM {table} AS b WITH (ROWLOCK{busy_hint})
                    WHERE {busy_states} AND b.{group} = {group_value} AND b.{lease_state} = 1) THEN 0
                WHEN EXISTS (SELECT 1 FROM {table} AS b WITH (ROWLOCK{busy_hint})
                    WHERE {busy_states} AND b.{group} = {group_value} AND b.{lease_state} IN ({behind_states})) THEN -1
                ELSE {run_size} END
            OPTION (KEEPFIXED PLAN);
            IF @size < 0
                SELECT @size = CASE (SELECT TOP (1) f.lb_state FROM {first_of_group} AS f ORDER BY {f_group_order}) WHEN 0 THEN 1 ELSE 0 END
                OPTION (KEEPFIXED PLAN);

-- :: parallel_size
SELECT @size = CASE WHEN @group_max_leases > 0 THEN @group_max_leases - (SELECT COUNT(*)
                    FROM (SELECT TOP (@group_max_leases) 1 AS lb_one FROM {table} AS b WITH (ROWLOCK{busy_hint})
                        WHERE {busy_states} AND b.{group} = {group_value} AND b.{lease_state} = 1) AS l)
                ELSE 2147483647 END
            OPTION (KEEPFIXED PLAN);

-- :: rate_size
IF @size > 0 AND @group_latest > 0
            BEGIN
                SET @group_arrival = (SELECT r.arrival FROM lease_broker_group_rate AS r
                    WHERE r.queue = {queue_literal} AND r.group_hash = {hash_of_variable});
                SET @group_arrival = CASE WHEN @group_arrival > @clock THEN @group_arrival ELSE @clock END;
                SET @group_tokens = @group_rate_burst - ((@group_arrival - @clock) * @group_rate_items + @group_rate_micros - 1) / @group_rate_micros;
                SET @group_arrival = @group_arrival - @clock - (@group_rate_burst - 1) * @group_rate_micros / @group_rate_items;
                IF @group_tokens < 1
                    SELECT @size = 0, @group_wait = CASE WHEN @group_wait < @group_arrival THEN @group_wait WHEN @group_arrival < 1 THEN 1
                        ELSE @group_arrival END;
                ELSE IF @group_tokens < @size
                    SET @size = @group_tokens;
            END;

-- :: first_of_group
(SELECT * FROM (SELECT TOP (1) CONVERT(int, b.{lease_state}) AS lb_state, {b_order_columns} FROM {table} AS b WITH (READUNCOMMITTED{group_seek_hint})
                        WHERE b.{lease_state} = 0 AND b.{group} = {of_group}{b_key_not_null} ORDER BY {b_group_order}) AS r{first_behind})

-- :: first_behind
UNION ALL SELECT * FROM (SELECT TOP (1) CONVERT(int, b.{lease_state}) AS lb_state, {b_order_columns} FROM {table} AS b WITH (ROWLOCK{busy_hint})
                        WHERE {busy_states} AND b.{group} = {of_group} AND b.{lease_state} = {behind_state} ORDER BY {b_group_order}) AS r{behind_state}

-- :: give_more
IF @is_over = 1 AND @group_count > 0 AND @group_count < {pick_count} AND EXISTS (SELECT 1 FROM @claimable AS c WHERE c.lb_size > 1)
    BEGIN
        SET @each = ({pick_count} + @group_count - 1) / @group_count;
        WHILE @each > 0
        BEGIN
            DELETE FROM @claimable WHERE lb_place > 0;
            INSERT @claimable (lb_place, lb_turn, {key_names}, lb_group, lb_size)
            SELECT m.lb_place, c.lb_turn, {m_key_names}, c.lb_group, c.lb_size
            FROM (SELECT * FROM @claimable) AS c CROSS APPLY (
                SELECT TOP (@each) ROW_NUMBER() OVER (ORDER BY {t_group_order}) - 1 AS lb_place, {t_key_as_stored}
                FROM {table} AS t WITH (READUNCOMMITTED{group_seek_hint})
                WHERE t.{lease_state} = 0 AND t.{group} = c.lb_group{key_not_null}{except_in_group}
                ORDER BY {t_group_order}) AS m
            WHERE m.lb_place > 0 AND m.lb_place < c.lb_size
            OPTION (KEEPFIXED PLAN);
            INSERT @claimable (lb_place, lb_turn, {key_names}, lb_group, lb_size)
            SELECT m.lb_place, c.lb_turn, {m_key_names}, NULL, c.lb_size
            FROM (SELECT * FROM @claimable WHERE lb_place = 0 AND lb_group IS NULL) AS c CROSS JOIN (
                SELECT TOP (@each) ROW_NUMBER() OVER (ORDER BY {t_group_order}) - 1 AS lb_place, {t_key_as_stored}
                FROM {table} AS t WITH (READUNCOMMITTED{group_hint})
                WHERE t.{lease_state} = 0 AND t.{group} IS NULL{key_not_null}{except_suspects}
                ORDER BY {t_group_order}) AS m
            WHERE m.lb_place > 0
            OPTION (KEEPFIXED PLAN);
            IF (SELECT COUNT(*) FROM @claimable) >= {pick_count}
                    OR NOT EXISTS (SELECT 1 FROM @claimable AS c WHERE c.lb_place = @each - 1 AND c.lb_size > @each)
                BREAK;
            SET @each = @each * 2;
        END;
    END;

-- :: declare_burst

DECLARE @within int, @beyond int;
DECLARE @burst_group TABLE (lb_turn int NOT NULL PRIMARY KEY, {group_declaration}, lb_size int NOT NULL, lb_most int NOT NULL);

-- :: begin_burst

            SELECT @within = CASE WHEN @size > 0 THEN @size ELSE 0 END, @size = 2147483647;

-- :: end_burst

            IF @size > @within
            BEGIN
                INSERT @burst_group (lb_turn, lb_group, lb_size, lb_most) VALUES (@visits, {group_value}, @within, @size);
                SET @size = @within;
            END;

-- :: exceed_limits

    IF @is_over = 1 AND (SELECT COUNT(*) FROM @claimable) < {pick_count} AND EXISTS (SELECT 1 FROM @burst_group)
    BEGIN
        SELECT @beyond = CASE @group_count WHEN 0 THEN 0 ELSE 10000 END, @each = {pick_count} / COUNT(*) + 1 FROM @burst_group;
        WHILE @each > 0
        BEGIN
            DELETE FROM @claimable WHERE lb_place >= @beyond;
            INSERT @claimable (lb_place, lb_turn, {key_names}, lb_group, lb_size)
            SELECT @beyond + m.lb_place - c.lb_size, c.lb_turn, {m_key_names}, c.lb_group, c.lb_most
            FROM @burst_group AS c CROSS APPLY (
                SELECT TOP (c.lb_size + @each) ROW_NUMBER() OVER (ORDER BY {t_group_order}) - 1 AS lb_place, {t_key_as_stored}
                FROM {table} AS t WITH (READUNCOMMITTED{group_seek_hint})
                WHERE t.{lease_state} = 0 AND t.{group} = c.lb_group{key_not_null}{except_in_group}
                ORDER BY {t_group_order}) AS m
            WHERE m.lb_place >= c.lb_size AND m.lb_place < c.lb_most
            OPTION (KEEPFIXED PLAN);
            IF (SELECT COUNT(*) FROM @claimable) >= {pick_count}
                    OR NOT EXISTS (SELECT 1 FROM @claimable AS c WHERE c.lb_place = @beyond + @each - 1)
                BREAK;
            SET @each = @each * 2;
        END;
    END;
    DELETE FROM @burst_group;

-- :: bound_wanted

        IF @wanted > @total - @leased SET @wanted = @total - @leased;

-- :: count_given
SET @given = (SELECT COUNT(*) FROM @picked{leased_items});

-- :: charge_groups
IF @given > 0 AND @group_latest > 0
BEGIN
    DECLARE @charged TABLE (lb_hash binary(32) NOT NULL PRIMARY KEY, lb_micros bigint NOT NULL);
    INSERT @charged (lb_hash, lb_micros)
    SELECT g.lb_hash, (COUNT(*) * @group_rate_micros + @group_rate_items - 1) / @group_rate_items
    FROM (SELECT {hash_of_row} AS lb_hash
            FROM (SELECT * FROM @picked{leased_items}) AS p INNER JOIN {table} AS t WITH ({by_key}) ON {join_picked_on_key}
            WHERE t.{group} IS NOT NULL) AS g
    GROUP BY g.lb_hash
    OPTION (KEEPFIXED PLAN);
    UPDATE r
    SET arrival = CASE WHEN r.arrival > @clock THEN r.arrival ELSE @clock END + c.lb_micros
    FROM lease_broker_group_rate AS r INNER JOIN @charged AS c ON c.lb_hash = r.group_hash
    WHERE r.queue = {queue_literal};
    INSERT lease_broker_group_rate (queue, group_hash, arrival)
    SELECT {queue_literal}, c.lb_hash, @clock + c.lb_micros
    FROM @charged AS c
    WHERE NOT EXISTS (SELECT 1 FROM lease_broker_group_rate AS r WHERE r.queue = {queue_literal} AND r.group_hash = c.lb_hash);
    DELETE FROM lease_broker_group_rate
    WHERE queue = {queue_literal} AND group_hash IN (SELECT TOP (@given + 100) r.group_hash FROM lease_broker_group_rate AS r
        WHERE r.queue = {queue_literal} AND r.arrival <= @clock ORDER BY r.arrival);
END;

-- :: end_walk
SET @group = @turn;
IF @given > 0
    SELECT TOP (1) @group = c.lb_group
    FROM (SELECT * FROM @picked{leased_items}) AS i INNER JOIN @claimable AS c ON c.lb_place = 0 AND c.lb_turn = i.lb_turn
    ORDER BY c.lb_turn DESC;
ELSE IF @is_cut = 1
    SET @group = @at;
IF @given > 0 OR @is_cut = 0 SELECT @round_start = NULL, @wrapped = 0;

-- :: end_turn
IF @given > 0 OR @is_cut = 1
    UPDATE lease_broker_queue
    SET arrival = CASE WHEN @given > 0 AND @tokens IS NOT NULL
            THEN @arrival + (@given * @rate_micros + @rate_items - 1) / @rate_items ELSE arrival END{write_walk}
    WHERE queue = {queue_literal};

-- :: write_walk
, turn = @group, round_start = @round_start, round_wrapped = @wrapped

-- :: tell_limits

SELECT @limited AS lb_limited, CASE @limited WHEN 'busy' THEN COALESCE(@group_wait, 0) ELSE @wait END AS lb_wait, @is_cut AS lb_cut, @visits AS lb_visits,
    @turn_wait AS lb_turn_wait;

-- :: suspect_is_free
 AND (t.{group} IS NULL OR 1 = CASE WHEN ({suspect_size}{or_overdue})
        AND NOT EXISTS (SELECT 1 FROM @paused_group AS u WHERE u.lb_group = t.{group})
        AND NOT EXISTS (SELECT 1 FROM lease_broker_group_rate AS r
            WHERE @group_latest > 0 AND r.queue = {queue_literal} AND r.group_hash = {hash_of_row} AND r.arrival > @clock
                AND ((r.arrival - @clock) * @group_rate_items + @group_rate_micros - 1) / @group_rate_micros >= @group_rate_burst) THEN 1 END)

-- :: tell_busy_suspects

IF @limited = '' AND @share = 'others' AND NOT EXISTS (SELECT 1 FROM @suspect)
    SELECT TOP (1) @limited = 'busy'
    FROM (SELECT s.fence, s.ready_time, {s_key_as_names} FROM lease_broker_suspect AS s
            WHERE s.queue = {queue_literal} AND s.worker IS NULL) AS d
        INNER JOIN {table} AS t WITH (READUNCOMMITTED{key_hint}) ON {join_due_on_key}
    WHERE t.{lease_state} = 0 AND t.{lease_fence} = d.fence{suspect_is_given} AND 0 = CASE WHEN 1 = 1{suspect_is_free} THEN 1 ELSE 0 END
    OPTION (KEEPFIXED PLAN);

-- :: or_overdue
 OR d.ready_time <= DATEADD(millisecond, -{patience}, @now)

-- :: strict_suspect
NOT EXISTS (SELECT 1 FROM {table} AS b WITH (ROWLOCK{busy_hint})
        WHERE {busy_states} AND b.{group} = t.{group} AND b.{lease_state} = 1)
        AND EXISTS (SELECT 1 FROM (SELECT TOP (1) f.* FROM {first_of_group} AS f ORDER BY {f_group_order}) AS h WHERE h.lb_state = 0 AND {h_key_match})

-- :: parallel_suspect
@group_max_leases IS NULL OR @group_max_leases = 0 OR @group_max_leases > (SELECT COUNT(*) FROM {table} AS b WITH (ROWLOCK{busy_hint})
        WHERE {busy_states} AND b.{group} = t.{group} AND b.{lease_state} = 1)

-- :: fill_row
/* lease-broker fill row */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @max_leases int = CONVERT(int, NULLIF(@P3, N'')), @items int = CONVERT(int, NULLIF(@P4, N'')),
    @micros bigint = CONVERT(bigint, NULLIF(@P5, N'')), @burst int = CONVERT(int, NULLIF(@P6, N'')), @of_group int = CONVERT(int, NULLIF(@P7, N'')),
    @group_items int = CONVERT(int, NULLIF(@P8, N'')), @group_micros bigint = CONVERT(bigint, NULLIF(@P9, N'')),
    @group_burst int = CONVERT(int, NULLIF(@P10, N''));
BEGIN TRANSACTION;
UPDATE q
SET policy = COALESCE(q.policy, NULLIF(@P2, N'')), max_leases = COALESCE(q.max_leases, @max_leases),
    rate_micros = CASE WHEN q.rate_items IS NULL THEN @micros ELSE q.rate_micros END,
    rate_burst = CASE WHEN q.rate_items IS NULL THEN @burst ELSE q.rate_burst END,
    rate_items = COALESCE(q.rate_items, @items), group_max_leases = COALESCE(q.group_max_leases, @of_group),
    group_rate_micros = CASE WHEN q.group_rate_items IS NULL THEN @group_micros ELSE q.group_rate_micros END,
    group_rate_burst = CASE WHEN q.group_rate_items IS NULL THEN @group_burst ELSE q.group_rate_burst END,
    group_rate_items = COALESCE(q.group_rate_items, @group_items)
FROM lease_broker_queue AS q WITH (UPDLOCK, ROWLOCK, SERIALIZABLE)
WHERE q.queue = @P1;
IF @@ROWCOUNT = 0
    INSERT lease_broker_queue (queue, policy, max_leases, rate_items, rate_micros, rate_burst, group_max_leases, group_rate_items,
        group_rate_micros, group_rate_burst)
    VALUES (@P1, NULLIF(@P2, N''), @max_leases, @items, @micros, @burst, @of_group, @group_items, @group_micros, @group_burst);
COMMIT TRANSACTION;
{read_row}

-- :: set_limits
/* lease-broker set limits */
SET NOCOUNT ON; SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @max_leases int = CONVERT(int, NULLIF(@P2, N'')), @items int = CONVERT(int, NULLIF(@P3, N'')),
    @micros bigint = CONVERT(bigint, NULLIF(@P4, N'')), @burst int = CONVERT(int, NULLIF(@P5, N'')), @of_group int = CONVERT(int, NULLIF(@P6, N'')),
    @group_items int = CONVERT(int, NULLIF(@P7, N'')), @group_micros bigint = CONVERT(bigint, NULLIF(@P8, N'')),
    @group_burst int = CONVERT(int, NULLIF(@P9, N''));
UPDATE lease_broker_queue
SET max_leases = COALESCE(@max_leases, max_leases), rate_micros = CASE WHEN @items IS NULL THEN rate_micros ELSE @micros END,
    rate_burst = CASE WHEN @items IS NULL THEN rate_burst ELSE @burst END, rate_items = COALESCE(@items, rate_items),
    group_max_leases = COALESCE(@of_group, group_max_leases),
    group_rate_micros = CASE WHEN @group_items IS NULL THEN group_rate_micros ELSE @group_micros END,
    group_rate_burst = CASE WHEN @group_items IS NULL THEN group_rate_burst ELSE @group_burst END,
    group_rate_items = COALESCE(@group_items, group_rate_items)
WHERE queue = @P1;
{read_row}

-- :: read_row
SELECT q.policy AS lb_w, CONVERT(bigint, q.max_leases) AS lb_n, CONVERT(bigint, q.rate_items) AS lb_items, q.rate_micros AS lb_micros,
    CONVERT(bigint, q.rate_burst) AS lb_burst, CONVERT(bigint, q.group_max_leases) AS lb_group,
    CONVERT(bigint, q.group_rate_items) AS lb_group_items, q.group_rate_micros AS lb_group_micros,
    CONVERT(bigint, q.group_rate_burst) AS lb_group_burst
FROM lease_broker_queue AS q
WHERE q.queue = @P1;

-- :: read_policy
IF COL_LENGTH(N'lease_broker_queue', N'policy') IS NOT NULL
    EXEC sp_executesql N'SELECT q.policy AS lb_w FROM lease_broker_queue AS q WHERE q.queue = @queue', N'@queue nvarchar(128)', {queue_literal};
