//! Statistics, lists and redrive on tables with more items than the statistics count.

use lease_broker_model::item_state::State;
use lease_broker_store::Stats;

use crate::harness::Harness as _;
use crate::harness::fixture::Fixture;
use crate::harness::sqlite::SqliteHarness;

/// Inserts ?2 rows with state ?1. The rows of a state are adjacent in the table. All leases are due before all delayed items.
const FILL: &str =
    "INSERT INTO item (id, lease_state, lease_state_time, lease_due_time, lease_token)
    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?2)
    SELECT ?1 * 1000000 + n, ?1, 1000000 + n,
        CASE WHEN ?1 IN (1, 2) THEN ?1 * 1000000000000000 + n END, CASE ?1 WHEN 1 THEN randomblob(16) END
    FROM n WHERE ?2 > 0";

const COUNT_LIMIT: u64 = Stats::COUNT_LIMIT;

/// Creates a queue with the given number of items per state. The completed rows come first in the table.
async fn queue_with_rows(filtered: bool, rows: [u64; 5]) -> Fixture<SqliteHarness> {
    let fixture = Fixture::<SqliteHarness>::with(0, |spec| spec.filtered_indexes = filtered).await;
    let connection = fixture.harness.connect();
    for state in [
        State::Completed,
        State::Ready,
        State::Leased,
        State::Delayed,
        State::Dead,
    ] {
        let rows = i64::try_from(rows[state as usize]).expect("few rows");
        connection.execute(FILL, (state.code(), rows)).expect(FILL);
    }
    fixture
}

async fn stats(fixture: &Fixture<SqliteHarness>) -> Stats {
    fixture.reads.stats(fixture.queue).await.expect("stats")
}

#[tokio::test]
async fn items_up_to_the_count_limit_are_counted_exactly() {
    let rows = [COUNT_LIMIT, COUNT_LIMIT, COUNT_LIMIT, 0, COUNT_LIMIT];
    for filtered in [true, false] {
        let stats = stats(&queue_with_rows(filtered, rows).await).await;
        assert_eq!(stats.count, rows);
        // No filtered index contains completed items. In a large table their count is always a lower bound.
        assert_eq!(stats.is_lower_bound, [false, false, false, filtered, false]);
    }
}

#[tokio::test]
async fn count_over_the_limit_is_a_lower_bound() {
    for filtered in [true, false] {
        let fixture = queue_with_rows(filtered, [COUNT_LIMIT + 1; 5]).await;
        let stats = stats(&fixture).await;
        assert_eq!(stats.count, [COUNT_LIMIT; 5]);
        assert_eq!(stats.is_lower_bound, [true; 5]);
    }
}

#[tokio::test]
async fn ages_of_many_items_are_those_of_a_sample() {
    for (rows, sampled) in [
        ([2_000, COUNT_LIMIT, 0, 0, 0], &[][..]),
        ([2_001, COUNT_LIMIT, 0, 0, 0], &[State::Ready]),
        ([5, COUNT_LIMIT + 1, 0, 0, 0], &[State::Leased]),
    ] {
        let stats = stats(&queue_with_rows(true, rows).await).await;
        let found: Vec<State> = stats.sampled_states().collect();
        assert_eq!(found, sampled, "{rows:?}");
    }
}

#[tokio::test]
async fn exact_stats_count_all_items() {
    let rows = [
        COUNT_LIMIT + 5,
        COUNT_LIMIT + 4,
        COUNT_LIMIT + 3,
        COUNT_LIMIT + 2,
        COUNT_LIMIT + 1,
    ];
    for filtered in [true, false] {
        let fixture = queue_with_rows(filtered, rows).await;
        let stats = fixture
            .reads
            .exact_stats(fixture.queue)
            .await
            .expect("stats");
        assert_eq!((stats.count, stats.is_lower_bound), (rows, [false; 5]));
    }
}

#[tokio::test]
async fn delayed_items_are_counted_behind_many_leases() {
    for filtered in [true, false] {
        let stats = stats(&queue_with_rows(filtered, [0, COUNT_LIMIT + 500, 3, 0, 0]).await).await;
        assert_eq!(stats.count_of(State::Delayed), 3);
        assert_eq!(stats.is_lower_bound(State::Delayed), filtered);
    }
}

#[tokio::test]
async fn completed_items_of_a_small_table_are_counted_exactly() {
    for filtered in [true, false] {
        let stats =
            stats(&queue_with_rows(filtered, [100, 0, 0, COUNT_LIMIT - 100, 0]).await).await;
        assert_eq!(stats.count, [100, 0, 0, COUNT_LIMIT - 100, 0]);
        assert_eq!(stats.is_lower_bound, [false; 5]);
    }
}

#[tokio::test]
async fn list_of_a_deep_state_has_the_requested_length() {
    let rows = usize::try_from(COUNT_LIMIT + 500).expect("few rows");
    for filtered in [true, false] {
        let fixture = queue_with_rows(filtered, [COUNT_LIMIT + 500; 5]).await;
        for state in State::ALL {
            for limit in [10, rows, rows + 1] {
                let listed = fixture.reads.list(fixture.queue, state, limit).await;
                let listed = listed.expect("list");
                assert_eq!(listed.len(), limit.min(rows), "{}", state.name());
                let ages = listed.iter().map(|item| item.age);
                assert!(ages.rev().is_sorted(), "{}", state.name());
            }
        }
    }
}

#[tokio::test]
async fn redrive_starts_with_the_longest_dead() {
    for filtered in [true, false] {
        let fixture = queue_with_rows(filtered, [0, 0, 0, 5, 5]).await;
        let change = "UPDATE item SET lease_state_time = 1 WHERE id = 4000005";
        fixture.harness.execute(change);
        assert_eq!(fixture.redrive(2).await, 2);
        let ready = fixture.list(State::Ready).await;
        let mut keys: Vec<_> = ready.iter().map(|item| item.key.to_string()).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["4000001", "4000005"]);
    }
}

#[tokio::test]
async fn schema_apply_adds_a_missing_dead_index() {
    let fixture = queue_with_rows(true, [1, 0, 0, 0, 1]).await;
    fixture.harness.execute("DROP INDEX item_lease_dead");
    let spec = &fixture.queues[0];
    let missing = fixture.harness.check(spec).await.expect("check");
    assert_eq!(missing, ["table \"item\" lacks the index item_lease_dead"]);
    fixture.harness.apply(spec).await.expect("apply");
    assert_eq!(fixture.harness.check(spec).await, Ok(Vec::new()));
}
