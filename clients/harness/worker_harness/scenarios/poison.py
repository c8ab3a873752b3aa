"""An item that ends its process is among 40 others. It becomes dead, and all its neighbours are completed."""

from worker_harness.cell import Cell, Queue
from worker_harness.checks import check_all
from worker_harness.database import COMPLETED, DEAD

ITEMS, SLOTS, MAX_ATTEMPTS = 40, 8, 3
EXIT_CODE = 3


def run(cell: Cell) -> None:
    broker = cell.broker(Queue(lease="2s", max_attempts=MAX_ATTEMPTS))
    payloads = [{"sleep_ms": 300}] * ITEMS
    poison = cell.enqueue([*payloads[:3], {"sleep_ms": 100, "then": "exit"}, *payloads[3:]])[3]
    # A process works until it gets the poison item. The next one starts immediately, as a supervisor would start it.
    for _ in range(MAX_ATTEMPTS):
        cell.worker(broker.address, lease_ms=2_000, concurrency=SLOTS).wait_for_end(60, EXIT_CODE)
    last = cell.worker(broker.address, lease_ms=2_000, concurrency=SLOTS)
    cell.database.wait_for("work", {"completed": ITEMS, "dead": 1})
    last.finish()
    rows = {row.key: row for row in cell.database.rows("work")}
    assert (rows[poison].state, rows[poison].attempt) == (DEAD, MAX_ATTEMPTS), rows[poison]
    innocent = [row for key, row in rows.items() if key != poison]
    assert all(row.state == COMPLETED for row in innocent), [row for row in innocent if row.state != COMPLETED]
    most = max(row.attempt for row in innocent)
    assert most <= 2, f"an innocent item has used {most} attempts"
    cell.notes.append(f"{sum(row.attempt - 1 for row in innocent)} attempts lost by neighbours")
    check_all(cell)
