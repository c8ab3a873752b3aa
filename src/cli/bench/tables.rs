//! The results as tables for people.

use std::time::Duration;

use super::latency::{Rpc, Summary};
use super::load::Work;
use super::measured::Measured;
use super::noop::Noop;
use super::results::Results;
use crate::cli::output::{self, print_line, write_line};

/// What is not known.
const UNKNOWN: &str = "–";

/// Prints the results.
pub(super) fn print(results: &Results) {
    let run = &results.over_grpc;
    rpcs(run, results.noop);
    if let Some(table) = run.timetable {
        print_line!(
            "\nclaims: {} sent in time, {} late, {} missed",
            table.sent - table.late,
            table.late,
            table.missed
        );
    }
    uses(run);
    statements(results);
    minutes(run);
    baselines(results);
    let (total, balance) = (&run.total, &run.balance);
    print_line!(
        "\nenqueued {}  completed {}  failed {}  released {}  dead {}  left {}  lost {}",
        total.added,
        total.completed,
        total.failed,
        total.released,
        total.dead,
        balance.left,
        total.lost
    );
    let (rate, what) = match results.load.work {
        Work::Hold { .. } => (run.per_second(run.extended), "leases extended/s"),
        Work::Items(_) | Work::For { .. } => (run.items_per_second(), "items/s"),
    };
    print_line!(
        "{} {what} over {} s, {} calls/s",
        number(rate),
        number(run.time.as_secs_f64()),
        number(run.calls_per_second())
    );
}

fn rpcs(run: &Measured, noop: Option<[Noop; 2]>) {
    let mut table = output::table();
    table.set_header(["rpc", "calls", "calls/s", "p50", "p99", "p99.9", "max"]);
    let mut row = |name: String, summary: &Summary, calls_per_second: f64| {
        let times = [summary.p50, summary.p99, summary.p999, summary.max].map(time);
        let counts = [name, summary.calls.to_string(), number(calls_per_second)];
        table.add_row(counts.into_iter().chain(times));
    };
    for (rpc, summary) in &run.rpcs {
        row(
            rpc.name().to_owned(),
            summary,
            run.per_second(summary.calls),
        );
    }
    for (noop, when) in noop.into_iter().flatten().zip(["before", "after"]) {
        if let Some(summary) = &noop.summary {
            row(
                format!("{}, {when}", Rpc::Check.name()),
                summary,
                noop.calls_per_second,
            );
        }
    }
    output::align_left(&mut table);
    write_line(&table.trim_fmt());
}

fn uses(run: &Measured) {
    let mut table = output::table();
    table.set_header([
        "uses",
        "cores",
        "µs/item",
        "resident",
        "at most",
        "store, start",
        "end",
    ]);
    let cpu = |cpu: Option<Duration>| {
        let cores = cpu.map(|cpu| format!("{:.2}", run.cores(cpu)));
        let each = cpu.and_then(|cpu| run.micros_per_item(cpu)).map(number);
        [cores, each].map(|cell| cell.unwrap_or_else(|| UNKNOWN.to_owned()))
    };
    let [cores, each] = cpu(run.broker_cpu);
    let [start, end] = run.store_bytes.map(bytes);
    table.add_row([
        "broker".to_owned(),
        cores,
        each,
        bytes(run.memory.map(|memory| memory.resident)),
        bytes(run.memory.map(|memory| memory.peak)),
        start,
        end,
    ]);
    let [cores, each] = cpu(run.own_cpu);
    table.add_row(["generator".to_owned(), cores, each]);
    output::align_left(&mut table);
    print_line!("\n{}", table.trim_fmt());
}

#[expect(clippy::cast_precision_loss, reason = "ratios")]
fn statements(results: &Results) {
    let Some(served) = &results.served else {
        return;
    };
    let mut table = output::table();
    table.set_header([
        "broker, from its start",
        "calls",
        "statements",
        "items",
        "statements/call",
    ]);
    for (operation, count) in served.iter().filter(|(_, count)| count.statements > 0) {
        let each = if count.calls > 0 {
            number(count.statements as f64 / count.calls as f64)
        } else {
            UNKNOWN.to_owned()
        };
        let counts = [count.calls, count.statements, count.items].map(|count| count.to_string());
        let name = operation.name().to_owned();
        table.add_row([name].into_iter().chain(counts).chain([each]));
    }
    output::align_left(&mut table);
    print_line!("\n{}", table.trim_fmt());
}

fn minutes(run: &Measured) {
    if run.minutes.is_empty() {
        return;
    }
    let mut table = output::table();
    table.set_header(["minute", "items/s", "ClaimBatch p99", "resident", "store"]);
    for (at, minute) in run.minutes.iter().enumerate() {
        table.add_row([
            (at + 1).to_string(),
            number(minute.items_per_second),
            minute.claim_p99.map_or(UNKNOWN.to_owned(), time),
            bytes(minute.resident),
            bytes(minute.store_bytes),
        ]);
    }
    output::align_left(&mut table);
    print_line!("\n{}", table.trim_fmt());
    if let Some(share) = run.last_minute_to_first() {
        print_line!("the last minute's items/s are {:.2} of the first's", share);
    }
}

fn baselines(results: &Results) {
    let mut lines = Vec::new();
    if let (Some([before, after]), Some(share)) = (results.noop, results.of_ceiling()) {
        lines.push(format!(
            "empty call: {} calls/s before, {} after; the load's calls are {:.0} % of its ceiling",
            number(before.calls_per_second),
            number(after.calls_per_second),
            share * 100.0
        ));
    }
    let layers = [
        ("the broker without gRPC", &results.broker),
        ("the store alone", &results.direct),
    ];
    for (name, run) in layers {
        if let Some(run) = run
            && let Some(share) = results.of_baseline(run)
        {
            let items = number(run.items_per_second());
            let percent = share * 100.0;
            lines.push(format!(
                "{name}: {items} items/s; over gRPC {percent:.0} % of it"
            ));
        }
    }
    if !lines.is_empty() {
        print_line!("\n{}", lines.join("\n"));
    }
}

/// Writes microseconds in the unit that suits them.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn time(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{} ms", number(micros as f64 / 1e3)),
        _ => format!("{} s", number(micros as f64 / 1e6)),
    }
}

/// Writes a number to three digits or, if it is large, as a whole one.
fn number(number: f64) -> String {
    match number.abs() {
        0.0..10.0 => format!("{number:.2}"),
        10.0..100.0 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn bytes(bytes: Option<u64>) -> String {
    bytes.map_or(UNKNOWN.to_owned(), |bytes| {
        format!("{} MB", number(bytes as f64 / 1e6))
    })
}
