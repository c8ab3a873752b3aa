"""2 workers with 2 slots each, 40 items of 200 ms: no more than 4 leases, and both workers get a fair part."""

import time
from itertools import pairwise

from worker_harness.cell import Cell
from worker_harness.checks import check_all

ITEMS, SLOTS = 40, 2
FAIR_PART = 15
READ_SECONDS = 0.02


def run(cell: Cell) -> None:
    broker = cell.broker()
    # Both wait before the items arrive, so that neither has a head start.
    workers = [cell.worker(broker.address, concurrency=SLOTS) for _ in range(2)]
    for worker in workers:
        worker.wait_for("connected")
    cell.enqueue([{"sleep_ms": 200}] * ITEMS)
    readings, until = [], time.monotonic() + 60
    while sum(worker.count("completed") for worker in workers) < ITEMS:
        readings.append(cell.database.states("work").get("leased", 0))
        assert time.monotonic() < until, [worker.counts() for worker in workers]
        time.sleep(READ_SECONDS)
    for worker in workers:
        worker.finish()
    # The broker may commit the leases of `next` a moment before the completion that carries it.
    over = sum(reading > 2 * SLOTS for reading in readings)
    assert 2 * SLOTS in readings, f"leased rows: {readings}"
    assert over <= len(readings) / 10, f"leased rows: {readings}"
    for worker in workers:
        held = most = 0
        for event in worker.events:
            held += {"claimed": 1, "completed": -1}.get(event["ev"], 0)
            most = max(most, held)
        assert most <= SLOTS, f"{worker.name} held {most} leases"
        keys = [int(event["key"]) for event in worker.named("claimed")]
        assert len(keys) >= FAIR_PART, f"{worker.name} did {len(keys)} of {ITEMS} items"
        assert all(first < second for first, second in pairwise(keys)), f"{worker.name} claimed {keys}"
    check_all(cell)
