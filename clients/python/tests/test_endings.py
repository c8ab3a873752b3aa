"""Odd results and errors of handlers, against a scripted server: each of them only ends its item."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from scripted import ScriptedServer
from test_edges import leases, settling_server, until

from lease_broker import BatchError, FollowUp, Item, Release, Result, Retry, Worker


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server that extends and applies everything."""
    yield from settling_server()


class Silent(Exception):
    """An error without a text."""

    def __str__(self) -> str:
        raise SystemExit


def failures(server: ScriptedServer) -> dict[str, str]:
    """Returns the texts of the failures that were sent, by lease."""
    return {each.lease_id: each.error_message for request in server.requests["Fail"] for each in request.failures}


def ended(worker: Worker, count: int) -> bool:
    counters = worker.counters()
    return sum(counters.get(name, 0) for name in ("completed", "failed", "released")) >= count


def work(server: ScriptedServer, handler: Callable[..., Any], is_async: bool, count: int, **options: Any) -> None:
    """Runs a worker in threads or as tasks until this number of items has ended."""

    async def async_handler(item: Any) -> Any:
        return handler(item)

    worker = Worker(server.address, "work", async_handler if is_async else handler, wait=0, **options)
    if not is_async:
        worker.start()
        until(lambda: ended(worker, count))
        worker.stop()
        return

    async def main() -> None:
        task = asyncio.create_task(worker.run_async())
        await asyncio.to_thread(until, lambda: ended(worker, count))
        worker.request_stop()
        await task

    asyncio.run(main())


ODD = [float("inf"), float("nan"), 2**64, "5", -1]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("kind", [Retry, Release])
@pytest.mark.parametrize("after", ODD)
def test_odd_after_fails_the_item(server: ScriptedServer, kind: type, after: Any, is_async: bool) -> None:
    leases(server, "1", "2")

    def handler(item: Item) -> None:
        if item.key == "work-1":
            raise kind(after=after)

    work(server, handler, is_async, 2)
    [text] = failures(server).values()
    assert f"after is {after!r}" in text


def test_odd_after_of_a_batch_error_fails_its_item(server: ScriptedServer) -> None:
    leases(server, "1", "2", "3")

    def handler(items: list[Item]) -> None:
        retry = Retry("later")
        retry.after = float("inf")
        raise BatchError({items[0]: retry, items[1]: ValueError("bad")})

    work(server, handler, False, 3, batch=3)
    odd = "ValueError: after is inf; it must be a number of seconds from 0 to 315576000000"
    assert failures(server) == {"lease-work-1": f"Retry: later ({odd})", "lease-work-2": "ValueError: bad"}


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("error", "text"), [(ValueError("a\ud800b"), "ValueError: a?b"), (Silent(), "Silent")], ids=["surrogate", "silent"]
)
def test_error_with_an_odd_text_fails_the_item(
    server: ScriptedServer, error: Exception, text: str, is_async: bool
) -> None:
    leases(server, "1", "2")

    def handler(item: Item) -> None:
        if item.key == "work-1":
            raise error

    work(server, handler, is_async, 2)
    assert failures(server) == {"lease-work-1": text}


def test_batch_error_that_was_changed_fails_the_batch(server: ScriptedServer) -> None:
    leases(server, "1", "2")

    def handler(items: list[Item]) -> None:
        error = BatchError({})
        error.errors = None  # type: ignore[assignment]
        raise error

    work(server, handler, False, 2, batch=2)
    assert len(failures(server)) == 2


@pytest.mark.parametrize("name", ["work-1", 7, Item("work-1")])
@pytest.mark.parametrize("way", ["raise", "return"])
def test_result_of_no_item_of_the_batch_fails_the_batch(server: ScriptedServer, name: Any, way: str) -> None:
    leases(server, "1", "2")

    def handler(items: list[Item]) -> Any:
        if way == "raise":
            raise BatchError({items[0]: ValueError("bad"), name: ValueError("bad")})
        return {items[0]: None, name: {"total": 5}}

    work(server, handler, False, 2, batch=2)
    texts = failures(server)
    assert len(texts) == 2
    assert all(f"{name!r} is no item of the batch; name an item by the object" in text for text in texts.values())


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (Result(follow_ups=[{"queue": "next"}]), "AttributeError: "),  # type: ignore[list-item]
        (Result(follow_ups=[FollowUp("next", {}, delay=float("inf"))]), "ValueError: delay is inf"),
        (Result(columns={"total": "a\ud800"}), "ValueError: column"),
        (7, "TypeError: "),
    ],
)
def test_bad_result_of_a_batch_fails_only_its_item(server: ScriptedServer, result: Any, text: str) -> None:
    leases(server, "1", "2")
    work(server, lambda items: {items[0]: result}, False, 2, batch=2)
    assert [lease for lease, error in failures(server).items() if error.startswith(text)] == ["lease-work-1"]
    assert [each.lease_id for request in server.requests["Complete"] for each in request.completions] == [
        "lease-work-2"
    ]
