"""The warnings of a worker while no broker answers."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from scripted import ScriptedServer, error, ok

from lease_broker import Item, Worker, health, v1
from lease_broker.calls import CallFailure


def handle(item: Item) -> None:
    """Handles no item: the scripted servers have none."""


async def handle_async(item: Item) -> None:
    """Handles no item: the scripted servers have none."""


@contextmanager
def running(worker: Worker) -> Iterator[None]:
    """Runs a worker until the block ends."""

    def run() -> None:
        asyncio.run(worker.run_async())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        worker.request_stop()
        thread.join()


def free_address() -> str:
    """Returns an address at which no server listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Waits until a condition is true."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("handler", [handle, handle_async])
def test_outage_is_warned_about_until_its_end(
    handler: Callable[..., Any], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "NEXT_WARNING", 0.2)
    address = free_address()
    begun = time.monotonic()
    with running(Worker(address, "work", handler)):
        wait_for(lambda: len(caplog.messages) >= 2)
        assert caplog.records[0].created - (time.time() - time.monotonic()) >= begun + 2
        server = ScriptedServer(address=address)
        server.answer("ClaimBatch", ok(v1.ClaimBatchResponse()))
        server.answer("ReleaseClaims", ok(v1.ReleaseClaimsResponse()))
        wait_for(lambda: "again" in caplog.messages[-1])
        # The next warning would come now.
        time.sleep(0.5)
        *warnings, end = caplog.messages
    server.close()
    for warning in warnings:
        assert warning.startswith(f"calls to the broker at {address} have failed for ")
        assert "UNAVAILABLE" in warning
        assert "refused" in warning
    assert end.startswith(f"the broker at {address} answers again after ")
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_broker_that_accepts_and_is_silent_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with running(Worker(address, "work", handle)):
            wait_for(lambda: bool(caplog.messages))
    assert re.fullmatch(rf"calls to the broker at {address} have failed for \d+ s: no answer yet", caplog.messages[0])


@pytest.mark.parametrize(
    ("code", "reason", "answers"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", True),
        (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", True),
        (grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE", False),
        (grpc.StatusCode.UNAVAILABLE, None, False),
        (grpc.StatusCode.DEADLINE_EXCEEDED, None, False),
    ],
)
def test_error_with_a_reason_is_an_answer(code: grpc.StatusCode, reason: str | None, answers: bool) -> None:
    calls = health.CallHealth()
    calls.start()
    calls.note(CallFailure(code, reason, "", None))
    assert calls.answers is answers


def test_claim_waits_only_after_an_answer() -> None:
    server = ScriptedServer()
    empty = ok(v1.ClaimBatchResponse())
    server.answer("ClaimBatch", empty, empty, error(grpc.StatusCode.UNAVAILABLE), empty)
    server.answer("ReleaseClaims", ok(v1.ReleaseClaimsResponse()))
    with running(Worker(server.address, "work", handle, wait=20)):
        wait_for(lambda: len(server.requests["ClaimBatch"]) >= 5)
    server.close()
    waits = [claim.wait_timeout.seconds for claim in server.requests["ClaimBatch"]]
    # The fourth request is the third one, sent again.
    assert waits[:5] == [0, 20, 20, 0, 20]
