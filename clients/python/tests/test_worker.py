"""Workers against a real broker."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import Broker, find_binary

from lease_broker import (
    BatchError,
    Client,
    Context,
    DeadLetter,
    Event,
    FollowUp,
    Item,
    LeaseBrokerError,
    Release,
    Result,
    Retry,
    Worker,
    v1,
)
from lease_broker.item import read_item
from lease_broker.values import Row

SHORT_LEASE = 6
"""The seconds of a lease that a test outlives. Its heartbeats can be late by more than 3 s, as on a busy machine."""


class Journal:
    """The events of a worker."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._arrived = threading.Condition()

    def __call__(self, event: Event) -> None:
        with self._arrived:
            self.events.append(event)
            self._arrived.notify_all()

    def wait_for(self, condition: Callable[[Counter[str]], bool], seconds: float = 60.0) -> None:
        """Waits until the counts of events meet a condition."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: condition(self.counts()), seconds):
                raise AssertionError(f"after {seconds} s: {self.counts()}")

    def counts(self) -> Counter[str]:
        """Returns how often each event has happened."""
        return Counter(event.name for event in self.events)


def enqueue(broker: Broker, rows: Sequence[Row], queue: str = "work") -> None:
    with Client(broker.address) as client:
        client.enqueue(queue, rows)


def states(broker: Broker) -> Counter[object]:
    return Counter(state for (state,) in broker.rows("SELECT lease_state FROM work"))


READY, LEASED, DELAYED, COMPLETED, DEAD = range(5)


def work(
    broker: Broker,
    handler: Callable[..., Any],
    until: Callable[[Counter[str]], bool],
    queue: str = "work",
    **options: object,
) -> Journal:
    """Runs a worker until its events meet a condition, and stops it."""
    journal = Journal()
    worker = Worker(broker.address, queue, handler, on_event=journal, **options)  # type: ignore[arg-type]
    worker.start()
    try:
        journal.wait_for(until)
    finally:
        worker.stop()
    return journal


def test_values_of_columns_have_types_of_python(broker: Broker) -> None:
    enqueue(broker, [{"payload": None, "amount": 2**62}])
    seen: list[Item] = []
    work(broker, seen.append, lambda counts: counts["completed"] == 1)
    assert seen[0].columns["payload"] is None
    assert seen[0].columns["amount"] == 2**62


def test_unknown_column_fails_the_item_with_the_known_ones(broker: Broker) -> None:
    enqueue(broker, [{"payload": "x"}])
    work(broker, lambda item: item.columns["customer"], lambda counts: counts["failed"] == 1)
    text = "UnknownColumnError: no column 'customer'; the item has amount, id, payload, result"
    assert broker.rows("SELECT lease_error FROM work") == [(text,)]


def caused_by(cause: Exception) -> Exception:
    error = RuntimeError("outer")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "state", "text"),
    [
        (Retry("no paper", after=60), DELAYED, "Retry: no paper"),
        (ValueError("bad"), DELAYED, "ValueError: bad"),
        (DeadLetter("no customer"), DEAD, "DeadLetter: no customer"),
        (Release(after=60), DELAYED, None),
        (caused_by(DeadLetter("no customer")), DEAD, "RuntimeError: outer"),
        (caused_by(caused_by(Release(after=60))), DELAYED, None),
    ],
)
def test_exception_says_how_the_item_ends(
    broker: Broker, caplog: pytest.LogCaptureFixture, error: Exception, state: int, text: str | None
) -> None:
    enqueue(broker, [{"payload": "x"}])

    def handler(item: Item) -> None:
        raise error

    work(broker, handler, lambda counts: counts["failed"] + counts["released"] == 1)
    assert broker.rows("SELECT lease_state, lease_error FROM work") == [(state, text)]
    is_own = isinstance(error, (Retry, DeadLetter, Release))
    assert ("Traceback" in caplog.text) != is_own


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_exception_that_ends_programs_only_fails_the_item(broker: Broker, error: BaseException) -> None:
    enqueue(broker, [{"payload": "x"}, {"payload": "y"}])

    def handler(item: Item) -> None:
        if item.columns["payload"] == "x":
            raise error

    async def async_handler(item: Item) -> None:
        handler(item)

    def both(counts: Counter[str]) -> bool:
        return counts["failed"] == 1 and counts["completed"] == 1

    work(broker, handler, both)
    asyncio.run(run_async(broker, async_handler, [{"payload": "x"}, {"payload": "y"}], both))
    assert states(broker) == {DELAYED: 2, COMPLETED: 2}


async def run_async(
    broker: Broker, handler: Callable[..., Any], rows: Sequence[Row], until: Callable[[Counter[str]], bool]
) -> None:
    """Runs a worker for asyncio until its events meet a condition, and cancels it."""
    journal = Journal()
    await asyncio.to_thread(enqueue, broker, rows)
    task = asyncio.create_task(Worker(broker.address, "work", handler, on_event=journal).run_async())
    await asyncio.to_thread(journal.wait_for, until)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_observer_that_raises_is_ignored(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    enqueue(broker, [{"payload": "x"}] * 3)

    def observer(event: Event) -> None:
        raise ValueError("observer")

    worker = Worker(broker.address, "work", lambda item: None, on_event=observer)
    worker.start()
    wait_until(lambda: worker.counters().get("completed") == 3)
    worker.stop()
    assert caplog.text.count("the observer of events raised an error") == 1


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Waits until a condition holds."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_second_request_to_stop_cancels_handlers(broker: Broker) -> None:
    enqueue(broker, [{"payload": "x"}])
    causes: list[str | None] = []

    def handler(item: Item, context: Context) -> None:
        context.cancelled.wait(60)
        causes.append(context.cause)
        context.check()

    journal = Journal()
    worker = Worker(broker.address, "work", handler, on_event=journal)
    running = threading.Thread(target=worker.run)
    running.start()
    journal.wait_for(lambda counts: counts["started"] == 1)
    worker.request_stop()
    journal.wait_for(lambda counts: counts["stopping"] == 1)
    assert not causes
    worker.request_stop()
    running.join(60)
    assert causes == ["shutdown"]
    assert states(broker) == {READY: 1}


def test_follow_ups_are_added(broker: Broker) -> None:
    enqueue(broker, [{"payload": "x"}])
    work(
        broker,
        lambda item: Result(follow_ups=[FollowUp("next", {"number": 7})]),
        lambda counts: counts["completed"] == 1,
    )
    assert broker.rows("SELECT number FROM next") == [(7,)]


def test_columns_of_the_result_are_written(broker: Broker) -> None:
    enqueue(broker, [{"payload": "x"}])
    work(broker, lambda item: Result(columns={"result": "done"}), lambda counts: counts["completed"] == 1)
    assert broker.rows("SELECT result, lease_state FROM work") == [("done", COMPLETED)]


def test_completion_that_is_refused_fails_only_its_item(broker: Broker) -> None:
    enqueue(broker, [{"payload": "good"}, {"payload": "bad"}])

    def handler(item: Item) -> Result:
        column = "result" if item.columns["payload"] == "good" else "amount"
        return Result(columns={column: 1})

    journal = work(broker, handler, lambda counts: counts["completed"] == 1 and counts["failed"] == 1, concurrency=2)
    assert journal.counts()["refused"] == 1
    [(good, none), (bad, text)] = broker.rows("SELECT lease_state, lease_error FROM work ORDER BY id")
    assert (good, none, bad) == (COMPLETED, None, DELAYED)
    assert str(text).startswith("Refused: ")
    assert "amount" in str(text)


def test_checkpoint_reaches_the_next_attempt(broker: Broker) -> None:
    enqueue(broker, [{"payload": "x"}])
    seen: list[bytes | None] = []

    def handler(item: Item, context: Context) -> None:
        seen.append(item.checkpoint)
        assert item.max_attempts == 3
        if item.attempt == 1:
            context.checkpoint(b"half")
            raise Retry(after=0)

    work(broker, handler, lambda counts: counts["completed"] == 1)
    assert seen == [None, b"half"]


def test_heartbeat_stores_the_checkpoint(broker: Broker) -> None:
    enqueue(broker, [{"payload": "x"}])

    def handler(item: Item, context: Context) -> None:
        context.checkpoint(b"half")
        wait_until(lambda: broker.rows("SELECT lease_checkpoint FROM work") == [(b"half",)])

    work(broker, handler, lambda counts: counts["completed"] == 1, lease=SHORT_LEASE)


def test_checkpoint_over_the_limit_of_the_queue_costs_no_lease(broker: Broker) -> None:
    enqueue(broker, [{"payload": "x"}, {"payload": "y"}])

    def handler(item: Item, context: Context) -> None:
        if item.attempt > 1:
            return
        context.checkpoint(b"x" * 200)
        time.sleep(SHORT_LEASE + 1)
        context.checkpoint(b"x" * 200)
        raise Retry(after=0)

    journal = work(broker, handler, lambda counts: counts["completed"] == 2, concurrency=2, lease=SHORT_LEASE)
    assert journal.counts()["lost"] == 0
    assert broker.rows("SELECT lease_state, lease_fence FROM work") == [(COMPLETED, 2)] * 2


def test_items_with_checkpoints_in_a_queue_without_them_are_completed(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    enqueue(broker, [{"number": number} for number in range(3)], "next")
    refused = threading.Event()

    def handler(item: Item, context: Context) -> None:
        context.checkpoint(b"half")
        if not refused.is_set():
            wait_until(lambda: 'queue "next" has no checkpoints' in caplog.text)
            refused.set()
        context.checkpoint(b"most")

    journal = work(broker, handler, lambda counts: counts["completed"] == 3, queue="next", lease=SHORT_LEASE)
    assert journal.counts()["failed"] == 0
    assert caplog.text.count("is not stored") == 1


def test_failure_with_a_checkpoint_over_the_limit_is_recorded(broker: Broker) -> None:
    enqueue(broker, [{"payload": "x"}])

    def handler(item: Item, context: Context) -> None:
        context.checkpoint(b"x" * 200)
        raise Retry("again")

    work(broker, handler, lambda counts: counts["failed"] == 1)
    assert broker.rows("SELECT lease_error, lease_checkpoint FROM work") == [("Retry: again", None)]


def test_wake_makes_waiting_claims_look(tmp_path: Path) -> None:
    # A poll finds nothing within the test.
    broker = Broker(tmp_path, find_binary(), '[polling]\nmin_interval = "60s"\nmax_interval = "60s"\n')
    journal = Journal()
    worker = Worker(broker.address, "work", lambda item: None, on_event=journal, wait=60)
    worker.start()
    try:
        journal.wait_for(lambda counts: counts["connected"] == 1)
        # The second claim arrives. If it is late, it finds the row by itself.
        time.sleep(2)
        broker.write("INSERT INTO work (payload) VALUES ('x')")
        with Client(broker.address) as client:
            client.wake("work")
        journal.wait_for(lambda counts: counts["completed"] == 1, seconds=40)
    finally:
        worker.stop()
        broker.kill()


def test_value_that_cannot_be_sent_fails_the_item(broker: Broker) -> None:
    enqueue(broker, [{"payload": "x"}])
    work(
        broker,
        lambda item: Result(follow_ups=[FollowUp("next", {"number": object()})]),  # type: ignore[dict-item]
        lambda counts: counts["failed"] == 1,
    )
    assert broker.rows("SELECT lease_error FROM work") == [
        ("TypeError: column 'number': object is not a type of a column",)
    ]


def test_batch_completes_all_but_the_named_failures(broker: Broker) -> None:
    enqueue(broker, [{"payload": str(number)} for number in range(100)])
    sizes: list[int] = []

    def handler(items: list[Item], context: Context) -> None:
        sizes.append(len(items))
        bad = {item: ValueError("seven") for item in items if item.columns["payload"] == "7"}
        if bad:
            raise BatchError(bad)

    work(broker, handler, lambda counts: counts["completed"] == 99 and counts["failed"] == 1, batch=50)
    assert max(sizes) == 50
    assert states(broker) == {COMPLETED: 99, DELAYED: 1}


def test_blocking_an_event_loop_stops_no_heartbeat(broker: Broker) -> None:
    enqueue(broker, [{"payload": "x"}])
    journal = Journal()

    async def handler(item: Item) -> None:
        time.sleep(SHORT_LEASE + 1)

    async def run() -> None:
        worker = Worker(broker.address, "work", handler, on_event=journal, lease=SHORT_LEASE)
        task = asyncio.create_task(worker.run_async())
        await asyncio.to_thread(journal.wait_for, lambda counts: counts["completed"] == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert broker.rows("SELECT lease_state, lease_fence FROM work") == [(COMPLETED, 1)]


def test_async_handlers_run_together(broker: Broker) -> None:
    enqueue(broker, [{"payload": str(number)} for number in range(200)])
    journal = Journal()

    async def handler(item: Item, context: Context) -> None:
        await asyncio.sleep(0.01)

    async def run() -> None:
        worker = Worker(broker.address, "work", handler, concurrency=50, on_event=journal)
        task = asyncio.create_task(worker.run_async())
        await asyncio.to_thread(journal.wait_for, lambda counts: counts["completed"] == 200)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert states(broker) == {COMPLETED: 200}


def test_lease_taken_away_cancels_the_handler(broker: Broker) -> None:
    enqueue(broker, [{"payload": "x"}])
    causes: list[str | None] = []

    def handler(item: Item, context: Context) -> None:
        if item.attempt == 1:
            broker.cancel(item.key, "maintenance")
            context.cancelled.wait(60)
            causes.append(context.cause)

    journal = work(broker, handler, lambda counts: counts["completed"] == 1, lease=SHORT_LEASE)
    assert causes == ["lease_lost"]
    assert [event.details["reason"] for event in journal.events if event.name == "lost"] == ["maintenance"]


def test_stuck_handler_costs_no_slot(broker: Broker) -> None:
    enqueue(broker, [{"payload": "stuck"}] + [{"payload": str(number)} for number in range(20)])
    done = threading.Event()

    def handler(item: Item) -> None:
        if item.columns["payload"] == "stuck":
            done.wait(60)

    journal = Journal()
    worker = Worker(
        broker.address, "work", handler, time_limit=2, stuck_after=2, max_stuck=1, on_event=journal, grace=0
    )
    worker.start()
    journal.wait_for(lambda counts: counts["completed"] == 20)
    assert journal.counts()["stuck"] == 1
    assert worker.health()
    done.set()
    worker.stop()


def test_worker_that_was_stopped_first_does_nothing(broker: Broker) -> None:
    enqueue(broker, [{"payload": "x"}])
    worker = Worker(broker.address, "work", lambda item: None)
    worker.stop()
    worker.run()
    worker.start()
    assert states(broker) == {READY: 1}


def test_worker_starts_once(broker: Broker) -> None:
    worker = Worker(broker.address, "work", lambda item: None)
    worker.start()
    with pytest.raises(RuntimeError, match="started before"):
        worker.start()
    worker.stop()
    with pytest.raises(RuntimeError, match="started before"):
        worker.start()


def test_unknown_queue_ends_the_worker(broker: Broker) -> None:
    worker = Worker(broker.address, "no_such_queue", lambda item: None)
    with pytest.raises(LeaseBrokerError, match="QUEUE_NOT_FOUND"):
        worker.run()


def test_plaintext_to_another_machine_is_refused() -> None:
    with pytest.raises(ValueError, match="not an address of this machine"):
        Client("db.example:50051")


def test_values_survive_the_way_to_the_broker_and_back() -> None:
    from lease_broker.values import columns_from_messages, row_to_messages

    time_value = datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=timezone.utc)
    for value in (None, True, -(2**63), 1.5, "ż", b"\0", time_value, Decimal("-12.50")):
        back = columns_from_messages(row_to_messages({"c": value}))["c"]
        assert back == value
        assert type(back) is type(value)


def test_number_that_is_none_is_refused() -> None:
    from lease_broker.values import to_message

    for value in (float("nan"), Decimal("NaN"), Decimal("-Infinity")):
        with pytest.raises(ValueError, match="column 'c'"):
            to_message("c", value)


class NoOffset(tzinfo):
    """A time zone that tells nothing."""

    def utcoffset(self, _moment: datetime | None) -> None:
        """Returns no offset."""

    def tzname(self, _moment: datetime | None) -> None:
        """Returns no name."""

    dst = utcoffset


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (
            {"at": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))},
            "column 'at': .* outside the years",
        ),
        ({"at": datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))}, "column 'at': .* outside the years"),
        ({"at": datetime(2026, 1, 1)}, "column 'at': the datetime has no time zone"),
        ({"at": datetime(2026, 1, 1, tzinfo=NoOffset())}, "column 'at': the datetime has no time zone"),
        ({"name": "half \ud83d"}, "column 'name': the text has half of a character"),
        ({"half \ud83d": 1}, "the name .* of a column: the text has half"),
        ({5: "five"}, "the name of a column is int and not a str"),
        (["name"], "a row is a mapping of values by column and not a list"),
    ],
)
def test_error_of_a_row_names_the_column(row: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text), Client("127.0.0.1:1") as client:
        client.enqueue("work", [{}, row])


def test_value_of_an_unknown_kind_raises_when_it_is_read() -> None:
    newer = v1.ColumnValue.FromString(b"\x4a\x01x")
    lease = v1.Lease(item=v1.Item(columns={"day": newer, "hour": v1.ColumnValue(int64_value=7)}))
    columns = read_item(lease).columns
    assert columns["hour"] == 7
    assert columns.get("minute") is None
    for read in (columns.__getitem__, columns.get):
        with pytest.raises(ValueError, match="column 'day' has a value of a newer API"):
            read("day")
