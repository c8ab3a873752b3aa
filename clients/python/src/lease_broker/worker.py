"""A worker: claims the items of queues, runs a handler for each, and settles them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import FrameType
from typing import TYPE_CHECKING, Any

from lease_broker.addresses import list_addresses
from lease_broker.credentials import Credentials, Token, TokenSource, check_plaintext, plaintext
from lease_broker.errors import check_seconds, seconds
from lease_broker.handlers import AnyHandler, HandlerT
from lease_broker.health import CallHealth
from lease_broker.in_thread import in_thread
from lease_broker.latch import Latch
from lease_broker.options import Options, QueueOptions, default_worker_id
from lease_broker.own_loop import OwnLoop
from lease_broker.queue_worker import STOP_SECONDS, Connections, QueueWorker, running_loop
from lease_broker.transport import Transport

if TYPE_CHECKING:
    from typing_extensions import Unpack


# Seconds after which an event loop that has ended under its worker is noticed.
_LOOP_INTERVAL = 1.0


class Worker:
    """A worker of one queue, or of several.

    The handler is called with an `Item` and, if it has two parameters, with a `Context`. With `batch` it is called with
    a list of items. An `async def` runs as a task of the event loop, any other function in a thread. Its result or its
    exception decides how the item ends.
    """

    def __init__(
        self,
        address: str | Sequence[str],
        queue: str,
        handler: AnyHandler | None = None,
        *,
        worker_id: str | None = None,
        grace: timedelta | float = 15.0,
        credentials: Credentials | None = None,
        token: TokenSource | None = None,
        logger: logging.Logger | None = None,
        **options: Unpack[QueueOptions],
    ) -> None:
        """Makes a worker. It connects when it starts.

        `address` is "host:port", "dns:///host:port", or a list of "host:port". `grace` is the time that handlers have
        to end when the worker stops. `QueueOptions` documents the `options` of the queue.

        Raises `ValueError` for an option out of its range.
        """
        self._address = address
        self._credentials = credentials or plaintext()
        check_plaintext(list_addresses(address), self._credentials)
        self._token = None if token is None else Token(token)
        self._worker_id = default_worker_id() if worker_id is None else worker_id
        self._logger = logger or logging.getLogger("lease_broker")
        self._grace = check_seconds("grace", seconds(grace))
        self._queues: list[QueueWorker] = []
        self._health = CallHealth(address, self._logger, self._on_connection)
        self._error: Exception | None = None
        self._stopping = Latch()
        self._start_lock = threading.Lock()
        self._connections: Connections | None = None
        self._own_loop = OwnLoop()
        self._stop_lock = threading.Lock()
        self._stopped = False
        self._hurry = Latch()
        self._process = os.getpid()
        self._add(queue, handler, options)

    def handler(self, function: HandlerT) -> HandlerT:
        """Makes a function the handler of the first queue. A decorator."""
        self._queues[0].handler = function
        return function

    def queue(self, queue: str, **options: Unpack[QueueOptions]) -> Callable[[HandlerT], HandlerT]:
        """Adds a queue, which shares the connections of the worker. A decorator of its handler.

        Raises `ValueError` for an option out of its range.
        """
        part = self._add(queue, None, options)

        def decorate(function: HandlerT) -> HandlerT:
            part.handler = function
            return function

        return decorate

    def _add(self, queue: str, handler: AnyHandler | None, options: QueueOptions) -> QueueWorker:
        if self._connections is not None:
            raise RuntimeError(f"queue {queue}: add it before the worker is started")
        if any(queue == part.options.queue for part in self._queues):
            raise ValueError(f"queue {queue} was added before")
        self._queues.append(QueueWorker(Options.of(queue, self._worker_id, self._logger, options), handler))
        return self._queues[-1]

    def run(self) -> None:
        """Works until SIGTERM or SIGINT, and stops in order. A second signal cancels the handlers immediately.

        Only the main thread can catch signals. In another thread it works until `request_stop`, and logs a warning.
        Ends the process with code 1 if handlers did not stop. Raises `LeaseBrokerError` if the broker refuses the
        worker, for example because the queue does not exist.
        """
        if running_loop() is not None:
            raise RuntimeError("run would block the event loop of the program: use run_async")
        # Not `loop.add_signal_handler`: a handler that blocks the loop must not hide the signal.
        previous = self._catch_signals()
        try:
            if any(part.is_async for part in self._queues):
                asyncio.run(self._run_in_loop(self._stop_or_exit))
            else:
                self.start()
                try:
                    while not self.wait(0.5):
                        pass
                finally:
                    # The handler of another signal can raise.
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
        loop = asyncio.get_running_loop()

        def wait_and_stop() -> None:
            while not self._stopping.wait(_LOOP_INTERVAL):
                # Otherwise this thread would keep a program that has ended.
                if loop.is_closed():
                    self._on_fatal(RuntimeError("the event loop is closed: stop the worker before the loop ends"))
                elif not loop.is_running() and not threading.main_thread().is_alive():
                    self._on_fatal(RuntimeError("the event loop has ended: stop the worker before"))
            stop()

        # The thread also stops the worker, because a handler can block the loop.
        stopped = in_thread(wait_and_stop)
        cancelled: asyncio.CancelledError | None = None
        try:
            while not stopped.done():
                try:
                    await asyncio.shield(stopped)
                except asyncio.CancelledError as error:
                    # It can be cancelled again while the worker stops, by a scope of anyio or at the end of the loop.
                    cancelled = error
                    self._stopping.set()
        finally:
            self._stopping.set()
        if cancelled is not None:
            raise cancelled

    def _stop_or_exit(self) -> None:
        """Stops. Ends the process if handlers were left, because their threads or tasks would keep it."""
        try:
            self.stop()
        finally:
            if self.left_handlers:
                self._logger.error("the process ends with code 1, without finally and atexit: handlers do not stop")
                exit_with_handlers()

    def request_stop(self, grace: timedelta | float | None = None) -> None:
        """Makes `run`, `run_async` and `wait` end, and returns immediately. A second call cancels the handlers.

        A signal handler can call it. `grace` replaces the option.
        """
        self._check_process()
        if grace is not None:
            self._grace = check_seconds("grace", seconds(grace))
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the worker is to stop: after `request_stop`, or after an error, which `stop` then raises.

        For a program that has called `start`. Returns False if `timeout` seconds pass first.
        """
        self._check_process()
        return self._stopping.wait(timeout)

    def start(self) -> None:
        """Starts the worker and returns. For a program that handles its signals itself.

        Does nothing if the worker was stopped first. Raises `RuntimeError` if it was started before.
        """
        with self._start_lock:
            if self._connections is not None:
                raise RuntimeError("the worker was started before: make another one")
            self._check_process()
            if not self._stopping.is_set():
                for part in self._queues:
                    part.prepare()
                calls, heartbeats = (Transport(self._address, self._credentials, self._logger) for _ in range(2))
                self._connections = Connections(calls, heartbeats, self._health, self._token)
                self._health.start()
                for part in self._queues:
                    part.start(self._connections, self._own_loop, self._on_fatal)

    def stop(self, grace: timedelta | float | None = None) -> None:
        """Stops in order: claims nothing more, waits for handlers up to `grace`, cancels them, settles all endings.

        Returns when the worker has stopped, also if another thread stops it. Raises `RuntimeError` in a handler, which
        would wait for itself, and in the event loop of the handlers: `request_stop` is for them. Raises
        `LeaseBrokerError` if the broker has refused the worker.
        """
        self._check_process()
        if not self._stopped and any(part.needs_this_loop() for part in self._queues):
            raise RuntimeError(
                "stop would block the loop of the handlers: call it by asyncio.to_thread, or use run_async"
            )
        if not self._stopped and any(part.has_handler_here() for part in self._queues):
            raise RuntimeError("stop would wait for the handler that calls it: use request_stop")
        limit = None if grace is None else check_seconds("grace", seconds(grace))
        self._stopping.set()
        with self._stop_lock:
            with self._start_lock:
                connections = self._connections
            if not self._stopped and connections is not None:
                limit = self._grace if limit is None else limit
                stops = [
                    threading.Thread(target=part.stop, args=(limit, self._hurry), daemon=True) for part in self._queues
                ]
                until = time.monotonic() + limit + STOP_SECONDS
                for each in stops:
                    each.start()
                for each in stops:
                    each.join(max(until - time.monotonic(), 0.0))
                if any(each.is_alive() for each in stops):
                    self._logger.warning("the worker does not wait any longer: a thread may wait for the token")
                self._own_loop.close()
                connections.close()
            self._stopped = True
        if self._error is not None:
            raise self._error

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError("the worker was made before the process has forked: make it in the child")

    def health(self) -> bool:
        """Returns False if more than `max_stuck` handlers are stuck, if the broker refuses the worker, if a thread has
        ended before `stop`, or if all calls have failed for as long as a lease lasts.
        """
        if self._error is not None or not all(part.is_healthy for part in self._queues):
            return False
        return self._health.failing_for() <= max(part.state.lease_seconds for part in self._queues)

    @property
    def left_handlers(self) -> bool:
        """True after `stop` if handlers still ran."""
        return any(part.left_handlers for part in self._queues)

    def counters(self, queue: str | None = None) -> dict[str, int]:
        """Returns how often each event has happened, in one queue or in all."""
        total: dict[str, int] = {}
        for part in self._queues:
            if queue in (None, part.options.queue):
                for name, count in part.events.counters().items():
                    total[name] = total.get(name, 0) + count
        return total

    def _on_connection(self, answers: bool) -> None:
        for part in self._queues:
            part.events.emit("connected" if answers else "disconnected")

    def _on_fatal(self, error: Exception) -> None:
        """Stops the worker in order, because the broker refuses its calls or one of its threads has failed."""
        if self._error is not None:
            return
        self._error = error
        self._logger.error("the worker stops: %s", error)
        self._stopping.set()
        # `start` has returned to the program, which may not look.
        threading.Thread(target=self._stop_after_error, name="lease-broker-stop", daemon=True).start()

    def _stop_after_error(self) -> None:
        try:
            self.stop()
        except Exception:
            # It was logged.
            return

    def _catch_signals(self) -> dict[int, Any]:
        if threading.current_thread() is not threading.main_thread():
            text = "signals do not stop the worker, because run was not called in the main thread: call request_stop"
            self._logger.warning(text)
            return {}

        def on_signal(_number: int, _frame: FrameType | None) -> None:
            self.request_stop()

        return {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}


def exit_with_handlers() -> None:
    """Ends the process with code 1, although handlers run. Its output may be closed, or a pipe that nobody reads."""
    try:
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
    finally:
        os._exit(1)
