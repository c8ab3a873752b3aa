"""500 items in batches of 50, of which two fail: the others are completed, in few calls."""

from worker_harness.cell import Cell
from worker_harness.checks import check_all
from worker_harness.database import COMPLETED, DELAYED

ITEMS, BATCH = 500, 50
MAX_COMPLETE_CALLS = 12


def run(cell: Cell) -> None:
    broker = cell.broker()
    failing = set(cell.random.sample(range(ITEMS), 2))
    keys = cell.enqueue([{"then": "raise" if number in failing else "complete"} for number in range(ITEMS)])
    worker = cell.worker(broker.address, batch=BATCH)
    worker.wait(lambda worker: worker.count("completed") == ITEMS - 2 and worker.count("failed") == 2)
    calls = broker.calls("Complete")
    worker.finish()
    assert calls <= MAX_COMPLETE_CALLS, f"{calls} Complete calls"
    rows = cell.database.rows("work")
    assert {row.key for row in rows if row.state == DELAYED} == {keys[number] for number in failing}
    for row in rows:
        assert row.state in (COMPLETED, DELAYED), row
        assert row.state == COMPLETED or (row.error or "").endswith(": raised"), row
    check_all(cell)
