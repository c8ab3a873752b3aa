//! The results as JSON: keys in `snake_case` with their units; null is not known.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value as Json, json};

use super::Bench;
use super::child_log::Served;
use super::latency::{Rpc, Summary};
use super::load::{Load, Work};
use super::machine::Machine;
use super::measured::{Measured, per_second};
use super::minutes::Minute;
use super::noop::Noop;
use super::results::Results;
use crate::cli::CommandError;
use crate::cli::output::write_line;

/// Writes the results to a file, or to standard output for `-`.
pub(super) fn write(results: &Results, bench: &Bench, file: &Path) -> Result<(), CommandError> {
    let text = format!("{:#}", report(results, bench));
    if file == Path::new("-") {
        write_line(&text);
        return Ok(());
    }
    std::fs::write(file, text + "\n")
        .map_err(|error| CommandError::io(format!("--json {}: {error}", file.display())))
}

fn report(results: &Results, bench: &Bench) -> Json {
    let machine = Machine::this();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "machine": {
            "cores": machine.cores,
            "cpu": machine.cpu,
            "memory_bytes": machine.memory_bytes,
            "kernel": machine.kernel,
        },
        "store": results.store,
        "parameters": parameters(results, bench),
        "load": measured(&results.over_grpc),
        "statements": results.served.as_ref().map(statements),
        "baselines": {
            "noop": results.noop.map(|noop| noops(noop, results.of_ceiling())),
            "broker": results.broker.as_ref().map(|measured| baseline(results, measured)),
            "direct": results.direct.as_ref().map(|measured| baseline(results, measured)),
        },
        "wrong": results.wrongs,
    })
}

fn parameters(results: &Results, bench: &Bench) -> Json {
    let load: &Load = &results.load;
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    let (mut items, mut backlog, mut hold) = (None, None, None);
    match load.work {
        Work::Items(count) => items = Some(count),
        Work::For { backlog: count, .. } => backlog = Some(count),
        Work::Hold { leases, .. } => hold = Some(leases),
    }
    json!({
        "address": bench.target.address,
        "config": bench.target.config,
        "queues": results.queues,
        "on_complete": bench.target.is_temporary().then(|| bench.target.on_complete.name()),
        "workers": load.workers,
        "connections": load.connections,
        "batch": load.batch,
        "next": load.next,
        "payload_bytes": load.terms.payload.len(),
        "items": items,
        "duration_seconds": seconds(load.time()),
        "backlog": backlog,
        "warm_up_seconds": load.warm_up.as_secs_f64(),
        "heartbeats": load.mix.heartbeats,
        "fail": load.mix.fail,
        "release": load.mix.release,
        "wait_seconds": seconds(load.terms.wait),
        "lease_seconds": seconds(load.terms.lease),
        "hold": hold,
        "rate_per_second": load.rate,
    })
}

/// Returns a run as JSON.
fn measured(run: &Measured) -> Json {
    let [start, end] = run.store_bytes;
    let cpu = |cpu: Option<Duration>| {
        json!({
            "cpu_seconds": cpu.map(|cpu| cpu.as_secs_f64()),
            "cpu_cores": cpu.map(|cpu| run.cores(cpu)),
            "cpu_us_per_item": cpu.and_then(|cpu| run.micros_per_item(cpu)),
        })
    };
    let mut broker = cpu(run.broker_cpu);
    broker["pid"] = json!(run.pid.map(|pid| pid.0));
    broker["resident_bytes_end"] = json!(run.memory.map(|memory| memory.resident));
    broker["resident_bytes_peak"] = json!(run.memory.map(|memory| memory.peak));
    let rpcs = run
        .rpcs
        .iter()
        .map(|(of, summary)| rpc(*of, summary, run.time));
    json!({
        "seconds": run.time.as_secs_f64(),
        "items_per_second": run.items_per_second(),
        "leases_extended_per_second": run.per_second(run.extended),
        "calls_per_second": run.calls_per_second(),
        "rpcs": rpcs.collect::<Map<_, _>>(),
        "timetable": run.timetable.map(|table| json!({
            "claims_sent": table.sent,
            "claims_late": table.late,
            "claims_missed": table.missed,
        })),
        "broker": broker,
        "generator": cpu(run.own_cpu),
        "store_bytes_start": start,
        "store_bytes_end": end,
        "minutes": run.minutes.iter().map(minute).collect::<Vec<_>>(),
        "last_minute_to_first": run.last_minute_to_first(),
        "items": {
            "enqueued": run.total.added,
            "completed": run.total.completed,
            "failed": run.total.failed,
            "released": run.total.released,
            "dead": run.total.dead,
            "left": run.balance.left,
            "found": run.balance.found,
            "ended_again": run.balance.again,
            "leases_lost": run.total.lost,
            "leases_extended": run.total.extended,
            "empty_claims": run.total.empty_claims,
        },
    })
}

fn rpc(rpc: Rpc, summary: &Summary, time: Duration) -> (String, Json) {
    let row = json!({
        "calls": summary.calls,
        "calls_per_second": per_second(summary.calls, time),
        "p50_us": summary.p50,
        "p99_us": summary.p99,
        "p999_us": summary.p999,
        "max_us": summary.max,
    });
    (rpc.key().to_owned(), row)
}

fn minute(minute: &Minute) -> Json {
    json!({
        "items_per_second": minute.items_per_second,
        "claim_batch_p99_us": minute.claim_p99,
        "resident_bytes": minute.resident,
        "store_bytes": minute.store_bytes,
    })
}

#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn statements(served: &Served) -> Json {
    let rows = served.iter().map(|(operation, count)| {
        let row = json!({
            "calls": count.calls,
            "statements": count.statements,
            "items": count.items,
            "statements_per_call":
                (count.calls > 0).then(|| count.statements as f64 / count.calls as f64),
        });
        (operation.name().to_owned(), row)
    });
    Json::Object(rows.collect())
}

fn noops([before, after]: [Noop; 2], of_ceiling: Option<f64>) -> Json {
    let noop = |noop: Noop| {
        let mut row = noop.summary.map_or(json!({}), |summary| {
            rpc(Rpc::Check, &summary, Duration::from_secs(1)).1
        });
        row["calls_per_second"] = json!(noop.calls_per_second);
        row
    };
    json!({
        "before": noop(before),
        "after": noop(after),
        "of_ceiling": of_ceiling,
    })
}

fn baseline(results: &Results, run: &Measured) -> Json {
    let mut row = measured(run);
    row["load_to_baseline"] = json!(results.of_baseline(run));
    row
}
