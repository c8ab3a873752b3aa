"""A worker: claims the items of one queue, runs a handler for each, and settles them."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import FrameType
from typing import Any, TypeVar

from lease_broker.calls import Caller, RetryEvent
from lease_broker.credentials import Credentials, Token, TokenSource, plaintext
from lease_broker.errors import seconds
from lease_broker.events import Events, Observer
from lease_broker.health import CallHealth
from lease_broker.keeper import Keeper
from lease_broker.options import Options, default_worker_id
from lease_broker.poller import Poller
from lease_broker.runners import AsyncRunner, Runner, ThreadRunner
from lease_broker.settler import Settler
from lease_broker.state import State
from lease_broker.transport import Transport

Handler = TypeVar("Handler", bound=Callable[..., Any])

_CANCEL_GRACE = 5.0
"""The seconds that a cancelled handler has to stop when the worker stops."""
_LAST_SETTLE_SECONDS = 5.0
"""The seconds that remain afterwards for settlements that no broker answers."""


class Worker:
    """A worker of one queue.

    The handler is called with an `Item` and, if it has two parameters, with a `Context`. With `batch` it is called with
    a list of items. An `async def` runs as a task of the event loop, any other function in a thread. Its result or its
    exception decides how the item ends.
    """

    def __init__(
        self,
        address: str | Sequence[str],
        queue: str,
        handler: Callable[..., Any] | None = None,
        *,
        concurrency: int = 1,
        batch: int | None = None,
        worker_id: str | None = None,
        lease: timedelta | float | None = None,
        heartbeat: bool = True,
        time_limit: timedelta | float | None = None,
        wait: timedelta | float = 20.0,
        grace: timedelta | float = 20.0,
        stuck_after: timedelta | float = 30.0,
        max_stuck: int | None = None,
        credentials: Credentials | None = None,
        token: TokenSource | None = None,
        on_event: Observer | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        """Makes a worker. It connects when it starts.

        `address` is "host:port", "dns:///host:port", or a list of addresses. `concurrency` is the number of handlers
        that run at once. `batch` is the number of items that one handler gets. `lease` is the duration of the leases;
        without it the queue's. Without `heartbeat` a handler is cancelled after half of its lease. `time_limit` bounds
        a handler's run. `wait` is the time that a claim waits for items. `grace` is the time that handlers have to end
        when the worker stops. A handler that still runs `stuck_after` its cancellation is reported, and another one
        takes its slot, for up to `max_stuck` handlers; without it, `concurrency`. Durations are seconds or timedeltas.
        `on_event` is called by the worker's threads: it must return soon, and must not call `stop`.

        Raises `ValueError` for an option out of its range.
        """
        self._options = Options(
            address=address,
            queue=queue,
            concurrency=concurrency,
            batch=batch,
            worker_id=worker_id or default_worker_id(),
            lease=seconds(lease),
            heartbeat=heartbeat,
            time_limit=seconds(time_limit),
            wait=seconds(wait) or 0.0,
            grace=seconds(grace) or 0.0,
            stuck_after=seconds(stuck_after) or 0.0,
            max_stuck=max_stuck,
            credentials=credentials or plaintext(),
            token=None if token is None else Token(token),
            observer=on_event,
            logger=logger or logging.getLogger("lease_broker"),
        )
        self._handler = handler
        self._events = Events(queue, on_event, self._options.logger)
        self._state = State(self._options, self._events)
        self._health = CallHealth(address, self._options.logger)
        self._error: Exception | None = None
        self._stopping = threading.Event()
        self._start_lock = threading.Lock()
        self._started = False
        self._stop_lock = threading.Lock()
        self._stopped = False
        self._grace: float | None = None
        self._hurry = threading.Event()
        self._left_handlers = False
        self._process = os.getpid()

    def handler(self, function: Handler) -> Handler:
        """Makes a function the handler. A decorator."""
        self._handler = function
        return function

    def run(self) -> None:
        """Works until SIGTERM or SIGINT, and stops in order. A second signal cancels the handlers immediately.

        Ends the process with code 1 if handlers did not stop. Raises `LeaseBrokerError` if the broker refuses the
        worker, for example because the queue does not exist.
        """
        # Not `loop.add_signal_handler`: a handler that blocks the loop must not hide the signal.
        previous = self._catch_signals()
        try:
            if inspect.iscoroutinefunction(self._handler):
                asyncio.run(self._run_in_loop(self._stop_or_exit))
            else:
                self.start()
                while not self._stopping.wait(0.5):
                    pass
                self._stop_or_exit()
        finally:
            for number, action in previous.items():
                signal.signal(number, action)

    async def run_async(self) -> None:
        """Works until the task is cancelled, and stops in order. For a program that has an event loop.

        Touches no signals. Raises `LeaseBrokerError` if the broker refuses the worker.
        """
        await self._run_in_loop(self.stop)

    async def _run_in_loop(self, stop: Callable[[], None]) -> None:
        self.start()
        waiting = asyncio.get_running_loop().run_in_executor(None, self._stopping.wait)
        try:
            await asyncio.shield(waiting)
        finally:
            self._stopping.set()
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, stop))

    def _stop_or_exit(self) -> None:
        """Stops. Ends the process if handlers were left, because their threads or tasks would keep it."""
        try:
            self.stop()
        finally:
            if self._left_handlers:
                logging.shutdown()
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(1)

    def request_stop(self, grace: timedelta | float | None = None) -> None:
        """Makes `run` and `run_async` stop, and returns immediately. A second call cancels the handlers.

        A signal handler can call it. `grace` replaces the option.
        """
        if grace is not None:
            self._grace = seconds(grace)
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    def start(self) -> None:
        """Starts the worker and returns. For a program that handles its signals itself.

        Does nothing if the worker was stopped first. Raises `RuntimeError` if it was started before.
        """
        with self._start_lock:
            if self._started:
                raise RuntimeError("the worker was started before: make another one")
            if not self._stopping.is_set():
                self._start()
                self._started = True

    def _start(self) -> None:
        if self._handler is None:
            raise ValueError("the worker has no handler: decorate a function with @worker.handler")
        if os.getpid() != self._process:
            raise RuntimeError("the worker was made before the process has forked: make it in the child")
        options, state = self._options, self._state
        handler = with_two_parameters(self._handler)
        self._runner: Runner
        if inspect.iscoroutinefunction(self._handler):
            self._runner = AsyncRunner(state, handler, asyncio.get_running_loop())
        else:
            self._runner = ThreadRunner(state, handler)
        state.start_runs = self._runner.start_runs
        self._transport = Transport(options.address, options.credentials)
        self._keeper_transport = Transport(options.address, options.credentials)
        self._transport.watch(lambda ready: self._events.emit("connected" if ready else "disconnected"))
        self._caller = Caller(self._transport, options.token, self._on_retry, self._health)
        self._poller = Poller(state, self._caller, self._health, self._on_fatal)
        self._settler = Settler(state, self._caller, self._on_fatal)
        self._keeper = Keeper(state, self._keeper_transport, self._caller, self._runner, self._health)
        self._health.start()
        for name, part in (("poller", self._poller), ("settler", self._settler), ("keeper", self._keeper)):
            thread = threading.Thread(target=self._guard, args=(part.run,), name=f"lease-broker-{name}", daemon=True)
            setattr(self, f"_{name}_thread", thread)
            thread.start()

    def stop(self, grace: timedelta | float | None = None) -> None:
        """Stops in order: claims nothing more, waits for handlers up to `grace`, cancels them, settles all endings.

        Returns when the worker has stopped, also if another thread stops it. A handler must not call it, because it
        would wait for itself: `request_stop` is for that. Raises `LeaseBrokerError` if the broker
        has refused the worker.
        """
        self._stopping.set()
        with self._stop_lock:
            if not self._stopped:
                wanted = self._grace if grace is None else seconds(grace)
                with self._start_lock:
                    started = self._started
                if started:
                    self._stop_in_order(self._options.grace if wanted is None else wanted)
                self._stopped = True
        if self._error is not None:
            raise self._error

    def health(self) -> bool:
        """Returns False if more than `max_stuck` handlers are stuck, if the broker refuses the worker, or if all calls
        have failed for as long as a lease lasts.
        """
        state = self._state
        if state.stuck > self._options.allowed_stuck or self._error is not None:
            return False
        return self._health.failing_for() <= state.lease_seconds

    @property
    def left_handlers(self) -> bool:
        """True after `stop` if handlers still ran."""
        return self._left_handlers

    def counters(self) -> dict[str, int]:
        """Returns how often each event has happened."""
        return self._events.counters()

    def _stop_in_order(self, grace: float) -> None:
        state = self._state
        self._events.emit("stopping")
        with state.lock:
            state.settle_until = time.monotonic() + grace + _CANCEL_GRACE + _LAST_SETTLE_SECONDS
            state.takes_items = False
            state.slots_free.notify_all()
            state.release_waiting()
        self._poller.stop()
        self._poller_thread.join()  # type: ignore[attr-defined]
        self._poller.release_abandoned(forget=False)
        self._wait_for_handlers(grace, stop_early=self._hurry)
        with state.lock:
            for run in list(state.runs):
                state.cancel(run, "shutdown")
        self._wait_for_handlers(_CANCEL_GRACE)
        with state.lock:
            self._left_handlers = bool(state.runs)
            for run in state.runs:
                for lease in run.leases:
                    state.drop(lease)
        self._settler.close()
        self._settler_thread.join()  # type: ignore[attr-defined]
        self._keeper.close()
        self._keeper_thread.join()  # type: ignore[attr-defined]
        self._poller.release_abandoned(forget=True)
        self._runner.close()
        self._health.close()
        self._transport.close()
        self._keeper_transport.close()
        self._events.emit("stopped")

    def _wait_for_handlers(self, limit: float, stop_early: threading.Event | None = None) -> None:
        """Waits until all handlers have returned."""
        until = time.monotonic() + limit
        with self._state.lock:
            while self._state.runs and (rest := until - time.monotonic()) > 0:
                if stop_early is not None and stop_early.is_set():
                    return
                self._state.all_ended.wait(min(rest, 0.2))

    def _on_retry(self, event: RetryEvent) -> None:
        self._events.emit(
            "retry", rpc=event.rpc, code=event.code, reason=event.reason, attempt=event.attempt, wait=event.wait
        )

    def _guard(self, run: Callable[[], None]) -> None:
        """Runs a part of the worker. An error that it does not expect ends the worker and is not silent."""
        try:
            run()
        except Exception as error:
            self._options.logger.exception("a thread of the worker has failed")
            self._on_fatal(error)

    def _on_fatal(self, error: Exception) -> None:
        """Ends the worker, because the broker refuses its calls or one of its threads has failed."""
        self._error = error
        self._options.logger.error("the worker stops: %s", error)
        self._stopping.set()

    def _catch_signals(self) -> dict[int, Any]:
        if threading.current_thread() is not threading.main_thread():
            return {}

        def on_signal(_number: int, _frame: FrameType | None) -> None:
            self.request_stop()

        return {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}


def with_two_parameters(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a handler that takes an item and a context, also if `handler` takes only the item."""
    parameters = inspect.signature(handler).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if takes_any or len(positional) >= 2:
        return handler
    return lambda item, _context: handler(item)
