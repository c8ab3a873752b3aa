"""Token functions that do not return, against a scripted server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from scripted import ScriptedServer
from test_edges import leases, settling_server, until

from lease_broker import Context, Item, Worker, queue_worker


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


def test_token_function_that_hangs_delays_no_cancellation(server: ScriptedServer, tokens: Tokens) -> None:
    leases(server, "1", seconds=3)
    cancelled = threading.Event()

    def handler(_item: Item, context: Context) -> None:
        tokens.hangs = True
        assert tokens.called.wait(10)
        if context.cancelled.wait(10) and context.cause == "lease_lost":
            cancelled.set()

    worker = Worker(server.address, "work", handler, token=tokens, wait=0)
    worker.start()
    assert cancelled.wait(15)
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
    assert tokens.called.wait(10)
    begun = time.monotonic()
    worker.stop(grace=1)
    assert time.monotonic() - begun < 4.5
    until(lambda: "the worker does not wait for its thread" in caplog.text)


def test_claim_whose_token_arrives_after_the_stop_is_not_sent(server: ScriptedServer, tokens: Tokens) -> None:
    tokens.hangs = True
    worker = Worker(server.address, "work", lambda _: None, token=tokens, wait=0)
    worker.start()
    assert tokens.called.wait(10)
    before = [thread for thread in threading.enumerate() if thread.name == "lease-broker-poller"]
    worker.stop()
    tokens.released.set()
    for thread in before:
        thread.join(10)
        assert not thread.is_alive()
    assert not server.requests["ClaimBatch"]
