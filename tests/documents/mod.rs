//! Runs the commands and the SQL that the READMEs and pages of `docs` show, and compares the output with the output shown.
//!
//! The recipes and the page about plain SQL run on both stores. `promises` checks that a test shows each promise.

mod libraries;
mod operations;
mod output;
mod promises;
mod session;
mod store;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use self::session::Session;
use self::store::Store;
use crate::harness::mssql::MssqlHarness;
use crate::support::skipped::skipped;

/// The comment with which recipes show the alternative claim strategy.
const APP_LOCK_COMMENT: &str = "\n# claim_strategy = \"app_lock\" ";

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the section of the recipes with this heading.
fn recipe(heading: &str) -> String {
    section("docs/recipes.md", heading)
}

/// Returns the section of a page with this heading.
fn section(page: &str, heading: &str) -> String {
    let text = read(page);
    let (_, after) = text
        .split_once(&format!("\n## {heading}"))
        .expect("the heading");
    let section = after.split("\n## ").next().expect("a section");
    section.to_owned()
}

/// Returns the recipe with the claim strategy `app_lock`, which it shows as a comment.
fn under_app_lock(recipe: &str) -> String {
    let setting = APP_LOCK_COMMENT.replace("# ", "");
    let changed = recipe.replace(APP_LOCK_COMMENT, &setting);
    assert_ne!(
        changed, recipe,
        "the recipe does not mention claim_strategy"
    );
    changed
}

fn on_sqlite(recipe: &str) {
    Session::start(Store::Sqlite).run(recipe);
}

fn on_sql_server(recipe: &str) {
    if crate::harness::can_run::<MssqlHarness>() {
        let store = Store::sql_server(&read("docs/recipes.md"));
        Session::start(store).run(recipe);
    }
}

#[test]
fn readme_shows_what_its_commands_print() {
    let readme = read("README.md");
    let (before, worker) = readme
        .split_once("\n## Write a worker")
        .expect("the heading");
    let start = Instant::now();
    let mut reader = Session::start(Store::Sqlite);
    reader.run(before);
    // The worker needs Python packages from the network. `.ci/run` sets the variable.
    if std::env::var_os("LEASE_BROKER_TEST_CLIENTS").is_none() {
        return skipped("the README's Python worker: LEASE_BROKER_TEST_CLIENTS is not set");
    }
    reader.show_folder("clients");
    reader.run(worker);
    let seconds = start.elapsed().as_secs();
    eprintln!("from the first command to the Python worker: {seconds} s");
}

#[test]
fn security_page_works_as_written() {
    if let Err(error) = Command::new("openssl").arg("version").output() {
        return skipped(&format!(
            "the commands of docs/security.md: no openssl ({error})"
        ));
    }
    for heading in [
        "A trusted network",
        "TLS and tokens",
        "Mutual TLS",
        "JSON Web Tokens",
    ] {
        Session::start(Store::Sqlite).run(&section("docs/security.md", heading));
    }
}

macro_rules! recipes {
    ($store:ident, $run:path) => {
        mod $store {
            use super::{read, recipe, under_app_lock};

            #[test]
            fn soft_locks_on_an_events_table() {
                $run(&recipe("S1."));
            }

            #[test]
            fn checking_out_records_with_two_services() {
                $run(&recipe("S2."));
            }

            #[test]
            fn checking_out_records_under_app_lock() {
                $run(&under_app_lock(&recipe("S2.")));
            }

            #[test]
            fn polling_by_multiple_subscribers() {
                $run(&recipe("S3."));
            }

            #[test]
            fn table_as_a_data_queue() {
                $run(&recipe("S4."));
            }

            #[test]
            fn critical_section_and_timestamped_reads() {
                $run(&recipe("S5."));
            }

            #[test]
            fn plain_sql_beside_the_broker() {
                $run(&read("docs/plain-sql.md"));
            }

            #[test]
            fn critical_section_under_app_lock() {
                $run(&under_app_lock(&recipe("S5.")));
            }
        }
    };
}

recipes!(sqlite, crate::documents::on_sqlite);
recipes!(mssql, crate::documents::on_sql_server);
