"""A worker: claims the items of one queue, runs a handler for each, and settles them."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import FrameType
from typing import Any, TypeVar

from lease_broker import v1
from lease_broker.calls import Caller, RetryEvent
from lease_broker.credentials import Credentials, Token, TokenSource, plaintext
from lease_broker.errors import LeaseBrokerError, seconds
from lease_broker.events import Events, Observer
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


class Worker:
    """A worker of one queue.

    The handler is called with an `Item` and, if it has two parameters, with a `Context`. With `batch` it is called with
    a list of items. If it is an `async def`, it runs as a task of the event loop, else in a thread. What it returns or
    raises says how the item ends.
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
        without it the queue's. Without `heartbeat` the lease is all the time that a handler has. `time_limit` bounds a
        handler's run. `wait` is the time that a claim waits for items. `grace` is the time that handlers have to end
        when the worker stops. A handler that still runs `stuck_after` its cancellation is reported, and another one
        takes its slot, for up to `max_stuck` handlers.

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
        self._last_answer = time.monotonic()
        self._error: LeaseBrokerError | None = None
        self._stopping = threading.Event()
        self._stopped = threading.Event()
        self._hurry = threading.Event()
        self._left_handlers = False
        self._process = os.getpid()

    def handler(self, function: Handler) -> Handler:
        """Makes a function the handler. A decorator."""
        self._handler = function
        return function

    def run(self) -> None:
        """Works until SIGTERM or SIGINT, and stops in order. A second signal cancels the handlers.

        Ends the process with code 1 if handlers did not stop. Raises `LeaseBrokerError` if the broker refuses the
        worker, for example because the queue does not exist.
        """
        if inspect.iscoroutinefunction(self._handler):
            asyncio.run(self.run_async())
        else:
            previous = self._catch_signals()
            try:
                self.start()
                while not self._stopping.wait(0.5):
                    pass
                self.stop()
            finally:
                for number, action in previous.items():
                    signal.signal(number, action)
        if self._left_handlers:
            # Threads of handlers that do not stop must not keep the process.
            os._exit(1)

    async def run_async(self) -> None:
        """Works until the task is cancelled or SIGTERM or SIGINT arrives, for a handler that is an `async def`.

        Raises `LeaseBrokerError` if the broker refuses the worker.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                loop.add_signal_handler(number, self._on_signal)
            except (NotImplementedError, RuntimeError, ValueError):
                break  # Not on the main thread, or not on this system. The program handles its signals itself.
        self.start()
        try:
            await asyncio.to_thread(self._stopping.wait)
        finally:
            await asyncio.shield(asyncio.to_thread(self.stop))

    def start(self) -> None:
        """Starts the worker and returns. For a program that handles its signals itself."""
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
        state.start_run = self._runner.start_run
        self._transport = Transport(options.address, options.credentials)
        self._keeper_transport = Transport(options.address, options.credentials)
        self._caller = Caller(self._transport, options.token, self._on_retry)
        self._poller = Poller(state, self._caller, self._on_fatal)
        self._settler = Settler(state, self._caller)
        self._keeper = Keeper(state, self._keeper_transport, self._caller, self._runner)
        for name, part in (("poller", self._poller), ("settler", self._settler), ("keeper", self._keeper)):
            thread = threading.Thread(target=part.run, name=f"lease-broker-{name}", daemon=True)
            setattr(self, f"_{name}_thread", thread)
            thread.start()

    def stop(self, grace: timedelta | float | None = None) -> None:
        """Stops in order: no more claims, handlers end within `grace`, then they are cancelled; everything is settled.

        Raises `LeaseBrokerError` if the broker has refused the worker.
        """
        self._stopping.set()
        if not self._stopped.is_set():
            self._stop_in_order(self._options.grace if grace is None else seconds(grace) or 0.0)
            self._stopped.set()
        if self._error is not None:
            raise self._error

    def health(self) -> bool:
        """Returns False if too many handlers are stuck, or if no call has succeeded for a while."""
        with self._state.lock:
            if self._state.stuck > self._options.allowed_stuck:
                return False
        return self._error is None

    def counters(self) -> dict[str, int]:
        """Returns how often each event has happened."""
        return self._events.counters()

    def _stop_in_order(self, grace: float) -> None:
        state = self._state
        self._events.emit("stopping")
        with state.lock:
            state.takes_items = False
            state.slots_free.notify_all()
            state.give_back_waiting()
        self._poller.stop()
        self._poller_thread.join()  # type: ignore[attr-defined]
        self._release_abandoned()
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
        self._release_abandoned()
        self._runner.close()
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

    def _release_abandoned(self) -> None:
        """Gives back what a claim got whose answer was not awaited.

        It is sent twice: the first one may reach a broker before another broker runs the claim.
        """
        request_id = self._poller.abandoned_request
        if request_id is None:
            return
        request = v1.ReleaseRequest(
            queue=self._options.queue, worker_id=self._options.worker_id, request_ids=[request_id]
        )
        try:
            self._caller.call("Release", request, until=time.monotonic() + 2)
        except LeaseBrokerError as error:
            self._options.logger.warning("leases of the last claim may stay until they expire: %s", error)

    def _on_retry(self, event: RetryEvent) -> None:
        self._events.emit(
            "retry", rpc=event.rpc, code=event.code, reason=event.reason, attempt=event.attempt, wait=event.wait
        )

    def _on_fatal(self, error: LeaseBrokerError) -> None:
        """Ends the worker: the broker refuses its claims."""
        self._error = error
        self._options.logger.error("the worker stops: %s", error)
        self._stopping.set()

    def _catch_signals(self) -> dict[int, Any]:
        if threading.current_thread() is not threading.main_thread():
            return {}

        def on_signal(_number: int, _frame: FrameType | None) -> None:
            self._on_signal()

        return {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}

    def _on_signal(self) -> None:
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()


def with_two_parameters(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a handler that takes an item and a context, also if `handler` takes only the item."""
    parameters = inspect.signature(handler).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if takes_any or len(positional) >= 2:
        return handler
    return lambda item, _context: handler(item)
