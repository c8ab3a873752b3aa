"""Handlers that write columns and add follow-ups. The one whose follow-up is refused fails alone."""

from worker_harness.cell import Cell, Queue
from worker_harness.checks import check_all
from worker_harness.database import COMPLETED, DELAYED

ITEMS = 10


def run(cell: Cell) -> None:
    broker = cell.broker(Queue(), Queue("next"))
    bad = cell.random.randrange(ITEMS)
    payloads = [
        {
            "columns": {"result": f"result {number}"},
            "follow_ups": [{"queue": "next", "columns": {"nonsense" if number == bad else "payload": f"{number}"}}],
        }
        for number in range(ITEMS)
    ]
    traces = [cell.random.getrandbits(128) | 1 for _ in range(ITEMS)]
    keys = cell.enqueue(payloads, traces=traces)
    worker = cell.worker(broker.address, concurrency=ITEMS)
    worker.wait(lambda worker: worker.count("completed") == ITEMS - 1 and worker.count("failed") == 1)
    worker.finish()

    [refused] = worker.named("refused")
    assert refused["key"] == keys[bad], refused
    follow_ups = {row.payload: row for row in cell.database.rows("next")}
    assert len(follow_ups) == len(cell.database.rows("next")) == ITEMS - 1, follow_ups
    for number, row in enumerate(cell.database.rows("work")):
        if number == bad:
            assert (row.state, row.result) == (DELAYED, None), row
            assert "nonsense" in (row.error or ""), row
            continue
        assert (row.state, row.attempt, row.result) == (COMPLETED, 1, f"result {number}"), row
        # The follow-up continues the trace of the lease.
        trace = follow_ups[str(number)].trace_parent or ""
        assert trace[3:35] == f"{traces[number]:032x}", follow_ups[str(number)]
    check_all(cell)
