//! The results of a bench as tables for people.

use comfy_table::Table;
use lease_broker::cli::output::{self, write_line};

use crate::errors::ErrorCounts;
use crate::latency::{Rpc, RpcSummary};
use crate::overload::Overload;
use crate::report::Report;
use crate::samples::{CpuStats, Measured};

/// Prints a formatted line to standard output. Unlike `println!`, it does not panic if the reader has closed the pipe.
macro_rules! print_line {
    ($($argument:tt)*) => {
        write_line(&format!($($argument)*))
    };
}

/// The cell of an unknown value.
const UNKNOWN: &str = "–";

/// Prints the results.
pub(crate) fn print(report: &Report) {
    let load = &report.load;
    print_rpcs(report);
    if let Some(claims) = load.schedule {
        print_line!(
            "\nclaims: {} sent in time, {} late, {} missed",
            claims.sent - claims.late,
            claims.late,
            claims.missed
        );
    }
    print_errors(&load.errors);
    print_resources(load);
    print_statements(report);
    print_minutes(load);
    if let Some(noop) = &report.baselines.noop
        && let Some(ratio) = noop.ratio_to_noop
    {
        print_line!(
            "\nempty call: {} calls/s before, {} after; the load reaches {:.0} % of that",
            number(noop.before.calls_per_second),
            number(noop.after.calls_per_second),
            ratio * 100.0
        );
    }
    let items = &load.items;
    print_line!(
        "\nenqueued {}  completed {}  failed {}  released {}  dead {}  left {}  lost {}",
        items.enqueued,
        items.completed,
        items.failed,
        items.released,
        items.dead,
        items.unfinished,
        items.leases_lost
    );
    let (rate, unit) = if report.parameters.load.hold_leases.is_some() {
        (load.leases_extended_per_second, "leases extended/s")
    } else {
        (load.items_per_second, "items/s")
    };
    print_line!(
        "{} {unit} over {} s, {} calls/s",
        number(rate),
        number(load.seconds),
        number(load.calls_per_second)
    );
}

/// Prints the results of an overload run.
pub(crate) fn print_overload(overload: &Overload) {
    print_line!(
        "capacity {} items/s; then {} calls/s sent, {} due and not sent, {} items/s completed",
        number(overload.capacity),
        number(overload.offered),
        overload.unsent,
        number(overload.goodput)
    );
    print_errors(&overload.errors);
    for (rpc, reasons) in &overload.honest_errors {
        let count: u64 = reasons.values().sum();
        print_line!("honest workers, {rpc:?}: {count} calls answered with errors");
    }
    let mut checks = table("check|measured|limit|holds");
    for check in &overload.checks {
        let holds = if check.holds { "yes" } else { "NO" };
        checks.add_row([
            check.name,
            &number(check.value),
            &number(check.limit),
            holds,
        ]);
    }
    print_table("\n", checks);
}

fn print_errors(errors: &ErrorCounts) {
    for (rpc, reasons) in errors {
        for (reason, count) in reasons {
            print_line!("{rpc:?}: {count} calls answered with {reason}");
        }
    }
}

fn print_rpcs(report: &Report) {
    let mut table = table("rpc|calls|calls/s|p50|p99|p99.9|max");
    let mut add = |name: String, rpc: &RpcSummary| {
        let latencies = [rpc.p50_us, rpc.p99_us, rpc.p999_us, rpc.max_us].map(latency);
        let counts = [name, rpc.calls.to_string(), number(rpc.calls_per_second)];
        table.add_row(counts.into_iter().chain(latencies));
    };
    for (rpc, summary) in &report.load.rpcs {
        add(format!("{rpc:?}"), summary);
    }
    if let Some(noop) = &report.baselines.noop {
        add(format!("{:?}, before", Rpc::Check), &noop.before);
        add(format!("{:?}, after", Rpc::Check), &noop.after);
    }
    print_table("", table);
}

fn print_resources(load: &Measured) {
    let mut table = table("uses|cores|µs/item|resident|at most|store, start|end");
    let cpu = |cpu: &CpuStats| {
        let cores = cpu.cpu_cores.map(|cores| format!("{cores:.2}"));
        [cores, cpu.cpu_us_per_item.map(number)].map(or_unknown)
    };
    let [cores, per_item] = cpu(&load.broker.cpu);
    table.add_row([
        "broker".to_owned(),
        cores,
        per_item,
        megabytes(load.broker.resident_bytes_end),
        megabytes(load.broker.resident_bytes_peak),
        megabytes(load.store_bytes_start),
        megabytes(load.store_bytes_end),
    ]);
    let [cores, per_item] = cpu(&load.generator);
    table.add_row(["generator".to_owned(), cores, per_item]);
    print_table("\n", table);
}

fn print_statements(report: &Report) {
    let Some(statements) = &report.statements else {
        return;
    };
    let mut table = table("broker, from its start|calls|statements|items|statements/call");
    for (operation, count) in &statements.0 {
        if count.statements > 0 {
            table.add_row([
                operation.name().to_owned(),
                count.calls.to_string(),
                count.statements.to_string(),
                count.items.to_string(),
                or_unknown(count.statements_per_call.map(number)),
            ]);
        }
    }
    print_table("\n", table);
}

fn print_minutes(load: &Measured) {
    if load.minutes.is_empty() {
        return;
    }
    let mut table = table("minute|items/s|ClaimBatch p99|resident|store");
    for (number_of_minute, minute) in (1..).zip(&load.minutes) {
        table.add_row([
            i32::to_string(&number_of_minute),
            number(minute.items_per_second),
            or_unknown(minute.claim_batch_p99_us.map(latency)),
            megabytes(minute.resident_bytes),
            megabytes(minute.store_bytes),
        ]);
    }
    print_table("\n", table);
    if let Some(ratio) = load.last_minute_to_first {
        print_line!("items/s in the last minute: {ratio:.2} of the first minute's");
    }
}

/// Returns an empty table. `columns`: the headers, separated by `|`.
fn table(columns: &str) -> Table {
    let mut table = output::table();
    table.set_header(columns.split('|'));
    table
}

fn print_table(before: &str, mut table: Table) {
    output::align_left(&mut table);
    write_line(&format!("{before}{}", table.trim_fmt()));
}

fn or_unknown(cell: Option<String>) -> String {
    cell.unwrap_or_else(|| UNKNOWN.to_owned())
}

/// Formats microseconds with a suitable unit.
#[expect(clippy::cast_precision_loss, reason = "three digits are printed")]
fn latency(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{} ms", number(micros as f64 / 1e3)),
        _ => format!("{} s", number(micros as f64 / 1e6)),
    }
}

/// Formats a number with three digits, or as an integer from 100.
fn number(number: f64) -> String {
    match number.abs() {
        0.0..10.0 => format!("{number:.2}"),
        10.0..100.0 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "three digits are printed")]
fn megabytes(bytes: Option<u64>) -> String {
    or_unknown(bytes.map(|bytes| format!("{} MB", number(bytes as f64 / 1e6))))
}
