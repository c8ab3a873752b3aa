"""A handler that blocks its thread or event loop for 7 s, with a lease of 2 s: heartbeats keep the lease.

In Python another handler also holds the interpreter's lock for 1 s at a time, with a lease of 6 s: a heartbeat needs
the lock several times.
"""

from worker_harness.cell import Cell, Queue
from worker_harness.checks import check_all
from worker_harness.scenarios.heartbeats import HANDLER_MS, LEASE_MS, MIN_BEATS, expect_kept

LEASE_WITH_LOCK_MS = 6_000
MIN_BEATS_WITH_LOCK = 1


def run(cell: Cell) -> None:
    broker = cell.broker(Queue(lease="2s"))
    modes = {"block_ms": (LEASE_MS, MIN_BEATS)}
    if cell.language.folder == "python":
        modes["hold_ms"] = (LEASE_WITH_LOCK_MS, MIN_BEATS_WITH_LOCK)
    for mode, (lease_ms, min_beats) in modes.items():
        [key] = cell.enqueue([{mode: HANDLER_MS}])
        worker = cell.worker(broker.address, lease_ms=lease_ms)
        worker.wait_for("completed")
        worker.finish()
        expect_kept(cell, worker, key, min_beats)
    check_all(cell)
