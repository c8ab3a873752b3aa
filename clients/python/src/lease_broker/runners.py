"""Running handlers: in threads, or as tasks of an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from lease_broker import endings, tracing
from lease_broker.endings import Ending
from lease_broker.errors import BatchError, Cause, DeadLetter, Release, Retry
from lease_broker.leases import HeldLease, Run
from lease_broker.state import State


class Runner(Protocol):
    """Runs handlers."""

    def start_runs(self, runs: list[Run]) -> None:
        """Starts the handlers of the runs. Returns immediately."""

    def replace_slot(self) -> None:
        """Makes room for one more handler, because one is stuck."""

    def close(self) -> None:
        """Ends the threads that run no handler."""


class Outcome:
    """Translates the result or the exception of a handler into endings."""

    def __init__(self, state: State) -> None:
        self._state = state

    def arguments(self, run: Run, leases: list[HeldLease]) -> tuple[Any, ...]:
        """Returns the arguments of the handler: the item or the items of the batch, and the context."""
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
    """Runs each handler in a thread, which is a daemon: a handler that never returns does not keep the process.

    New runs wake one thread. Each thread that takes a run wakes the next one if more runs wait and no other thread is
    about to wake. A thread whose handler returns soon takes several runs, and the others need not wake: waking a thread
    costs more than a short handler.
    """

    def __init__(self, state: State, handler: Callable[..., object]) -> None:
        self._state = state
        self._handler = handler
        self._outcome = Outcome(state)
        self._changed = threading.Condition(threading.Lock())
        self._waiting: deque[Run] = deque()
        self._idle = 0
        self._wakes = False
        """True while a thread was notified and does not run yet."""
        self._closed = False
        self._threads = 0
        for _ in range(state.options.concurrency):
            self.replace_slot()

    def start_runs(self, runs: list[Run]) -> None:
        with self._changed:
            self._waiting.extend(runs)
            self._wake_one()

    def replace_slot(self) -> None:
        self._threads += 1
        threading.Thread(target=self._work, name=f"lease-broker-handler-{self._threads}", daemon=True).start()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _work(self) -> None:
        while (run := self._take()) is not None:
            self._handle(run)
            if run.slot_replaced:
                return

    def _take(self) -> Run | None:
        """Waits for a run. Returns None when the worker has stopped."""
        with self._changed:
            while not self._waiting:
                if self._closed:
                    return None
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
                self._wakes = False
            run = self._waiting.popleft()
            self._wake_one()
            return run

    def _wake_one(self) -> None:
        """Wakes an idle thread if a run waits for one."""
        if self._waiting and self._idle and not self._wakes:
            self._wakes = True
            self._changed.notify()

    def _handle(self, run: Run) -> None:
        with self._state.lock:
            leases = self._state.begin(run)
        results: list[Ending] = []
        if leases:
            try:
                arguments = self._outcome.arguments(run, leases)
                if tracing.IS_INSTALLED:
                    with tracing.use_trace_parent(run.context.trace_parent):
                        result = self._handler(*arguments)
                else:
                    result = self._handler(*arguments)
                results = self._outcome.of_return(leases, result)
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
        self._ended: list[tuple[Run, list[Ending]]] = []
        """Runs that have ended, and are still to be passed to the state."""

    def start_runs(self, runs: list[Run]) -> None:
        if runs:
            self._loop.call_soon_threadsafe(self._spawn, runs)

    def replace_slot(self) -> None:
        """A task needs no thread."""

    def close(self) -> None:
        """A task ends by itself."""

    def _spawn(self, runs: list[Run]) -> None:
        # The state's lock is taken once for all of them, and not by each task.
        with self._state.lock:
            begun = [(run, self._state.begin(run)) for run in runs]
        for run, leases in begun:
            if leases:
                # The loop itself holds only weak references to tasks.
                self._tasks.add(self._loop.create_task(self._handle(run, leases)))
            else:
                self._end(run, [])

    async def _handle(self, run: Run, leases: list[HeldLease]) -> None:
        task = asyncio.current_task()
        assert task is not None
        # Only now, because a task that is cancelled before its first step never runs.
        run.context.on_cancel(lambda: self._cancel(task, run.context.cause))
        try:
            arguments = self._outcome.arguments(run, leases)
            if tracing.IS_INSTALLED:
                with tracing.use_trace_parent(run.context.trace_parent):
                    result = await self._handler(*arguments)
            else:
                result = await self._handler(*arguments)
            results = self._outcome.of_return(leases, result)
        except BaseException as error:
            # SystemExit would end the loop, and with it the worker.
            log_error(run, error)
            results = self._outcome.of_raise(run, leases, error)
        self._tasks.discard(task)
        self._end(run, results)

    def _end(self, run: Run, results: list[Ending]) -> None:
        """Ends a run after all tasks that are ready, so that their endings share a call."""
        if not self._ended:
            self._loop.call_soon(self._end_all)
        self._ended.append((run, results))

    def _end_all(self) -> None:
        ended, self._ended = self._ended, []
        with self._state.lock:
            for run, results in ended:
                self._state.end(run, results, wake=False)
            self._state.endings_ready.notify()

    def _cancel(self, task: asyncio.Task[None], cause: Cause | None) -> None:
        try:
            self._loop.call_soon_threadsafe(task.cancel, cause)
        except RuntimeError:
            # The program has closed its loop, and the tasks with it.
            return


def log_error(run: Run, error: BaseException) -> None:
    """Logs the stack of an error that a handler did not raise on purpose."""
    expected = (Retry, DeadLetter, Release, BatchError)
    if run.context.cause is None and not isinstance(error, expected):
        keys = ", ".join(lease.item.key for lease in run.leases)
        run.context.logger.error("the handler failed (%s)", keys, exc_info=error)
