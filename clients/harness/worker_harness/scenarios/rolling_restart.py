"""Two brokers are restarted one after the other by SIGTERM while a worker that knows both goes on."""

from itertools import pairwise

from worker_harness.cell import Cell
from worker_harness.checks import check_all
from worker_harness.scenarios.broker_killed import expect_none

ITEMS, SLOTS = 1_500, 10
MAX_GAP_MS = 1_000


def run(cell: Cell) -> None:
    brokers = [cell.broker(drain_delay="500ms"), cell.broker(drain_delay="500ms")]
    cell.enqueue([{"sleep_ms": 50}] * ITEMS)
    worker = cell.worker([broker.address for broker in brokers], concurrency=SLOTS)
    for number, broker in zip((ITEMS // 5, ITEMS * 3 // 5), brokers, strict=True):
        worker.wait_for("completed", number)
        broker.terminate()
        broker.start()
    worker.wait_for("completed", ITEMS, seconds=120)
    worker.finish()
    assert cell.database.states("work") == {"completed": ITEMS}
    expect_none(worker, "lost", "unknown", "failed")
    gap = max(second["at_ms"] - first["at_ms"] for first, second in pairwise(worker.named("started")))
    assert gap <= MAX_GAP_MS, f"no item was started for {gap:.0f} ms"
    check_all(cell)
