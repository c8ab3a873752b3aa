"""An item that ends its process is among 40 others. It becomes dead, and all its neighbours are completed."""

import contextlib

from worker_harness.cell import Cell, Queue
from worker_harness.checks import check_all
from worker_harness.database import COMPLETED, DEAD

ITEMS, SLOTS, MAX_ATTEMPTS = 40, 8, 3
MAX_PROCESSES = 10


def run(cell: Cell) -> None:
    broker = cell.broker(Queue(lease="2s", max_attempts=MAX_ATTEMPTS))
    payloads = [{"sleep_ms": 300} for _ in range(ITEMS)]
    payloads.insert(3, {"sleep_ms": 100, "then": "exit"})
    keys = cell.enqueue(payloads)
    poison = keys[3]
    for _ in range(MAX_PROCESSES):
        worker = cell.worker(broker.address, lease_ms=2_000, concurrency=SLOTS)
        worker.killed = True  # Its exit code is not looked at.
        with contextlib.suppress(AssertionError):
            worker.wait(lambda _: cell.database.states("work").get("completed", 0) == ITEMS, 30)
        if cell.database.states("work") == {"completed": ITEMS, "dead": 1}:
            worker.finish()
            break
        worker.wait_for_end(60)
    rows = {row.key: row for row in cell.database.rows("work")}
    assert (rows[poison].state, rows[poison].attempt) == (DEAD, MAX_ATTEMPTS), rows[poison]
    innocent = [row for key, row in rows.items() if key != poison]
    assert all(row.state == COMPLETED for row in innocent), [row for row in innocent if row.state != COMPLETED]
    most = max(row.attempt for row in innocent)
    assert most <= 2, f"an innocent item has used {most} attempts"
    lost = sum(row.attempt - 1 for row in innocent)
    cell.notes.append(f"{len(cell.workers)} processes, {lost} attempts lost by neighbours")
    check_all(cell)
