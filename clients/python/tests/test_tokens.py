"""Tokens that do not arrive, against a scripted server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted import ScriptedServer, ok
from test_edges import leases, settling_server, until

from lease_broker import Context, Event, Item, Worker, credentials, queue_worker, v1
from lease_broker.events import EventName


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server that extends and applies everything."""
    yield from settling_server()


class Tokens:
    """A token function that can be made to hang."""

    def __init__(self) -> None:
        self.hangs = False
        self.called = threading.Event()
        self.released = threading.Event()

    def __call__(self) -> str:
        if self.hangs:
            self.called.set()
            self.released.wait(60)
        return "token"


@pytest.fixture
def tokens() -> Iterator[Tokens]:
    """A token function, which returns at the end of the test."""
    tokens = Tokens()
    yield tokens
    tokens.released.set()


@pytest.mark.parametrize("source", ["function", "file"])
def test_token_that_does_not_arrive_delays_no_cancellation(
    server: ScriptedServer, tokens: Tokens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    (tmp_path / "token").touch()
    # A file system that does not answer.
    monkeypatch.setattr(Path, "read_text", lambda _path: tokens())
    monkeypatch.setattr(credentials, "FILE_INTERVAL", 0.0)
    # For 60 s.
    leases(server, "1")
    started, cancelled = threading.Event(), threading.Event()

    def handler(_item: Item, context: Context) -> None:
        tokens.hangs = True
        started.set()
        if context.cancelled.wait(60) and context.cause == "lease_lost":
            cancelled.set()

    worker = Worker(
        server.address, "work", handler, token=tokens if source == "function" else tmp_path / "token", wait=0
    )
    passed = 0.0
    worker._queues[0].state.now = lambda: time.monotonic() + passed
    worker.start()
    assert started.wait(60)
    # A heartbeat is due.
    passed = 21.0
    assert tokens.called.wait(60)
    # Half of the lease is over, and then nearly all of it.
    passed = 31.0
    until(lambda: worker.counters().get("heartbeat_missed"))
    assert not cancelled.is_set()
    passed = 55.0
    assert cancelled.wait(60)
    assert worker.counters()["heartbeat_missed"] == 1
    tokens.released.set()
    worker.stop()


def test_token_function_that_hangs_does_not_hold_up_the_stop(
    server: ScriptedServer, tokens: Tokens, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(queue_worker, "CANCEL_GRACE", 1.0)
    monkeypatch.setattr(queue_worker, "LAST_SETTLE_SECONDS", 1.0)
    leases(server, "1")

    def handler(_item: Item) -> None:
        tokens.hangs = True

    worker = Worker(server.address, "work", handler, token=tokens, wait=0)
    worker.start()
    assert tokens.called.wait(60)
    begun = time.monotonic()
    worker.stop(grace=1)
    # The token function hangs for 60 s.
    assert time.monotonic() - begun < 30
    until(lambda: "the worker does not wait for its thread" in caplog.text)


def test_claim_whose_token_arrives_after_the_stop_is_not_sent(server: ScriptedServer, tokens: Tokens) -> None:
    tokens.hangs = True
    before = set(threading.enumerate())
    worker = Worker(server.address, "work", lambda _: None, token=tokens, wait=0)
    worker.start()
    assert tokens.called.wait(60)
    pollers = [each for each in set(threading.enumerate()) - before if each.name == "lease-broker-poller"]
    worker.stop()
    tokens.released.set()
    for thread in pollers:
        thread.join(60)
        assert not thread.is_alive()
    assert not server.requests["ClaimBatch"]


def test_heartbeat_whose_token_arrives_after_the_stop_is_not_sent(
    server: ScriptedServer, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    leases(server, "1")
    settles = threading.Event()

    def handler(_item: Item) -> None:
        tokens.hangs = True
        assert settles.wait(60)

    passed = 0.0
    before = set(threading.enumerate())
    worker = Worker(server.address, "work", handler, token=tokens, wait=0)
    worker._queues[0].state.now = lambda: time.monotonic() + passed
    worker.start()
    until(lambda: worker.counters().get("started"))
    # A heartbeat is due.
    passed = 21.0
    assert tokens.called.wait(60)
    (beat,) = (each for each in set(threading.enumerate()) - before if each.name == "lease-broker-beat")
    tokens.hangs = False
    settles.set()
    worker.stop()
    tokens.released.set()
    beat.join(60)
    assert not beat.is_alive()
    assert not server.requests["Heartbeat"]
    assert not raised


class OddError(BaseException):
    """An error without a text."""

    def __str__(self) -> str:
        raise AttributeError("text")


@pytest.mark.parametrize("error", [OSError, OddError, asyncio.CancelledError, SystemExit, KeyboardInterrupt])
def test_claim_without_a_token_waits_and_is_not_released(server: ScriptedServer, error: type[BaseException]) -> None:
    server.answer("ClaimBatch", ok(v1.ClaimBatchResponse()))
    stops = threading.Event()
    retried = threading.Event()

    def token() -> str:
        if not stops.is_set():
            raise error
        return "token"

    def on_event(event: Event) -> None:
        if event.name == "retry":
            retried.set()

    worker = Worker(server.address, "work", lambda _: None, token=token, on_event=on_event, wait=0)
    worker._queues[0].events.emit = emit_and(stops, worker._queues[0].events.emit)  # type: ignore[method-assign]
    worker.start()
    assert retried.wait(60)
    worker.stop()
    assert not server.headers


def emit_and(stops: threading.Event, emit: Callable[..., None]) -> Callable[..., None]:
    """Returns a function that reports an event. It sets `stops` if the worker stops."""

    def emit_event(name: EventName, *about: Any, **details: Any) -> None:
        if name == "stopping":
            stops.set()
        emit(name, *about, **details)

    return emit_event
