//! Runs what the README and the recipes show, and compares what is printed with what they show.

#[path = "documents/pattern.rs"]
mod pattern;
#[path = "documents/session.rs"]
mod session;

use std::path::Path;

use session::Session;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs the blocks under one heading of the recipes.
fn recipe(heading: &str) {
    let text = read("docs/recipes.md");
    let (_, after) = text
        .split_once(&format!("\n## {heading}"))
        .expect("the heading");
    let section = after.split("\n## ").next().expect("a section");
    Session::start().run(section);
}

#[test]
fn the_readme_shows_what_its_commands_print() {
    Session::start().run(&read("README.md"));
}

#[test]
fn soft_locks_on_an_events_table() {
    recipe("S1.");
}

#[test]
fn checking_out_records_with_two_active_services() {
    recipe("S2.");
}

#[test]
fn polling_by_multiple_subscribers() {
    recipe("S3.");
}

#[test]
fn a_table_as_a_data_queue_deleting_what_was_done() {
    recipe("S4.");
}

#[test]
fn critical_section_and_timestamped_reads() {
    recipe("S5.");
}
