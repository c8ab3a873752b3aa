"""2 workers with 2 slots each, 40 items of 200 ms: leases only for free slots, and both workers get a fair part."""

import time
from collections import defaultdict
from itertools import pairwise

from worker_harness.cell import Cell
from worker_harness.checks import check_all
from worker_harness.database import LEASED
from worker_harness.worker import WorkerProcess, now_ms

ITEMS, SLOTS = 40, 2
HANDLER_MS, CLOCKS_MS = 200, 5
FAIR_PART = 15


def run(cell: Cell) -> None:
    broker = cell.broker()
    # Both wait before the items arrive, so that neither has a head start.
    workers = [cell.worker(broker.address, concurrency=SLOTS) for _ in range(2)]
    for worker in workers:
        worker.wait_for("connected")
    cell.enqueue([{"sleep_ms": HANDLER_MS}] * ITEMS)
    cell.database.wait_for("work", {"completed": ITEMS})
    for worker in workers:
        worker.finish()
    check_leases(cell, {event["key"]: event["at_ms"] for worker in workers for event in worker.named("started")})
    for worker in workers:
        check_worker(worker)
    check_all(cell)


def check_leases(cell: Cell, started: dict[str, float]) -> None:
    """The broker may commit the leases of `next` before the completions that carry it. So a worker may hold more leases
    than it has slots, but not more than it has slots and handlers that have ended."""
    offset = now_ms() - time.time() * 1000
    held: defaultdict[str, set[str]] = defaultdict(set)
    owners: dict[str, str] = {}
    most = 0
    for change in cell.database.history("work"):
        if change.state != LEASED:
            held[owners[change.key]].remove(change.key)
            continue
        assert change.owner is not None
        owners[change.key] = change.owner
        of_worker = held[change.owner]
        moment = change.state_time + offset + CLOCKS_MS
        ended = sum(key in started and started[key] + HANDLER_MS <= moment for key in of_worker)
        of_worker.add(change.key)
        assert len(of_worker) <= SLOTS + ended, f"{change.owner} holds {of_worker}, {ended} of them have ended"
        most = max(most, sum(map(len, held.values())))
    assert most >= 2 * SLOTS, f"never more than {most} leases"


def check_worker(worker: WorkerProcess) -> None:
    """By its own events the worker never holds more leases than it has slots."""
    held = most = 0
    for event in worker.events:
        held += {"claimed": 1, "completed": -1}.get(event["ev"], 0)
        most = max(most, held)
    assert most <= SLOTS, f"{worker.name} held {most} leases"
    keys = [int(event["key"]) for event in worker.named("claimed")]
    assert len(keys) >= FAIR_PART, f"{worker.name} did {len(keys)} of {ITEMS} items"
    assert all(first < second for first, second in pairwise(keys)), f"{worker.name} claimed {keys}"
