"""Handlers that return at once: items per second and processor time beside a loop over the generated stubs."""

import statistics

from worker_harness.cell import Cell
from worker_harness.checks import check_all
from worker_harness.scenarios.lease_lost import settlements_of_lost_leases
from worker_harness.worker import Event

# Items by the number of slots.
ITEMS = {1: 1_000, 10: 8_000, 100: 40_000}
PAIRS = 5
QUICK_ITEMS = {10: 2_000}


def run(cell: Cell) -> None:
    broker = cell.broker(watch=False)
    pairs = 1 if cell.quick else PAIRS
    done = 0
    missed = []
    for slots, items in (QUICK_ITEMS if cell.quick else ITEMS).items():
        ratios, raw_rates, rates, raw_cpu, cpu = [], [], [], [], []
        for pair in range(pairs):
            # The second of a pair runs on a warmer machine, so the order changes.
            order = (True, False) if pair % 2 == 0 else (False, True)
            warm_up = 0 if cell.quick else slots * cell.language.warm_up_calls
            results = {raw: measure(cell, slots, items, warm_up, raw) for raw in order}
            done += 2 * (items + warm_up)
            raw_rates.append(results[True]["items"] / results[True]["seconds"])
            rates.append(results[False]["items"] / results[False]["seconds"])
            ratios.append(rates[-1] / raw_rates[-1])
            raw_cpu.append(results[True]["cpu_seconds"] / results[True]["items"] * 1e6)
            cpu.append(results[False]["cpu_seconds"] / results[False]["items"] * 1e6)
            assert cell.database.states("work") == {"completed": done}, cell.database.states("work")
        ratio = statistics.median(ratios)
        costs = [mine / bare for mine, bare in zip(cpu, raw_cpu, strict=True)]
        cell.notes.append(
            f"{slots} slots: raw {statistics.median(raw_rates):.0f} items/s, worker {statistics.median(rates):.0f},"
            f" ratio {ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f}),"
            f" processor {statistics.median(raw_cpu):.1f} and {statistics.median(cpu):.1f} µs per item,"
            f" ratio {statistics.median(costs):.2f} ({min(costs):.2f} to {max(costs):.2f})"
        )
        limit = cell.language.min_throughput_ratio
        if ratio < limit and not cell.quick:
            missed.append(f"{slots} slots: the ratio {ratio:.2f} is below {limit}")
    assert {(fence,) for (fence,) in cell.database.query("SELECT DISTINCT lease_fence FROM work")} == {(1,)}
    assert settlements_of_lost_leases(broker) == 0
    check_all(cell)
    assert not missed, "; ".join(missed)


def measure(cell: Cell, slots: int, items: int, warm_up: int, raw: bool) -> Event:
    """Adds items and runs a worker or the loop until they are done. Returns its report on those after the warm-up."""
    cell.enqueue([{}] * (items + warm_up))
    worker = cell.worker(
        cell.brokers[0].address, concurrency=slots, until=items, warm_up=warm_up, raw=raw, noop=not raw
    )
    done = worker.wait_for("done", seconds=300)
    worker.wait_for_end(30)
    return done
