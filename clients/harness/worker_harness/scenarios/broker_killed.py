"""The broker is killed and restarted twice under 1,000 items of 50 ms: each is completed by its first attempt."""

import time

from worker_harness.cell import Cell
from worker_harness.checks import check_all
from worker_harness.database import COMPLETED
from worker_harness.worker import WorkerProcess, now_ms

ITEMS, SLOTS = 1_000, 10
DOWN_SECONDS = 1
MAX_GAP_MS = 6_000


def run(cell: Cell) -> None:
    broker = cell.broker()
    cell.enqueue([{"sleep_ms": 50}] * ITEMS)
    worker = cell.worker(broker.address, concurrency=SLOTS)
    for number in (ITEMS // 5, ITEMS * 3 // 5):
        worker.wait_for("completed", number)
        broker.kill()
        time.sleep(DOWN_SECONDS)
        broker.start()
        restarted = now_ms()
        gap = first_start(worker, restarted) - restarted
        assert gap <= MAX_GAP_MS, f"no item was started for {gap:.0f} ms after a restart"
    worker.wait_for("completed", ITEMS, seconds=120)
    worker.finish()
    rows = cell.database.rows("work")
    assert {(row.state, row.attempt) for row in rows} == {(COMPLETED, 1)}, rows[:5]
    expect_none(worker, "lost", "unknown")
    assert worker.count("retry") > 0, "no call was sent again"
    assert worker.count("disconnected") >= 1, worker.counts()
    assert worker.count("connected") >= 2, worker.counts()
    check_all(cell)


def first_start(worker: WorkerProcess, after: float) -> float:
    """Waits until a handler starts after a moment. Returns the moment of its start."""
    worker.wait(lambda worker: any(event["at_ms"] > after for event in worker.named("started")))
    return float(next(event["at_ms"] for event in worker.named("started") if event["at_ms"] > after))


def expect_none(worker: WorkerProcess, *names: str) -> None:
    """Checks that some events have not happened."""
    for name in names:
        assert worker.count(name) == 0, worker.named(name)
