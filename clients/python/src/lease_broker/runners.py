"""Running handlers: in threads, or as tasks of an event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import inspect
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from types import CoroutineType
from typing import Any

from lease_broker import endings, tracing
from lease_broker.endings import Ending
from lease_broker.errors import Release, error_text
from lease_broker.leases import Context, HeldLease
from lease_broker.own_loop import OwnLoop
from lease_broker.state import State, stack_of_thread

# The seconds for which an event loop does not run before the first warning, and between two warnings.
_FIRST_WARNING, _NEXT_WARNING = 5, 30


def input_of(is_batch: bool, leases: list[HeldLease]) -> Any:
    """Returns what the handler works on: the item, or the items of the batch."""
    return [lease.item for lease in leases] if is_batch else leases[0].item


def endings_of_error(state: State, run: Context, leases: list[HeldLease], error: BaseException) -> list[Ending]:
    """Returns the endings for an exception."""
    try:
        return endings.of_raise(leases, error, run.cause, state.options.time_limit)
    except BaseException as odd:
        # The exception is the user's, and so are its methods. Without an ending the lease would be kept for ever.
        return [endings.failed(lease, error_text(odd), error=odd) for lease in leases]


def released_by_program(state: State, run: Context, error: BaseException) -> BaseException:
    """Returns `Release` if the program ends and has cancelled the task, as `asyncio.run` does at its end, or `error`.

    Is called in the task. If only this task was cancelled, its item fails. Otherwise it would run again for ever.
    """
    if not isinstance(error, asyncio.CancelledError) or run.cause is not None:
        return error
    ends = not state.takes_items
    if not ends and sys.version_info >= (3, 11):  # Python 3.10 has no `cancelling`.
        # A task that began during the cleanup of another one is not cancelled.
        tasks = [task.cancelling() > 0 for task in asyncio.all_tasks()]
        ends = all(tasks) or sum(tasks) > 1
    return Release() if ends else error


class ThreadRunner:
    """Runs each handler in a thread, which is a daemon: a handler that never returns does not keep the process.

    New runs wake one thread. Each thread that takes a run wakes the next one if more runs wait and no other thread is
    about to wake. A thread whose handler returns soon takes several runs, and the others need not wake: waking a thread
    costs more than a short handler.
    """

    def __init__(
        self, state: State, handler: Callable[..., object], loop: asyncio.AbstractEventLoop | None, own_loop: OwnLoop
    ) -> None:
        """`loop`: the program's event loop, if it has one, for a handler that returns an awaitable."""
        self._state = state
        self._handler = handler
        self._loop = loop
        self._own_loop = own_loop
        self._changed = threading.Condition(state.lock)
        self._waiting: deque[Context] = deque()
        self._idle = 0
        self._wakes = False
        """True while a thread was notified and does not run yet."""
        self._closed = False
        self._threads = 0
        self._start_threads(state.options.concurrency)

    def start_runs(self, runs: list[Context]) -> None:
        """Starts the handlers of the runs. Returns immediately. Is called with the worker's lock."""
        self._waiting.extend(runs)
        # More than there are slots: some are stuck.
        self._start_threads(len(self._state.runs))
        self._wake_one()

    def _start_threads(self, count: int) -> None:
        while self._threads < count:
            self._threads += 1
            threading.Thread(target=self._work, name=f"lease-broker-handler-{self._threads}", daemon=True).start()

    def watch(self) -> None:
        """A thread ends by itself."""

    def close(self) -> None:
        """Ends the threads that run no handler."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _work(self) -> None:
        state, is_batch = self._state, self._state.options.batch is not None
        run: Context | None = None
        results: list[Ending] = []
        while True:
            # One section for the end of a run and the begin of the next: a lock costs as much as a short handler.
            with state.lock:
                if run is not None:
                    state.end([(run, results)])
                run = self._take()
                if run is None:
                    return
                ((_, leases),) = state.begin((run,))
            if not leases:
                results = []
                continue
            run._thread = threading.get_ident()
            token = None
            try:
                if tracing.IS_INSTALLED:
                    token = tracing.attach(run.trace_parent)
                result = self._handler(input_of(is_batch, leases), run)
                if result is not None and inspect.isawaitable(result):
                    # The decorator of an `async def` can be a plain function.
                    result = self._wait_for(run, result)
                results = endings.of_return(leases, is_batch, result)
            except BaseException as error:
                # Also SystemExit and KeyboardInterrupt, raised in a handler, are failures of the item.
                results = endings_of_error(state, run, leases, error)
            endings.log_failures(state.options.logger, state.options.queue, results)
            if token is not None:
                tracing.detach(token)

    def _take(self) -> Context | None:
        """Waits for a run. Returns None when the worker has stopped."""
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

    def _wait_for(self, run: Context, work: Awaitable[object]) -> object:
        """Runs an awaitable in the program's event loop, or in that of the worker, and waits for its result."""

        async def as_task() -> tuple[object, BaseException | None]:
            task = asyncio.current_task()
            assert task is not None
            run._set_task(task)
            try:
                return await work, None
            except (KeyboardInterrupt, SystemExit) as error:
                # A task that raises one of them ends the loop.
                return None, error
            except asyncio.CancelledError as error:
                return None, released_by_program(self._state, run, error)

        loop = self._own_loop.get() if self._loop is None or self._loop.is_closed() else self._loop
        try:
            result, error = asyncio.run_coroutine_threadsafe(as_task(), loop).result()
        except concurrent.futures.CancelledError:
            raise asyncio.CancelledError from None
        if error is not None:
            raise error
        return result


