"""Running handlers: in threads, or as tasks of an event loop."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from lease_broker import endings
from lease_broker.endings import Ending
from lease_broker.errors import BatchError, DeadLetter, Release, Retry
from lease_broker.leases import HeldLease, Run
from lease_broker.state import State


class Runner(Protocol):
    """Runs handlers."""

    def start_run(self, run: Run) -> None:
        """Starts the handler of a run. Returns at once."""

    def replace_slot(self) -> None:
        """Makes room for one more handler, because one is stuck."""

    def close(self) -> None:
        """Ends the threads that run no handler."""


class Outcome:
    """Translates what a handler returns or raises into endings."""

    def __init__(self, state: State) -> None:
        self._state = state

    def arguments(self, run: Run, leases: list[HeldLease]) -> tuple[Any, ...]:
        """Returns what the handler is called with: the item or the items of the batch, and the context."""
        items = [lease.item for lease in leases]
        return (items if self._state.options.batch is not None else items[0], run.context)

    def of_return(self, leases: list[HeldLease], result: object) -> list[Ending]:
        """Returns the endings for a result: of the item, or by item of the batch."""
        if self._state.options.batch is None:
            return [endings.of_result(leases[0], result)]
        by_item = result if isinstance(result, dict) else {}
        if result is not None and not isinstance(result, dict):
            text = f"TypeError: the handler of a batch returned {type(result).__name__} and not a dict or None"
            return [endings.failed(lease, text) for lease in leases]
        return [endings.of_result(lease, by_item.get(lease.item)) for lease in leases]

    def of_raise(self, run: Run, leases: list[HeldLease], error: BaseException) -> list[Ending]:
        """Returns the endings for an exception."""
        if isinstance(error, BatchError):
            return endings.of_batch_error(leases, error)
        cause, limit = run.context.cause, self._state.options.time_limit
        return [endings.of_error(lease, error, cause, limit) for lease in leases]


class ThreadRunner:
    """Runs each handler in a thread, which is a daemon: a handler that never returns does not keep the process."""

    def __init__(self, state: State, handler: Callable[..., object]) -> None:
        self._state = state
        self._handler = handler
        self._outcome = Outcome(state)
        self._runs: queue.SimpleQueue[Run | None] = queue.SimpleQueue()
        self._threads = 0
        for _ in range(state.options.concurrency):
            self.replace_slot()

    def start_run(self, run: Run) -> None:
        self._runs.put(run)

    def replace_slot(self) -> None:
        self._threads += 1
        threading.Thread(target=self._work, name=f"lease-broker-handler-{self._threads}", daemon=True).start()

    def close(self) -> None:
        for _ in range(self._threads):
            self._runs.put(None)

    def _work(self) -> None:
        while (run := self._runs.get()) is not None:
            self._handle(run)
            if run.slot_replaced:
                return

    def _handle(self, run: Run) -> None:
        with self._state.lock:
            leases = self._state.begin(run)
        results: list[Ending] = []
        if leases:
            try:
                results = self._outcome.of_return(leases, self._handler(*self._outcome.arguments(run, leases)))
            except BaseException as error:
                # Also SystemExit and KeyboardInterrupt, raised in a handler, are failures of the item.
                log_error(run, error)
                results = self._outcome.of_raise(run, leases, error)
        with self._state.lock:
            self._state.end(run, results)


class AsyncRunner:
    """Runs each handler as a task of an event loop."""

    def __init__(
        self, state: State, handler: Callable[..., Awaitable[object]], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._state = state
        self._handler = handler
        self._outcome = Outcome(state)
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()

    def start_run(self, run: Run) -> None:
        self._loop.call_soon_threadsafe(self._spawn, run)

    def replace_slot(self) -> None:
        """Tasks need no room of their own."""

    def close(self) -> None:
        """Tasks end by themselves."""

    def _spawn(self, run: Run) -> None:
        task = self._loop.create_task(self._handle(run))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handle(self, run: Run) -> None:
        with self._state.lock:
            leases = self._state.begin(run)
        results: list[Ending] = []
        if leases:
            task = asyncio.ensure_future(self._handler(*self._outcome.arguments(run, leases)))

            def cancel(task: asyncio.Future[object] = task) -> None:
                self._loop.call_soon_threadsafe(task.cancel, run.context.cause)

            run.context.on_cancel(cancel)
            try:
                results = self._outcome.of_return(leases, await task)
            except BaseException as error:
                log_error(run, error)
                results = self._outcome.of_raise(run, leases, error)
        with self._state.lock:
            self._state.end(run, results)


def log_error(run: Run, error: BaseException) -> None:
    """Logs the stack of an error that a handler did not raise on purpose."""
    expected = (Retry, DeadLetter, Release, BatchError)
    if run.context.cause is None and not isinstance(error, expected):
        keys = ", ".join(lease.item.key for lease in run.leases)
        run.context.logger.error("the handler failed (%s)", keys, exc_info=error)
