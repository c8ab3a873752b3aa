"""The reply of a Complete with `next` is lost, for each thing that a completion can do to a row.

The completion is sent again. It is applied once, its follow-up is added once, and the leases that `next` got arrive.
"""

from worker_harness.cell import Cell, Queue
from worker_harness.checks import check_all
from worker_harness.database import COMPLETED

ITEMS = 4
POLICIES = {
    "keep": '"keep"',
    "deleted": '"delete"',
    "archived": '{ archive = "old" }',
    "recurring": '{ recur = "1h" }',
}


def run(cell: Cell) -> None:
    queues = [Queue(name, on_complete=policy) for name, policy in POLICIES.items()]
    broker = cell.broker(*queues, Queue("next"))
    for queue in queues:
        proxy = cell.proxy(broker)
        payload = {"sleep_ms": 500, "follow_ups": [{"queue": "next", "columns": {"payload": queue.name}}]}
        keys = cell.enqueue([payload] * ITEMS, queue.name)
        worker = cell.worker(proxy.address, queue.name)
        for number in range(1, ITEMS + 1):
            worker.wait_for("started", number)
            # The lease is long, so the next answer is that of the completion and not of a heartbeat.
            proxy.swallow()
            worker.wait_for("completed", number)
            assert proxy.swallowed == number
        worker.finish()
        for name in ("lost", "unknown", "failed", "refused"):
            assert worker.count(name) == 0, f"{queue.name}: {worker.named(name)}"
        assert sorted(event["key"] for event in worker.named("completed")) == sorted(keys), queue.name
        follow_ups = [row for row in cell.database.rows("next") if row.payload == queue.name]
        assert len(follow_ups) == ITEMS, f"{queue.name}: {len(follow_ups)} follow-ups"
    assert cell.database.states("keep") == {"completed": ITEMS}
    assert {row.fence for row in cell.database.rows("keep")} == {1}
    assert cell.database.states("deleted") == {}
    assert cell.database.states("archived") == {}
    assert cell.database.query("SELECT count(*), max(lease_fence) FROM old") == [(ITEMS, 1)]
    assert cell.database.states("recurring") == {"delayed": ITEMS}
    assert {row.fence for row in cell.database.rows("recurring")} == {1}
    assert COMPLETED not in {change.old_state for change in cell.database.history("keep")}
    check_all(cell)
