//! The results as a table and as JSON.

use std::path::Path;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value as Json, json};

use crate::design::Way;
use crate::rounds::Outcome;

const COLUMNS: [&str; 12] = [
    "database",
    "design",
    "workers",
    "way",
    "items/s",
    "of each run",
    "times straight",
    "wasted tries/item",
    "statements/call",
    "workers' µs/item",
    "broker's",
    "server's",
];

/// Prints a line for each kind of run.
pub(crate) fn print(results: &[Outcome]) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(COLUMNS);
    for result in results {
        let micros = |cost: Option<f64>| cost.map_or("-".to_owned(), |cost| format!("{cost:.0}"));
        let statements = |served: crate::broker::Served| {
            format!("{:.3} claim, {:.3} settle", served.claim, served.settle)
        };
        let rates: Vec<String> = result
            .rates
            .iter()
            .map(|rate| format!("{rate:.0}"))
            .collect();
        table.add_row([
            result.database.to_owned(),
            result.design.name().to_owned(),
            result.workers.to_string(),
            result.way.name().to_owned(),
            format!("{:.0}", mean(result)),
            rates.join(" "),
            times_straight(results, result).map_or("-".to_owned(), |times| format!("{times:.1}")),
            format!("{:.2}", result.wasted),
            result.served.map_or("-".to_owned(), statements),
            micros(result.cost.workers),
            micros(result.cost.broker),
            micros(result.cost.server),
        ]);
    }
    for at in [2, 4, 7, 9, 10, 11] {
        if let Some(column) = table.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    #[expect(clippy::print_stdout, reason = "what the program is for")]
    {
        println!("{table}");
    }
}

/// Writes the same to a file.
pub(crate) fn write(results: &[Outcome], file: &Path) {
    let entry = |result: &Outcome| -> Json {
        json!({
            "database": result.database,
            "design": result.design.name(),
            "workers": result.workers,
            "way": result.way.name(),
            "items_per_second": mean(result),
            "runs": result.rates,
            "times_straight": times_straight(results, result),
            "wasted_tries_per_item": result.wasted,
            "claim_statements_per_call": result.served.map(|served| served.claim),
            "settle_statements_per_call": result.served.map(|served| served.settle),
            "cpu_micros_per_item": {
                "workers": result.cost.workers,
                "broker": result.cost.broker,
                "server": result.cost.server,
            },
        })
    };
    let entries: Vec<Json> = results.iter().map(entry).collect();
    let text = format!("{:#}\n", Json::Array(entries));
    std::fs::write(file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

/// Returns how many times as fast this is as straight on the database.
fn times_straight(results: &[Outcome], one: &Outcome) -> Option<f64> {
    let kind = |outcome: &Outcome| (outcome.database, outcome.design, outcome.workers);
    let same = |other: &&Outcome| other.way == Way::Straight && kind(other) == kind(one);
    let straight = results.iter().find(same)?;
    (one.way != Way::Straight).then(|| mean(one) / mean(straight))
}

#[expect(clippy::cast_precision_loss, reason = "figures to read")]
fn mean(result: &Outcome) -> f64 {
    result.rates.iter().sum::<f64>() / result.rates.len() as f64
}
