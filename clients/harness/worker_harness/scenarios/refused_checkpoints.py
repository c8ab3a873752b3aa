"""Checkpoints that are larger than the queue allows: they cost no lease, and no failure or release goes unrecorded."""

from typing import Any

from worker_harness.cell import Cell, Queue
from worker_harness.checks import check_all
from worker_harness.database import COMPLETED, DELAYED

LEASE_MS, HANDLER_MS = 2_000, 5_000
# The default limit of a queue is 4,096 bytes.
CHECKPOINT = "x" * 5_000
LONG_MS = 600_000


def run(cell: Cell) -> None:
    broker = cell.broker(Queue(lease="2s"))
    endings: dict[str, dict[str, Any]] = {
        "completed": {"sleep_ms": HANDLER_MS},
        "failed": {"then": "raise"},
        "released": {"then": "release", "after_ms": LONG_MS},
    }
    for name, payload in endings.items():
        # A worker that has seen a refusal does not send such a checkpoint again.
        worker = cell.worker(broker.address, lease_ms=LEASE_MS)
        cell.enqueue([{"checkpoint": CHECKPOINT, **payload}])
        worker.wait_for(name)
        worker.finish()
        for other in ("lost", "cancelled", "unknown"):
            assert worker.count(other) == 0, worker.named(other)
    completed, failed, released = cell.database.rows("work")
    assert (completed.state, completed.attempt, completed.fence) == (COMPLETED, 1, 1), completed
    assert (failed.state, failed.attempt, failed.fence, failed.checkpoint) == (DELAYED, 1, 1, None), failed
    assert ": raised" in (failed.error or ""), failed
    assert (released.state, released.attempt, released.fence, released.checkpoint) == (DELAYED, 0, 1, None), released
    check_all(cell)
