"""Java: the executor of the handlers has one thread and no queue, and the worker four slots."""

from worker_harness.cell import Cell, Queue
from worker_harness.checks import check_all

ITEMS = 12


def run(cell: Cell) -> None:
    broker = cell.broker(Queue(lease="5s"))
    worker = cell.worker(broker.address, concurrency=4, executor_threads=1)
    cell.enqueue([{"sleep_ms": 300}] * ITEMS)
    worker.wait_for("completed", ITEMS)
    assert worker.ask("health")["ok"]
    worker.finish()
    rows = [(row.state, row.attempt) for row in cell.database.rows("work")]
    assert set(rows) == {(3, 1)}, rows
    assert worker.count("lost") == 0, worker.named("lost")
    assert cell.language.name != "java" or worker.count("released") > 0, "the executor has refused no handler"
    check_all(cell)
