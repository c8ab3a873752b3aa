//! Queues with groups and limits, under random operations and under load, on every store.
//!
//! `LEASE_BROKER_TEST_SEED` repeats a random run. Each prints its seed.

mod history;
mod load;

use crate::harness::mssql::MssqlHarness;
use crate::harness::sqlite::SqliteHarness;
use crate::harness::{Harness, can_run};

use self::history::Rules;

async fn histories<H: Harness>(rules: Rules, steps: usize) {
    if can_run::<H>() {
        let seed = std::env::var("LEASE_BROKER_TEST_SEED");
        let seed = seed.map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"));
        eprintln!("{rules:?}: LEASE_BROKER_TEST_SEED={seed}");
        history::run::<H>(rules, seed, steps).await;
    }
}

macro_rules! groups {
    ($store:ident, $harness:ty, $steps:literal) => {
        mod $store {
            use super::*;

            #[tokio::test]
            async fn random_operations_keep_strict_groups() {
                let rules = Rules::Strict {
                    halts: false,
                    run: 1,
                };
                histories::<$harness>(rules, $steps).await;
            }

            #[tokio::test]
            async fn random_operations_keep_groups_that_halt() {
                let rules = Rules::Strict {
                    halts: true,
                    run: 1,
                };
                histories::<$harness>(rules, $steps).await;
            }

            #[tokio::test]
            async fn random_operations_keep_runs() {
                let rules = Rules::Strict {
                    halts: false,
                    run: 3,
                };
                histories::<$harness>(rules, $steps).await;
            }

            #[tokio::test]
            async fn random_operations_keep_runs_of_groups_that_halt() {
                let rules = Rules::Strict {
                    halts: true,
                    run: 3,
                };
                histories::<$harness>(rules, $steps).await;
            }

            #[tokio::test]
            async fn random_operations_keep_limits_of_groups() {
                histories::<$harness>(Rules::Parallel { bursts: false }, $steps).await;
            }

            #[tokio::test]
            async fn random_operations_burst_only_if_no_other_group_can_give() {
                histories::<$harness>(Rules::Parallel { bursts: true }, $steps).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn four_brokers_never_lease_two_items_of_a_group() {
                if can_run::<$harness>() {
                    load::groups_are_kept::<$harness>(1).await;
                }
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn four_brokers_never_lease_two_runs_of_a_group() {
                if can_run::<$harness>() {
                    load::groups_are_kept::<$harness>(4).await;
                }
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn four_brokers_keep_the_limits_of_a_queue() {
                if can_run::<$harness>() {
                    load::limits_are_kept::<$harness>().await;
                }
            }

            #[tokio::test]
            async fn small_groups_are_served_beside_a_large_one() {
                if can_run::<$harness>() {
                    load::small_groups_are_served::<$harness>().await;
                }
            }
        }
    };
}

groups!(sqlite, SqliteHarness, 1_500);
groups!(mssql, MssqlHarness, 300);

/// The proof that the load would find it if claims took no turns. SQLite has one writer, so only a server can show it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_that_take_no_turns_are_found_on_a_server() {
    if can_run::<MssqlHarness>() {
        load::claims_without_turns_are_found().await;
    }
}
