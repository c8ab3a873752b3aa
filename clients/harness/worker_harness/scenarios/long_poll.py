"""A queue that is empty for 10 s, then one item: few claims, and the item is started soon after it was added."""

import time

from worker_harness.cell import Cell
from worker_harness.checks import check_all
from worker_harness.worker import now_ms

EMPTY_SECONDS = 10
MAX_CLAIMS = 2
MAX_DELAY_MS = 250


def run(cell: Cell) -> None:
    broker = cell.broker()
    worker = cell.worker(broker.address)
    time.sleep(EMPTY_SECONDS)
    claims = broker.calls("ClaimBatch")
    assert claims <= MAX_CLAIMS, f"{claims} claims in {EMPTY_SECONDS} s"
    cell.enqueue([{}])
    added = now_ms()
    started = worker.wait_for("started")
    worker.wait_for("completed")
    worker.finish()
    delay = started["at_ms"] - added
    assert delay <= MAX_DELAY_MS, f"the item was started {delay:.0f} ms after it was added"
    check_all(cell)
