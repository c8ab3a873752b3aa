"""The reply of a claim is lost, 20 times: the same request gets the same lease again, and no item waits for expiry."""

import time

from worker_harness.cell import Cell, Queue
from worker_harness.checks import check_all
from worker_harness.database import COMPLETED

TIMES = 20
MAX_SECONDS = 20


def run(cell: Cell) -> None:
    broker = cell.broker(Queue(lease="10m"))
    proxy = cell.proxy(broker)
    worker = cell.worker(proxy.address, lease_ms=600_000)
    begun = time.monotonic()
    for number in range(1, TIMES + 1):
        wait_for_claim(cell, number)
        proxy.swallow()
        cell.enqueue([{}])
        worker.wait_for("completed", number)
    seconds = time.monotonic() - begun
    worker.finish()
    assert proxy.swallowed == TIMES
    assert seconds <= MAX_SECONDS, f"{seconds:.1f} s"
    rows = cell.database.rows("work")
    assert {(row.state, row.attempt, row.fence) for row in rows} == {(COMPLETED, 1, 1)}, rows
    assert worker.count("retry") >= TIMES
    check_all(cell)


def wait_for_claim(cell: Cell, number: int) -> None:
    """Waits until the worker's claim waits at the broker, so that the next answer is that of the claim."""
    until = time.monotonic() + 30
    while cell.brokers[0].metric("lease_broker_claim_waiting") < 1:
        assert time.monotonic() < until, f"no claim waits before item {number}"
        time.sleep(0.01)
