"""A service that is newer than the library sends what the library does not know, and a claim in a `next` fails."""

from typing import Any

from lease_broker import v1

from worker_harness.cell import Cell
from worker_harness.checks import check_all
from worker_harness.fake_broker import FakeBroker, lease

UNAVAILABLE = 14
RETRY_DELAY_MS = 1_500
# Field 9 of a column's value, and the outcome 99 of a settlement.
NEWER_KIND, NEWER_OUTCOME = b"\x4a\x01x", b"\x10\x63"


def run(cell: Cell) -> None:
    leases = [lease("kind", v1.ColumnValue.FromString(NEWER_KIND)), *map(lease, ("outcome", "next", "last"))]
    with FakeBroker(leases, change_answer) as broker:
        worker = cell.worker(broker.address)
        worker.wait_for("completed", key="last")
        worker.finish()

    [failed] = worker.named("failed")
    assert failed["key"] == "kind", failed
    for text in ("newer API", "payload"):
        assert text in failed["error"], failed
    assert [event["key"] for event in worker.named("lost")] == ["outcome"], worker.named("lost")
    assert [event["key"] for event in worker.named("completed")] == ["next", "last"], worker.named("completed")
    [failed_at] = [call.at_ms for call in broker.calls if call.rpc == "Complete" and settles(call.request, "next")]
    claimed_at = min(call.at_ms for call in broker.calls if call.rpc == "ClaimBatch" and call.at_ms > failed_at)
    assert claimed_at - failed_at >= RETRY_DELAY_MS, f"claimed {claimed_at - failed_at:.0f} ms after the error"
    check_all(cell)


def settles(request: v1.CompleteRequest, key: str) -> bool:
    """Returns True if a call completes the item."""
    return any(completion.lease_id == key for completion in request.completions)


def change_answer(request: Any, answer: Any) -> None:
    """Changes the answers to the completions of two items."""
    if isinstance(request, v1.CompleteRequest) and settles(request, "outcome"):
        answer.results[0].ParseFromString(NEWER_OUTCOME)
    if isinstance(request, v1.CompleteRequest) and settles(request, "next"):
        answer.ClearField("next")
        answer.next_error.code, answer.next_error.reason = UNAVAILABLE, "STORE_UNAVAILABLE"
        answer.next_error.message = "the database does not answer"
        answer.next_error.metadata["applied"] = "no"
        answer.next_error.retry_delay.FromMilliseconds(RETRY_DELAY_MS)
