"""Another program has locked a row whose handler has returned. Other items do not wait for it, and a stop does."""

import threading
from typing import Any

from lease_broker import v1

from worker_harness.cell import Cell
from worker_harness.checks import check_all
from worker_harness.fake_broker import FakeBroker, lease

LOCKED = v1.SettleResult(
    outcome=v1.OUTCOME_REFUSED, refusal=v1.Refusal(reason=v1.REFUSAL_REASON_LOCKED, message="the row is locked")
)


def run(cell: Cell) -> None:
    unlocked = threading.Event()

    def refuse(request: Any, answer: Any) -> None:
        if isinstance(request, v1.CompleteRequest) and not unlocked.is_set():
            for completion, result in zip(request.completions, answer.results, strict=True):
                if completion.lease_id == "locked":
                    result.CopyFrom(LOCKED)

    with FakeBroker([lease(key) for key in ("locked", "second", "last")], refuse) as broker:
        worker = cell.worker(broker.address, concurrency=2)
        worker.wait_for("completed", key="last")
        worker.wait_for("retry")
        worker.stop()
        worker.wait_for("stopping")
        unlocked.set()
        worker.wait_for_end(20)

    completed = [event["key"] for event in worker.named("completed")]
    assert completed == ["second", "last", "locked"], completed
    assert {event["reason"] for event in worker.named("retry")} == {"LOCKED"}, worker.named("retry")
    check_all(cell)
