"""Handlers that ignore their cancellation: each costs its slot until it is replaced, up to `max_stuck`."""

import time

from worker_harness.cell import Cell, Queue
from worker_harness.checks import check_all

ITEMS = 20
STUBBORN = {"sleep_ms": 12_000, "ignore_cancel": True}


def run(cell: Cell) -> None:
    broker = cell.broker(Queue(lease="2s", max_attempts=1))
    [first] = cell.enqueue([STUBBORN])
    keys = cell.enqueue([{"sleep_ms": 10}] * ITEMS)
    worker = cell.worker(
        broker.address, concurrency=2, lease_ms=2_000, time_limit_ms=1_000, stuck_after_ms=1_000, max_stuck=1
    )
    worker.wait_for("stuck")
    worker.wait_for("completed", ITEMS)
    [cancelled] = worker.named("cancelled")
    assert (cancelled["key"], cancelled["cause"]) == (first, "time_limit"), cancelled
    [second] = cell.enqueue([STUBBORN])
    worker.wait_for("stuck", 2)
    assert worker.ask("health")["ok"] is False, "the worker is healthy with two stuck handlers"
    # A claim that was waiting already may still get this one for the slot that is left.
    [extra] = cell.enqueue([{}])
    time.sleep(1)
    [waiting] = cell.enqueue([{}])
    time.sleep(2)
    assert worker.count("claimed", waiting) == 0, "the worker claims with two stuck handlers"
    # Both handlers return now. Their leases have expired, so their results are worth nothing.
    worker.wait_for("completed", ITEMS + 2)
    assert worker.ask("health")["ok"] is True, "the worker is not healthy when the handlers have returned"
    worker.finish()
    assert {event["key"] for event in worker.named("stuck")} == {first, second}, worker.named("stuck")
    completed = [event["key"] for event in worker.named("completed")]
    assert sorted(completed) == sorted([*keys, extra, waiting]), completed
    assert cell.database.states("work") == {"completed": ITEMS + 2, "dead": 2}
    check_all(cell)