class AsyncRunner:
    """Runs each handler as a task of an event loop."""

    def __init__(
        self,
        state: State,
        handler: Callable[..., object],
        loop: asyncio.AbstractEventLoop,
        on_fatal: Callable[[Exception], None],
    ) -> None:
        self._on_fatal = on_fatal
        self._state = state
        self._handler = handler
        self._is_batch = state.options.batch is not None
        self._loop = loop
        self._thread = threading.get_ident()
        """The thread of the loop."""
        self._unanswered = 0
        """The seconds, by the looks of the keeper, for which the loop has not run."""
        self._next_look = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: list[tuple[Context, list[Ending]]] = []
        """Runs that have ended, and are still to be passed to the state."""

    def start_runs(self, runs: list[Context]) -> None:
        """Starts the handlers of the runs. Returns immediately. Is called with the worker's lock."""
        if runs:
            try:
                self._loop.call_soon_threadsafe(self._spawn, runs)
            except RuntimeError:
                self.watch()

    def watch(self) -> None:
        """If the loop is closed, its tasks are gone. Releases their items and stops the worker.

        Is called with the worker's lock, at least once per second.
        """
        state = self._state
        if not self._loop.is_closed():
            self._look_at_loop()
            return
        if not (state.takes_items or state.runs):
            return
        state.takes_items = False
        state.end([(run, [endings.released(lease) for lease in run._leases]) for run in state.runs])
        self._on_fatal(RuntimeError("the event loop of the handlers is closed: stop the worker before the loop ends"))

    def _look_at_loop(self) -> None:
        """Warns if the loop does not run, because a handler blocks it. Heartbeats go on, and so hide the mistake."""
        state, now = self._state, self._state.now()
        if now < self._next_look:
            return
        self._next_look = now + 1.0
        # Looks are counted and not time: the whole process may have slept.
        self._unanswered += 1
        if self._unanswered == 1:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._on_answer)
        elif self._unanswered % _NEXT_WARNING == _FIRST_WARNING:
            text = "queue %s: the event loop has not run for %d s, and all handlers wait for:\n%s"
            stack = stack_of_thread(self._thread)
            # Not in this thread: the log may be what blocks the loop, and this thread sends the heartbeats.
            args = (text, state.options.queue, self._unanswered, stack)
            threading.Thread(target=state.options.logger.warning, args=args, daemon=True).start()

    def _on_answer(self) -> None:
        self._unanswered = 0

    def close(self) -> None:
        """A task ends by itself."""

    def _spawn(self, runs: list[Context]) -> None:
        # The state's lock is taken once for all of them, and not by each task.
        with self._state.lock:
            begun = self._state.begin(runs, are_tasks=True)
        start = self._starter()
        for run, leases in begun:
            if leases:
                task = start(self._handle(run, leases))
                if not task.done():
                    # The loop itself holds only weak references to tasks.
                    self._tasks.add(task)
            else:
                self._end(run, [])

    async def _handle(self, run: Context, leases: list[HeldLease]) -> None:
        task = asyncio.current_task(self._loop)
        assert task is not None
        # Only now, because a task that is cancelled before its first step never runs.
        run._set_task(task)
        run._thread = self._thread
        self._state.begin_task(run)
        try:
            if tracing.IS_INSTALLED:
                tracing.attach(run.trace_parent)
            result = self._handler(input_of(self._is_batch, leases), run)
            if type(result) is CoroutineType or inspect.isawaitable(result):
                result = await result
            results = endings.of_return(leases, self._is_batch, result)
        except BaseException as error:
            # SystemExit would end the loop, and with it the worker.
            results = endings_of_error(self._state, run, leases, released_by_program(self._state, run, error))
        endings.log_failures(self._state.options.logger, self._state.options.queue, results)
        self._tasks.discard(task)
        self._end(run, results)

    def _end(self, run: Context, results: list[Ending]) -> None:
        """Ends a run after all tasks that are ready, so that their endings share a call."""
        if not self._ended:
            if self._loop.is_closed():
                # The task is being destroyed. `watch` ends its run.
                return
            self._loop.call_soon(self._end_all)
        self._ended.append((run, results))

    def _end_all(self) -> None:
        ended, self._ended = self._ended, []
        with self._state.lock:
            self._state.end(ended)

    def _starter(self) -> Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]:
        """Returns the function that starts a task. From Python 3.12 on, it runs at once as far as its first wait."""
        if self._loop.get_task_factory() is not None:
            return self._loop.create_task
        # It costs less than `create_task`, which does the same without a factory. A number as name costs more.
        make = functools.partial(asyncio.Task, loop=self._loop, name="lease-broker-handler")
        return functools.partial(make, eager_start=True) if sys.version_info >= (3, 12) else make
