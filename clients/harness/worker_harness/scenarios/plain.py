"""500 items, 8 slots: each item is started once and completed once, and at most 8 are worked on at a time."""

from worker_harness.cell import Cell
from worker_harness.checks import check_all
from worker_harness.database import COMPLETED

ITEMS, SLOTS = 500, 8


def run(cell: Cell) -> None:
    broker = cell.broker()
    keys = cell.enqueue([{"sleep_ms": 2}] * ITEMS)
    worker = cell.worker(broker.address, concurrency=SLOTS)
    worker.wait_for("completed", ITEMS)
    worker.finish()
    rows = cell.database.rows("work")
    assert {(row.state, row.attempt, row.fence) for row in rows} == {(COMPLETED, 1, 1)}, rows[:5]
    for name in ("claimed", "started", "completed"):
        assert sorted(event["key"] for event in worker.named(name)) == sorted(keys), name
    running = most = 0
    for event in worker.events:
        running += {"started": 1, "completed": -1}.get(event["ev"], 0)
        most = max(most, running)
    assert 2 <= most <= SLOTS, f"{most} items were started and not completed"
    check_all(cell)
