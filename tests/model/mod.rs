//! Random operations of several brokers, each compared with a small model of the contract of a store.
//!
//! `LEASE_BROKER_TEST_SEED` repeats a run. Each test prints its seed. `LEASE_BROKER_TEST_STEPS` sets the number of steps.
//! To add a store, add one line at the end of this file.

mod queue_model;
mod run;

use std::str::FromStr;

use self::queue_model::Policy;

/// Default number of steps. They take some seconds.
const DEFAULT_STEPS: usize = 2_500;

fn from_environment<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    let value = text.parse();
    Some(value.unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

async fn run<H: crate::harness::Harness>(policy: Policy) {
    if !crate::harness::can_run::<H>() {
        return;
    }
    let seed = from_environment("LEASE_BROKER_TEST_SEED").unwrap_or_else(rand::random);
    let steps = from_environment("LEASE_BROKER_TEST_STEPS").unwrap_or(DEFAULT_STEPS);
    eprintln!("{policy:?}: LEASE_BROKER_TEST_SEED={seed} LEASE_BROKER_TEST_STEPS={steps}");
    run::run::<H>(policy, seed, steps).await;
}

macro_rules! model {
    ($store:ident, $harness:ty) => {
        mod $store {
            use crate::model::queue_model::Policy;

            #[tokio::test]
            async fn queue_that_keeps_rows_matches_the_model() {
                crate::model::run::<$harness>(Policy::Keep).await;
            }

            #[tokio::test]
            async fn queue_that_deletes_rows_matches_the_model() {
                crate::model::run::<$harness>(Policy::Delete).await;
            }

            #[tokio::test]
            async fn queue_that_archives_rows_matches_the_model() {
                crate::model::run::<$harness>(Policy::Archive).await;
            }

            #[tokio::test]
            async fn queue_of_recurring_items_matches_the_model() {
                crate::model::run::<$harness>(Policy::Recur).await;
            }
        }
    };
}

model!(sqlite, crate::harness::sqlite::SqliteHarness);
model!(mssql, crate::harness::mssql::MssqlHarness);
