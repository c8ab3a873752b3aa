//! Makes a failing plan small: leaves parts out as long as it still fails.

use super::plan::Plan;
use super::run::run;

pub(super) fn shrink(plan: &Plan) -> Plan {
    let mut smallest = plan.clone();
    while let Some(smaller) = smaller_plans(&smallest)
        .into_iter()
        .find(|plan| run(plan).is_err())
    {
        smallest = smaller;
    }
    smallest
}

/// Returns the plans that lack one part.
fn smaller_plans(plan: &Plan) -> Vec<Plan> {
    let mut plans = Vec::new();
    for worker in 0..plan.workers.len() {
        let mut smaller = plan.clone();
        smaller.workers.remove(worker);
        plans.push(smaller);
    }
    for fault in 0..plan.faults.len() {
        let mut smaller = plan.clone();
        smaller.faults.remove(fault);
        plans.push(smaller);
    }
    for (worker, turns) in plan.workers.iter().map(|worker| &worker.turns).enumerate() {
        for turn in 0..turns.len() {
            let mut smaller = plan.clone();
            smaller.workers[worker].turns.remove(turn);
            plans.push(smaller);
        }
    }
    if plan.items > 1 {
        plans.push(Plan {
            items: plan.items - 1,
            ..plan.clone()
        });
    }
    if plan.brokers > 1 {
        plans.push(Plan {
            brokers: 1,
            ..plan.clone()
        });
    }
    plans
}
