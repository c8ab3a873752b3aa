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

from lease_broker import Client, Item, LeaseBrokerError, Worker, health, v1
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


def messages(caplog: pytest.LogCaptureFixture, address: str) -> list[str]:
    """Returns the logged texts about a broker. The worker of a test that has failed may log others."""
    return [text for text in caplog.messages if address in text]


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
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

    def texts() -> list[str]:
        return messages(caplog, address)

    begun = time.monotonic()
    with running(Worker(address, "work", handler)):
        wait_for(lambda: sum("refused" in text for text in texts()) >= 2)
        [first, *_] = [record for record in caplog.records if address in record.getMessage()]
        assert first.created - (time.time() - time.monotonic()) >= begun + 2
        answers = {"ClaimBatch": ok(v1.ClaimBatchResponse()), "ReleaseClaims": ok(v1.ReleaseClaimsResponse())}
        server = ScriptedServer(address=address, answers=answers)
        wait_for(lambda: "again" in texts()[-1])
        # The next warning would come now.
        time.sleep(0.5)
        *warnings, end = texts()
    server.close()
    for warning in warnings:
        assert warning.startswith(f"calls to the broker at {address} have failed for ")
        # On a busy machine the first attempt can take longer than the time before the first warning.
        assert ("UNAVAILABLE" in warning and "refused" in warning) or warning.endswith(": no answer yet")
    assert end.startswith(f"the broker at {address} answers again after ")
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_broker_that_accepts_and_is_silent_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with running(Worker(address, "work", handle)):
            wait_for(lambda: bool(messages(caplog, address)))
    [text, *_] = messages(caplog, address)
    assert re.fullmatch(rf"calls to the broker at {address} have failed for \d+ s: no answer yet", text)


def test_client_warns_while_no_broker_answers(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FIRST_WARNING", 0.1)
    address = free_address()
    with Client(address, timeout=3) as client:
        with pytest.raises(LeaseBrokerError):
            client.wake("work")
        assert re.match(
            rf"calls to the broker at {address} have failed for .* UNAVAILABLE: ", messages(caplog, address)[0]
        )
        assert not client._health.failing_for()


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
