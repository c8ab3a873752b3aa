//! The parts of `runs.sql` in the batches of a queue whose claims give runs.

use lease_broker_model::queue::QueueSpec;
use lease_broker_sql::LeaseSql;

use crate::template::{Placeholders, render};

/// The placeholders that are empty if claims give no runs.
const PARTS: [&str; 8] = [
    "declare_run",
    "cut_runs",
    "run_number",
    "find_runs",
    "in_order",
    "read_marks",
    "end_runs",
    "read_later",
];

/// Sets the placeholders of all batches.
pub(super) fn set_placeholders(placeholders: &mut Placeholders, sql: &LeaseSql, queue: &QueueSpec) {
    for part in PARTS {
        placeholders.insert(part, String::new());
    }
    placeholders.insert("run_size", "1".to_owned());
    placeholders.insert("turn_number", "@visits".to_owned());
    if queue.max_run() == 1 {
        return;
    }
    placeholders.insert("max_run", queue.max_run().to_string());
    placeholders.insert("run_size", "@most_run".to_owned());
    placeholders.insert("turn_number", "@visits * 100".to_owned());
    for (part, before) in [
        ("declare_run", "\n"),
        ("run_number", ""),
        ("in_order", " "),
        ("read_marks", "\n"),
        ("end_runs", "\n"),
        ("read_later", "\n"),
    ] {
        let text = render(sql.runs, part, placeholders);
        placeholders.insert(part, format!("{before}{}", text.trim_start()));
    }
}

/// Sets the part of a claim that leaves out the items of a run behind one that is not leased. `leased_items` is set.
pub(super) fn set_cut(placeholders: &mut Placeholders, sql: &LeaseSql, queue: &QueueSpec) {
    if queue.max_run() > 1 {
        let text = render(sql.runs, "cut_runs", placeholders) + "\n";
        placeholders.insert("cut_runs", text);
    }
}

/// Returns the section that finds the items of a group, with the file that has it.
pub(super) fn items_of_group(sql: &LeaseSql, queue: &QueueSpec) -> (&'static str, &'static str) {
    match queue.max_run() {
        ..=1 => (sql.groups, "head_of_group"),
        _ => (sql.runs, "run_of_group"),
    }
}

/// Sets the parts of a batch that settles the leases of a list.
pub(super) fn set_in_settlement(
    placeholders: &mut Placeholders,
    sql: &LeaseSql,
    queue: &QueueSpec,
) {
    set_find_runs(placeholders, sql, queue, "runs_of_list", "mark_list");
}

/// Sets the parts of the reaper's batch, which ends the leases in `@due`.
pub(super) fn set_in_reaper(placeholders: &mut Placeholders, sql: &LeaseSql, queue: &QueueSpec) {
    set_in_end(placeholders, sql, queue, ("@due", "lb_p", "mark_due"));
}

/// Sets the parts of a batch that cancels the leases in `@held`.
pub(super) fn set_in_cancellation(
    placeholders: &mut Placeholders,
    sql: &LeaseSql,
    queue: &QueueSpec,
) {
    set_in_end(placeholders, sql, queue, ("@held", "lb_i", "mark_held"));
}

/// Sets the parts of a batch that ends the leases in a table variable, whose column `number` numbers them.
fn set_in_end(
    placeholders: &mut Placeholders,
    sql: &LeaseSql,
    queue: &QueueSpec,
    (table, number, mark): (&str, &str, &'static str),
) {
    if queue.max_run() == 1 {
        return;
    }
    placeholders.insert("ended", table.to_owned());
    placeholders.insert("number", number.to_owned());
    let numbered = render(sql.runs, "number_ended", placeholders);
    placeholders.insert("number_ended", numbered);
    set_find_runs(placeholders, sql, queue, "runs_of_ended", mark);
}

fn set_find_runs(
    placeholders: &mut Placeholders,
    sql: &LeaseSql,
    queue: &QueueSpec,
    runs_of: &'static str,
    mark: &'static str,
) {
    if queue.max_run() == 1 {
        return;
    }
    let section = |placeholders: &Placeholders, name| render(sql.runs, name, placeholders);
    placeholders.insert("runs_of", section(placeholders, runs_of));
    let find = section(placeholders, "find_runs");
    let mark = section(placeholders, mark);
    placeholders.insert("find_runs", format!("{find}\n{mark}\n"));
}
