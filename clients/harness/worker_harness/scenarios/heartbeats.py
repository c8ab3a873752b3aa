"""A handler that takes 7 s with a lease of 2 s: heartbeats keep the lease."""

from worker_harness.cell import Cell, Queue
from worker_harness.checks import check_all
from worker_harness.database import COMPLETED
from worker_harness.worker import WorkerProcess

LEASE_MS, HANDLER_MS = 2_000, 7_000
MIN_BEATS, MAX_BEATS = 9, 12


def run(cell: Cell) -> None:
    broker = cell.broker(Queue(lease="2s"))
    [key] = cell.enqueue([{"sleep_ms": HANDLER_MS}])
    worker = cell.worker(broker.address, lease_ms=LEASE_MS)
    worker.wait_for("completed")
    worker.finish()
    expect_kept(cell, worker, key, MIN_BEATS)
    assert worker.count("heartbeat_missed") == 0, worker.named("heartbeat_missed")
    check_all(cell)


def expect_kept(cell: Cell, worker: WorkerProcess, key: str, min_beats: int) -> None:
    """Checks that heartbeats have kept the only lease of an item."""
    [row] = [row for row in cell.database.rows("work") if row.key == key]
    assert (row.state, row.attempt, row.fence) == (COMPLETED, 1, 1), row
    assert min_beats <= worker.beats() <= MAX_BEATS, f"{worker.beats()} heartbeats"
    for name in ("lost", "cancelled"):
        assert worker.count(name) == 0, worker.named(name)
