"""Callbacks of a cancellation raise or block. The leases of other handlers are kept, and the worker stops in order."""

from worker_harness.cell import Cell, Queue
from worker_harness.checks import check_all
from worker_harness.database import COMPLETED

LEASE_MS, LIMIT_MS, HANDLER_MS = 2_000, 4_000, 3_500


def run(cell: Cell) -> None:
    broker = cell.broker(Queue(lease="2s", max_attempts=1))
    worker = cell.worker(broker.address, concurrency=4, lease_ms=LEASE_MS, time_limit_ms=LIMIT_MS)
    cell.enqueue([{"sleep_ms": 20_000, "on_cancel": how} for how in ("raise", "block")])
    worker.wait_for("started", 2)
    healthy = cell.enqueue([{"sleep_ms": HANDLER_MS}] * 2)
    worker.wait_for("cancelled", 2)
    worker.wait_for("completed", 2)
    # The worker goes on after the callbacks.
    healthy += cell.enqueue([{"sleep_ms": HANDLER_MS}])
    worker.wait_for("completed", 3)
    assert worker.ask("health")["ok"]
    worker.finish()
    rows = {row.key: row for row in cell.database.rows("work")}
    for key in healthy:
        assert (rows[key].state, rows[key].fence) == (COMPLETED, 1), rows[key]
    assert worker.count("lost") == 0, worker.named("lost")
    check_all(cell)
