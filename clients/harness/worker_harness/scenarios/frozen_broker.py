"""One of two brokers freezes while a worker has work for 12 s. The work goes on over the other one."""

import signal
import time

from worker_harness.cell import Cell, Queue
from worker_harness.checks import check_all

ITEMS, SLOTS, HANDLER_MS = 48, 2, 500
MAX_SECONDS = 35


def run(cell: Cell) -> None:
    first, frozen = cell.broker(Queue(lease="20s")), cell.broker()
    cell.enqueue([{"sleep_ms": HANDLER_MS}] * ITEMS)
    worker = cell.worker([first.address, frozen.address], concurrency=SLOTS)
    worker.wait_for("completed", 4)
    frozen.signal(signal.SIGSTOP)
    begun = time.monotonic()
    try:
        worker.wait_for("completed", ITEMS, seconds=120)
        seconds = time.monotonic() - begun
    finally:
        frozen.signal(signal.SIGCONT)
    cell.notes.append(f"{seconds:.1f} s for work of 11 s")
    worker.finish()
    assert cell.database.states("work") == {"completed": ITEMS}
    assert seconds <= MAX_SECONDS, f"the work took {seconds:.1f} s"
    check_all(cell)
