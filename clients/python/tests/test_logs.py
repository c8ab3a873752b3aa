"""Lines of the log about items that failed or were lost, against a scripted server."""

from __future__ import annotations

import asyncio
import datetime
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from scripted import ScriptedServer, error, ok
from test_edges import leases, settling_server, until
from test_endings import work
from test_settler import SHORT_LEASE, claims, lease

from lease_broker import (
    BatchError,
    Context,
    DeadLetter,
    Item,
    Release,
    Result,
    Retry,
    Worker,
    endings,
    queue_worker,
    v1,
)
from lease_broker.events import Events
from lease_broker.options import Options
from lease_broker.state import State


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server that extends and applies everything."""
    yield from settling_server()


LOST = "the lease has ended before the handler"
PROCESSED = "processed, but another worker may process it again"


def test_lease_that_is_taken_away_is_logged(server: ScriptedServer, caplog: pytest.LogCaptureFixture) -> None:
    server = ScriptedServer()
    server.answer("ReleaseClaims", ok(v1.ReleaseClaimsResponse()))
    server.answer("ClaimBatch", *claims(*(lease(str(number), SHORT_LEASE) for number in range(12))))
    lost = v1.HeartbeatResult(outcome=v1.OUTCOME_LEASE_LOST, cancel_reason="moved")
    server.answer("Heartbeat", ok(v1.HeartbeatResponse(results=[lost] * 12)))

    def handler(_items: list[Item], context: Context) -> None:
        context.cancelled.wait(60)

    worker = Worker(server.address, "work", handler, batch=12, wait=0)
    worker.start()
    until(lambda: LOST in caplog.text)
    worker.stop()
    server.close()
    first = ", ".join(f"{number} (attempt 1)" for number in range(10))
    assert caplog.messages == [f"queue work: items {first} and 2 others: {LOST}: moved"]


def test_item_that_runs_or_was_released_does_not_count_as_processed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = [0.0]
    options = Options("work", concurrency=3)
    state = State(options, Events("work", None, options.logger), lambda: clock[0])
    with state.lock:
        state.accept([lease("late"), lease("released"), lease("running")], state.reserve_slots(), 0.0)
        state.begin(list(state.runs))
        late, released, running = state.held.values()
        assert late.run is not None
        assert released.run is not None
        state.end([(released.run, [endings.released(released)])])
        state.settle(endings.failed(running, "time limit"), 0.0)
        state.lose(released, "moved")
        state.lose(running, "moved")
        clock[0] = late.deadline
        state.end([(late.run, [endings.completed(late)])])
    state.log_lost()
    assert caplog.messages == [
        f"queue work: items released (attempt 1), running (attempt 1): {LOST}: moved",
        f"queue work: item late (attempt 1): {PROCESSED}: no heartbeat was answered in time",
    ]


def settled(outcome: v1.Outcome) -> Any:
    return ok(v1.CompleteResponse(results=[v1.SettleResult(outcome=outcome)]))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (settled(v1.OUTCOME_LEASE_LOST), "the broker has ended its lease"),
        (settled(v1.OUTCOME_GONE), "the row is gone"),
        (error(grpc.StatusCode.INTERNAL, "INTERNAL", -1), "Complete: INTERNAL (INTERNAL): scripted"),
    ],
)
def test_item_whose_completion_is_not_applied_is_logged(
    answer: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = ScriptedServer()
    server.answer("ReleaseClaims", ok(v1.ReleaseClaimsResponse()))
    server.answer("ClaimBatch", *claims(lease("1")))
    server.answer("Complete", answer)
    worker = Worker(server.address, "work", lambda _: None, wait=0)
    worker.start()
    until(lambda: PROCESSED in caplog.text)
    worker.stop()
    server.close()
    assert caplog.messages == [f"queue work: item 1 (attempt 1): {PROCESSED}: {reason}"]


def raises(error: BaseException, cause: BaseException | None = None) -> Callable[[Any], Any]:
    def handler(_item: Any) -> Any:
        if cause is None:
            raise error
        raise error from cause

    return handler


FAILED = [
    (lambda _: "ok", logging.WARNING, "TypeError: the handler returned str and not", False),
    (lambda _: True, logging.WARNING, "TypeError: the handler returned bool and not", False),
    (lambda _: {"note": float("nan")}, logging.WARNING, "ValueError: column 'note': NaN", False),
    (lambda _: {"day": datetime.date(2026, 1, 1)}, logging.WARNING, "TypeError: column 'day'", False),
    (lambda _: Result({"note": 1}), logging.WARNING, "AttributeError: ", False),  # type: ignore[arg-type]
    (raises(DeadLetter("poison")), logging.WARNING, "DeadLetter: poison", False),
    (raises(Retry("later")), logging.WARNING, "Retry: later", False),
    (raises(Retry("later"), OSError("down")), logging.WARNING, "Retry: later", True),
    (raises(ValueError("bad")), logging.ERROR, "ValueError: bad", True),
    (raises(ValueError("bad"), DeadLetter("poison")), logging.ERROR, "ValueError: bad", True),
    (raises(asyncio.CancelledError()), logging.ERROR, "CancelledError", True),
]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(("handler", "level", "text", "has_stack"), FAILED)
def test_failure_is_logged(
    server: ScriptedServer,
    caplog: pytest.LogCaptureFixture,
    is_async: bool,
    handler: Callable[[Any], Any],
    level: int,
    text: str,
    has_stack: bool,
) -> None:
    leases(server, "1")
    work(server, handler, is_async, 1)
    [record] = caplog.records
    assert record.getMessage().startswith(f"queue work: item work-1 (attempt 1) failed: {text}")
    assert (record.levelno, record.exc_info is not None) == (level, has_stack)


def test_each_error_of_a_batch_is_logged(server: ScriptedServer, caplog: pytest.LogCaptureFixture) -> None:
    leases(server, "1", "2", "3", "4")
    both = ValueError("both")

    def handler(items: list[Item]) -> None:
        raise BatchError({items[0]: both, items[1]: both, items[2]: KeyError("one")})

    work(server, handler, False, 4, batch=4)
    assert [(record.getMessage(), bool(record.exc_info)) for record in caplog.records] == [
        ("queue work: items work-1 (attempt 1), work-2 (attempt 1) failed: ValueError: both", True),
        ("queue work: item work-3 (attempt 1) failed: KeyError: 'one'", True),
    ]


def test_exceeded_time_limit_is_logged(server: ScriptedServer, caplog: pytest.LogCaptureFixture) -> None:
    leases(server, "1")

    async def handler(_item: Item) -> None:
        await asyncio.sleep(60)

    async def main() -> None:
        worker = Worker(server.address, "work", handler, wait=0, time_limit=0.1)
        task = asyncio.create_task(worker.run_async())
        await asyncio.to_thread(until, lambda: worker.counters().get("failed"))
        worker.request_stop()
        await task

    asyncio.run(main())
    assert caplog.messages == ["queue work: item work-1 (attempt 1) failed: time limit of 0.1 s"]


def test_error_after_a_cancellation_is_logged(server: ScriptedServer, caplog: pytest.LogCaptureFixture) -> None:
    leases(server, "1")

    def handler(_item: Item, context: Context) -> None:
        context.cancelled.wait(60)
        raise OSError("cleanup failed")

    worker = Worker(server.address, "work", handler, wait=0, grace=0)
    worker.start()
    until(lambda: worker.counters().get("started"))
    worker.stop()
    assert caplog.messages == ["queue work: item work-1 (attempt 1) released: OSError: cleanup failed"]
    assert worker.counters()["released"] == 1


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("how", ["stuck", "left"])
def test_handler_that_does_not_stop_is_logged_with_its_stack(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, how: str, is_async: bool
) -> None:
    monkeypatch.setattr(queue_worker, "CANCEL_GRACE", 0.5)
    leases(server, "1")
    goes_on = threading.Event()

    def hangs_here(_item: Item) -> None:
        goes_on.wait(60)

    async def hangs_in_a_task(_item: Item) -> None:
        while not goes_on.is_set():
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                continue

    options: Any = {"time_limit": 0.1, "stuck_after": 0.1} if how == "stuck" else {"grace": 0}
    worker = Worker(server.address, "work", hangs_in_a_task if is_async else hangs_here, wait=0, **options)

    async def main() -> None:
        worker.start()
        await asyncio.to_thread(until, lambda: worker.counters().get("stuck" if how == "stuck" else "started"))
        if how == "stuck":
            goes_on.set()
        await asyncio.to_thread(worker.stop)
        goes_on.set()

    asyncio.run(main())
    [text] = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "item work-1 (attempt 1)" in text
    assert ("still runs 0.1 s after its cancellation" if how == "stuck" else "which do not stop") in text
    assert ("in hangs_in_a_task" if is_async else "in hangs_here") in text


def test_time_of_a_task_counts_from_its_first_step(server: ScriptedServer) -> None:
    leases(server, "1", "2")
    begun: list[str] = []

    async def handler(item: Item) -> None:
        begun.append(item.key)
        if len(begun) == 1:
            time.sleep(2)
        await asyncio.sleep(0.1)

    worker = Worker(server.address, "work", handler, wait=0, concurrency=2, time_limit=1)

    async def main() -> None:
        task = asyncio.create_task(worker.run_async())
        await asyncio.to_thread(until, lambda: sum(worker.counters().get(n, 0) for n in ("completed", "failed")) == 2)
        worker.request_stop()
        await task

    asyncio.run(main())
    failed = [each.lease_id for request in server.requests["Fail"] for each in request.failures]
    assert failed == [f"lease-{begun[0]}"]


def test_blocked_event_loop_is_warned_about(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lease_broker.runners._FIRST_WARNING", 2)
    leases(server, "1")

    async def blocks_the_loop(_item: Item) -> None:
        until(lambda: "the event loop has not run for 2 s" in caplog.text)

    worker = Worker(server.address, "work", blocks_the_loop, wait=0)

    async def main() -> None:
        task = asyncio.create_task(worker.run_async())
        await asyncio.to_thread(until, lambda: worker.counters().get("completed"))
        worker.request_stop()
        await task

    asyncio.run(main())
    assert "in blocks_the_loop" in caplog.text


@pytest.mark.parametrize("kind", ["async", "behind a plain function"])
def test_item_whose_task_the_program_cancels_fails(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    leases(server, "1")

    async def cancels_itself(_item: Item) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(60)

    handler: Any = cancels_itself if kind == "async" else lambda item: cancels_itself(item)
    worker = Worker(server.address, "work", handler, wait=0)

    async def main() -> None:
        task = asyncio.create_task(worker.run_async())
        await asyncio.to_thread(until, lambda: worker.counters().get("failed"))
        worker.request_stop()
        await task

    asyncio.run(main())
    assert caplog.messages == ["queue work: item work-1 (attempt 1) failed: CancelledError"]


def test_release_is_not_logged(server: ScriptedServer, caplog: pytest.LogCaptureFixture) -> None:
    leases(server, "1")
    work(server, raises(Release(after=60)), False, 1)
    assert caplog.messages == []
