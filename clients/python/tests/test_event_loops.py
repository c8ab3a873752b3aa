"""Workers in event loops of a program, against a scripted server."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest
from scripted import ScriptedServer
from test_edges import leases, settling_server, until
from test_settler import lease

from lease_broker import Item, Worker, v1


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server that extends and applies everything."""
    yield from settling_server()


async def handle(_item: Item) -> None:
    """Returns immediately."""


async def start(worker: Worker) -> None:
    """Starts a worker in a loop that ends with this function."""
    worker.start()


def check_stops(worker: Worker, server: ScriptedServer, caplog: pytest.LogCaptureFixture) -> None:
    """Checks that a worker stops by itself and has released its only item."""
    assert worker.wait(60)
    until(lambda: worker.counters().get("stopped"))
    assert [each.lease_id for request in server.requests["Release"] for each in request.releases] == ["lease-1"]
    assert not worker.health()
    assert "the worker stops: the event loop of the handlers is closed" in caplog.text
    with pytest.raises(RuntimeError, match="the event loop of the handlers is closed"):
        worker.stop()


def test_claim_after_the_end_of_the_loop_stops_the_worker(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    closed = threading.Event()

    def claim(_request: Any, _context: Any) -> v1.ClaimBatchResponse:
        assert closed.wait(60)
        return v1.ClaimBatchResponse(leases=[lease("1")])

    server.answer("ClaimBatch", claim)
    worker = Worker(server.address, "work", handle, wait=0)
    asyncio.run(start(worker))
    closed.set()
    check_stops(worker, server, caplog)


def test_loop_that_is_closed_under_a_handler_stops_the_worker(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.answer("ClaimBatch", lambda _request, _context: v1.ClaimBatchResponse(leases=[lease("1")]))
    tasks: list[Any] = []

    async def handler(_item: Item) -> None:
        tasks.append(asyncio.current_task())
        await asyncio.sleep(60)

    worker = Worker(server.address, "work", handler, wait=0)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(start(worker))
    while not tasks:
        loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    check_stops(worker, server, caplog)
    # Otherwise the garbage collector ends the task in another test, whose log then has it.
    task: Any = tasks.pop()
    task.get_coro().close()
    task._log_destroy_pending = False


def test_loop_that_is_closed_under_run_async_stops_the_worker(
    server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.answer("ClaimBatch", lambda _request, _context: v1.ClaimBatchResponse())
    worker = Worker(server.address, "work", lambda _item: None, wait=0)
    before = set(threading.enumerate())
    loop = asyncio.new_event_loop()
    task = loop.create_task(worker.run_async())
    while not worker.counters().get("connected"):
        loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    until(lambda: worker.counters().get("stopped"))
    # A thread that is no daemon would keep the program.
    for thread in set(threading.enumerate()) - before:
        if not thread.daemon:
            thread.join(60)
            assert not thread.is_alive()
    assert "the worker stops: the event loop is closed" in caplog.text
    odd: Any = task
    odd.get_coro().close()
    odd._log_destroy_pending = False


LOOP_THAT_ENDS = """
import asyncio, logging, sys
from lease_broker import Worker

async def main():
    task = asyncio.create_task(worker.run_async())
    while not worker.counters().get("started"):
        await asyncio.sleep(0.01)

async def handle(item):
    await asyncio.sleep(0.1)

logging.basicConfig()
worker = Worker(sys.argv[1], "work", handle, wait=0.1, grace=0.1)
loop = asyncio.new_event_loop()
loop.run_until_complete(main())
"""


def test_program_whose_loop_has_ended_and_is_not_closed_ends(server: ScriptedServer) -> None:
    leases(server, "1")
    command = [sys.executable, "-c", LOOP_THAT_ENDS, server.address]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert ended.returncode == 0
    assert "the worker stops: the event loop has ended" in ended.stderr


def test_worker_that_was_stopped_is_healthy(server: ScriptedServer) -> None:
    server.answer("ClaimBatch", lambda _request, _context: v1.ClaimBatchResponse())
    worker = Worker(server.address, "work", lambda _item: None, wait=0)
    worker.start()
    until(lambda: worker.counters().get("connected"))
    worker.stop()
    assert worker.health()


@pytest.mark.parametrize("blocks", ["loop", "executor"])
def test_stop_begins_while_handlers_block(server: ScriptedServer, blocks: str) -> None:
    leases(server, "1")
    released = threading.Event()

    async def handler(_item: Item) -> None:
        if blocks == "loop":
            released.wait(60)
            return
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        await asyncio.to_thread(released.wait, 60)

    worker = Worker(server.address, "work", handler, wait=0)

    def stop() -> None:
        until(lambda: worker.counters().get("started"))
        worker.request_stop()
        try:
            until(lambda: worker.counters().get("stopping"))
        finally:
            released.set()

    async def main() -> None:
        stopping = threading.Thread(target=stop)
        stopping.start()
        await worker.run_async()
        stopping.join()

    asyncio.run(main())
    assert worker.counters()["completed"] == 1


def test_awaitable_after_the_end_of_the_loop_runs_in_its_own(server: ScriptedServer) -> None:
    leases(server, "1")
    closed, ran = threading.Event(), threading.Event()

    def handler(_item: Item) -> Any:
        async def work() -> None:
            ran.set()

        assert closed.wait(60)
        return work()

    worker = Worker(server.address, "work", handler, wait=0)
    asyncio.run(start(worker))
    closed.set()
    until(lambda: worker.counters().get("completed"))
    worker.stop()
    assert ran.is_set()


class WithLock:
    """A handler that shares a lock of asyncio between items, which belongs to the first loop that waits for it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.loops: set[asyncio.AbstractEventLoop] = set()

    async def __call__(self, _item: Item) -> None:
        self.loops.add(asyncio.get_running_loop())
        async with self.lock:
            await asyncio.sleep(0.01)


class Inherited(WithLock):
    """Inherits its call."""


@pytest.mark.parametrize("behind", ["a plain function", "a subclass"])
def test_async_handlers_run_in_one_loop(server: ScriptedServer, behind: str) -> None:
    leases(server, "1", "2", "3", "4")
    handler = Inherited()
    worker = Worker(server.address, "work", wait=0, concurrency=4)
    for decorate in (worker.handler, worker.queue("others", wait=0, concurrency=4)):
        if behind == "a subclass":
            decorate(handler)
        else:
            decorate(lambda item: handler(item))
    thread = threading.Thread(target=worker.run)
    thread.start()
    until(lambda: sum(worker.counters().get(name, 0) for name in ("completed", "failed")) == 8)
    worker.request_stop()
    thread.join(60)
    assert worker.counters()["completed"] == 8
    assert len(handler.loops) == 1
    # The worker waits for the end of its own loop for only a moment.
    until(lambda: all(loop.is_closed() for loop in handler.loops))


def run_four(server: ScriptedServer, handler: Any, factory: str | None) -> None:
    """Runs four handlers together, in a loop with this task factory. Checks that no task is left."""
    leases(server, "1", "2", "3", "4")
    worker = Worker(server.address, "work", handler, wait=0, concurrency=4)

    async def main() -> None:
        if factory is not None:
            asyncio.get_running_loop().set_task_factory(getattr(asyncio, factory))
        worker.start()
        while worker.counters().get("completed", 0) < 4:
            await asyncio.sleep(0.01)
        runner: Any = worker._queues[0]._runner
        assert runner._tasks == set()
        await asyncio.to_thread(worker.stop)

    asyncio.run(main())


# Python 3.12 has brought eager tasks. Without a factory the worker itself starts them.
FACTORIES = [None, "eager_task_factory"] if sys.version_info >= (3, 12) else [None]


@pytest.mark.parametrize("factory", FACTORIES)
def test_handlers_that_do_not_wait_leave_no_task(server: ScriptedServer, factory: str | None) -> None:
    run_four(server, handle, factory)


@pytest.mark.parametrize("factory", FACTORIES)
def test_context_variable_of_a_handler_is_not_seen_by_the_next(server: ScriptedServer, factory: str | None) -> None:
    customer: ContextVar[str | None] = ContextVar("customer", default=None)
    seen: list[str | None] = []

    async def handler(item: Item) -> None:
        seen.append(customer.get())
        customer.set(item.key)

    run_four(server, handler, factory)
    assert seen == [None] * 4


def test_stop_in_the_loop_of_the_handlers_is_refused(server: ScriptedServer) -> None:
    leases(server, "1")
    worker = Worker(server.address, "work", handle, wait=0)

    async def main() -> None:
        worker.start()
        with pytest.raises(RuntimeError, match="stop would block the loop of the handlers"):
            worker.stop()
        await asyncio.to_thread(worker.stop)
        # It has stopped, and blocks nothing.
        worker.stop()

    asyncio.run(main())
    assert worker.counters()["stopped"] == 1


async def sleep_for_ever(_item: Item) -> None:
    await asyncio.sleep(3600)


@pytest.mark.parametrize("kind", ["async", "behind a plain function"])
def test_items_are_released_if_the_program_ends_its_loop(server: ScriptedServer, kind: str) -> None:
    leases(server, "1")
    handler: Any = sleep_for_ever if kind == "async" else lambda item: sleep_for_ever(item)
    worker = Worker(server.address, "work", handler, wait=0)
    # The loop holds only weak references to tasks.
    tasks = []

    async def main() -> None:
        tasks.append(asyncio.create_task(worker.run_async()))
        while not worker.counters().get("started"):
            await asyncio.sleep(0.01)

    # At the end, `asyncio.run` cancels all tasks of the loop.
    asyncio.run(main())
    assert worker.counters()["released"] == 1
    assert "failed" not in worker.counters()
    assert tasks[0].cancelled()


def test_run_async_that_is_cancelled_again_waits_for_the_handlers(server: ScriptedServer) -> None:
    leases(server, "1")
    goes_on = asyncio.Event()

    async def wait(_item: Item) -> None:
        await goes_on.wait()

    worker = Worker(server.address, "work", wait, wait=0)

    async def main() -> None:
        task = asyncio.create_task(worker.run_async())
        while not worker.counters().get("started"):
            await asyncio.sleep(0.01)
        # A scope of anyio cancels its tasks until they have ended.
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.01)
        assert not task.done()
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert worker.counters()["completed"] == 1
    assert worker.counters()["stopped"] == 1
