"""Handlers that outlast the grace: those that obey release their items with checkpoints, the other keeps its lease."""

import time

from worker_harness.cell import Cell, Queue
from worker_harness.checks import check_all
from worker_harness.database import LEASED, READY
from worker_harness.worker import now_ms

GRACE_MS, HANDLER_MS, LEASE_MS = 1_000, 60_000, 2_000
MAX_SECONDS = 7.5


def run(cell: Cell) -> None:
    broker = cell.broker(Queue(lease="2s"))
    obedient = cell.enqueue([{"sleep_ms": HANDLER_MS, "checkpoint": f"half {number}"} for number in range(2)])
    [stubborn] = cell.enqueue([{"sleep_ms": HANDLER_MS, "ignore_cancel": True}])
    first = cell.worker(broker.address, concurrency=3, lease_ms=LEASE_MS)
    first.wait_for("started", 3)
    # A heartbeat may or may not have carried the checkpoints already.
    time.sleep(cell.random.uniform(0, 1))
    begun = now_ms()
    first.stop(GRACE_MS)
    first.wait_for_end(MAX_SECONDS, code=1)
    seconds = (now_ms() - begun) / 1000
    assert seconds >= GRACE_MS / 1000, f"the worker waited only {seconds:.1f} s"
    for event in first.named("cancelled"):
        assert event["cause"] == "shutdown", event
    rows = {row.key: row for row in cell.database.rows("work")}
    for number, key in enumerate(obedient):
        row = rows[key]
        assert (row.state, row.attempt, row.checkpoint) == (READY, 0, f"half {number}".encode()), row
    assert rows[stubborn].state == LEASED or rows[stubborn].attempt == 1, rows[stubborn]

    # An item whose lease has expired is leased alone and first.
    cell.database.wait_for("work", {"ready": 3})
    second = cell.worker(broker.address, concurrency=3, lease_ms=LEASE_MS)
    assert second.wait_for("started")["key"] == stubborn, second.events
    assert second.named("started", stubborn)[0]["attempt"] == 2, second.events
    third = cell.worker(broker.address, concurrency=3, lease_ms=LEASE_MS)
    third.wait_for("started", 2)
    for number, key in enumerate(obedient):
        [started] = third.named("started", key)
        assert (started["attempt"], started["checkpoint"]) == (1, f"half {number}"), started
    second.stop(0)
    second.wait_for_end(MAX_SECONDS, code=1)
    third.finish(grace_ms=0)
    cell.database.wait_for("work", {"ready": 3}, seconds=15)
    check_all(cell)
