//! The results as a table and as JSON.

use std::path::Path;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value as Json, json};

use crate::design::Access;
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

/// Prints one line per kind of run.
pub(crate) fn print(results: &[Outcome]) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(COLUMNS);
    for result in results {
        let micros = |cost: Option<f64>| cost.map_or("-".to_owned(), |cost| format!("{cost:.0}"));
        let statements = |statements: crate::child_broker::StatementsPerCall| {
            format!(
                "{:.3} claim, {:.3} settle",
                statements.claim, statements.settle
            )
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
            result.access.name().to_owned(),
            format!("{:.0}", mean(result)),
            rates.join(" "),
            ratio_to_direct(results, result).map_or("-".to_owned(), |times| format!("{times:.1}")),
            format!("{:.2}", result.wasted),
            result.statements.map_or("-".to_owned(), statements),
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
    #[expect(clippy::print_stdout, reason = "the output of the benchmark")]
    {
        println!("{table}");
    }
}

/// Writes the results to a file as JSON.
pub(crate) fn write(results: &[Outcome], file: &Path) {
    let entry = |result: &Outcome| -> Json {
        json!({
            "database": result.database,
            "design": result.design.name(),
            "workers": result.workers,
            "way": result.access.name(),
            "items_per_second": mean(result),
            "runs": result.rates,
            "times_straight": ratio_to_direct(results, result),
            "wasted_tries_per_item": result.wasted,
            "claim_statements_per_call": result.statements.map(|statements| statements.claim),
            "settle_statements_per_call": result.statements.map(|statements| statements.settle),
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

/// Returns the speed divided by that of direct access. `None`: this is the direct access.
fn ratio_to_direct(results: &[Outcome], one: &Outcome) -> Option<f64> {
    let kind = |outcome: &Outcome| (outcome.database, outcome.design, outcome.workers);
    let same = |other: &&Outcome| other.access == Access::Direct && kind(other) == kind(one);
    let straight = results.iter().find(same)?;
    (one.access != Access::Direct).then(|| mean(one) / mean(straight))
}

#[expect(clippy::cast_precision_loss, reason = "printed with few digits")]
fn mean(result: &Outcome) -> f64 {
    result.rates.iter().sum::<f64>() / result.rates.len() as f64
}
