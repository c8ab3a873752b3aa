"""Each way to end an item without completing it has its state, attempt, delay and text."""

from worker_harness.cell import Cell, Queue
from worker_harness.checks import check_all
from worker_harness.database import DEAD, DELAYED, LEASED, READY, Change

RETRY_MS = 300
TOLERANCE_MS = 50


def run(cell: Cell) -> None:
    broker = cell.broker(Queue(), Queue("spent", max_attempts=1))
    raised, retried, dead, released = cell.enqueue(
        [{"then": "raise"}, {"then": "retry", "after_ms": RETRY_MS}, {"then": "dead"}, {"then": "release"}]
    )
    [spent] = cell.enqueue([{"then": "raise"}], "spent")
    workers = [cell.worker(broker.address, concurrency=4), cell.worker(broker.address, "spent")]
    for key in (raised, retried, dead):
        workers[0].wait_for("failed", key=key)
    workers[0].wait_for("released", key=released)
    workers[1].wait_for("failed", key=spent)
    for worker in workers:
        worker.finish()

    ends = {change.key: change for change in reversed(cell.database.history("work")) if change.old_state == LEASED}
    [end_of_spent] = [change for change in cell.database.history("spent") if change.old_state == LEASED]
    expect(ends[raised], DELAYED, 1, ": raised")
    expect(ends[retried], DELAYED, 1, ": ")
    expect(ends[dead], DEAD, 1, ": ")
    expect(ends[released], READY, 0, None)
    expect(end_of_spent, DEAD, 1, ": raised")
    delay = (ends[retried].due_time or 0) - ends[retried].state_time
    assert abs(delay - RETRY_MS) <= TOLERANCE_MS, f"the item is due after {delay} ms"
    check_all(cell)


def expect(change: Change, state: int, attempt: int, text: str | None) -> None:
    """Checks the first end of an item."""
    assert (change.state, change.attempt) == (state, attempt), change
    if text is None:
        assert change.error is None, change
        return
    name, _, _ = (change.error or "").partition(": ")
    assert text in (change.error or ""), change
    assert name.strip() == name != "", change
    assert " " not in name, f"the error does not begin with the name of a type: {change}"
