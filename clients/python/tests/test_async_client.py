"""The client for asyncio, against a scripted server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import grpc
import pytest
from scripted import ScriptedServer, error, ok
from test_edges import until

from lease_broker import AsyncClient, Client, v1

ADDED = ok(v1.EnqueueResponse(results=[v1.EnqueueResult(key="1")]))


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    yield server
    server.close()


def test_cancelled_call_is_not_sent_again(server: ScriptedServer) -> None:
    server.answer("Enqueue", error(grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE", retry_after=600.0), ADDED)
    callers: list[threading.Thread] = []

    def token() -> str:
        callers.append(threading.current_thread())
        return "token"

    async def main() -> None:
        async with AsyncClient(server.address, token=token, timeout=3600) as client:
            adding = asyncio.create_task(client.enqueue("work", [{}]))
            while not server.requests["Enqueue"]:
                await asyncio.sleep(0.01)
            adding.cancel()
            with pytest.raises(asyncio.CancelledError):
                await adding
            until(lambda: not callers[0].is_alive(), 30)

    asyncio.run(main())
    assert len(server.requests["Enqueue"]) == 1


def test_calls_need_no_thread_of_the_default_executor(server: ScriptedServer) -> None:
    server.answer("Enqueue", ADDED)
    released = threading.Event()
    user = ContextVar("user", default="none")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        blocked = loop.run_in_executor(None, released.wait, 30)
        user.set("Ada")
        async with AsyncClient(server.address, token=user.get) as client:
            assert await client.enqueue("work", [{}]) == ["1"]
        assert not blocked.done()
        released.set()

    asyncio.run(main())
    # A call has the context variables of its task, such as OpenTelemetry's current span.
    assert server.headers[0]["authorization"] == "Bearer Ada"


def test_close_does_not_block_the_loop(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()
    close = Client.close

    def slow_close(client: Any) -> None:
        assert goes_on.wait(30)
        close(client)

    monkeypatch.setattr(Client, "close", slow_close)

    async def main() -> None:
        async with AsyncClient(server.address) as client:
            closing = asyncio.create_task(client.close())
            await asyncio.sleep(0)
            goes_on.set()
            await closing

    asyncio.run(main())
