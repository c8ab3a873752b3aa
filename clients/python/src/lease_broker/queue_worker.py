"""The part of a worker that serves one queue: state, handlers, and the threads that claim, settle and keep leases."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from lease_broker.calls import Caller
from lease_broker.credentials import Token
from lease_broker.events import Events
from lease_broker.handlers import is_async, wrap
from lease_broker.health import CallHealth
from lease_broker.keeper import Keeper
from lease_broker.latch import Latch
from lease_broker.options import Options
from lease_broker.own_loop import OwnLoop
from lease_broker.poller import Poller
from lease_broker.runners import AsyncRunner, ThreadRunner
from lease_broker.settler import Settler
from lease_broker.state import State
from lease_broker.transport import Transport

CANCEL_GRACE = 5.0
"""The seconds that a cancelled handler has to stop when the worker stops."""
LAST_SETTLE_SECONDS = 5.0
"""The seconds that remain afterwards for settlements that no broker answers."""
JOIN_SECONDS = 1.0
"""The seconds for the end of a thread that has nothing more to do. Only the token can take longer."""
STOP_SECONDS = CANCEL_GRACE + LAST_SETTLE_SECONDS + JOIN_SECONDS
"""The seconds after the grace in which a stop ends, also if the token does not arrive."""
_RESTART_SECONDS = 0.5


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Returns the event loop that runs in this thread, if there is one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@dataclass(frozen=True)
class Connections:
    """The connections that the queues of a worker share. Heartbeats have their own."""

    calls: Transport
    heartbeats: Transport
    health: CallHealth
    token: Token | None

    def close(self) -> None:
        """Closes them."""
        self.health.close()
        self.calls.close()
        self.heartbeats.close()


class QueueWorker:
    """Serves one queue."""

    left_handlers = False
    """True after the stop if handlers still ran."""

    def __init__(self, options: Options, handler: Callable[..., Any] | None) -> None:
        self.options = options
        self.handler = handler
        self.events = Events(options.queue, options.on_event, options.logger)
        self.state = State(options, self.events)
        self._threads: dict[str, threading.Thread] = {}
        self._is_over = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_async(self) -> bool:
        """True if the handler needs an event loop."""
        return self.handler is not None and is_async(self.handler)

    def has_handler_here(self) -> bool:
        """Returns True in the thread of a handler, unless handlers are tasks of a loop."""
        with self.state.lock:
            return not self.is_async and any(run._thread == threading.get_ident() for run in self.state.runs)

    def needs_this_loop(self) -> bool:
        """Returns True in the event loop that runs the handlers as tasks."""
        loop = running_loop()
        return self.is_async and loop is not None and loop is self._loop

    def prepare(self) -> None:
        """Checks the handler. Starts nothing. Raises an error if `start` cannot succeed."""
        if self.handler is None:
            raise ValueError(f"queue {self.options.queue} has no handler: decorate a function with @worker.handler")
        self._loop = running_loop()
        if self._loop is None and self.is_async:
            raise RuntimeError("an async handler needs a running event loop: use run, or start within the loop")
        self._wrapped = wrap(self.handler, self.options.middleware)

    def start(self, connections: Connections, own_loop: OwnLoop, on_fatal: Callable[[Exception], None]) -> None:
        """Starts the threads, after `prepare`. `own_loop`: for awaitables, if the program has no event loop."""
        state, handler, loop = self.state, self._wrapped, self._loop
        self._runner: AsyncRunner | ThreadRunner
        if self.is_async and loop is not None:
            self._runner = AsyncRunner(state, handler, loop, on_fatal)
        else:
            self._runner = ThreadRunner(state, handler, loop, own_loop)
        state.start_runs, state.watch_runner = self._runner.start_runs, self._runner.watch
        self._on_fatal = on_fatal
        caller = Caller(connections.calls, connections.token, partial(self.events.emit, "retry"), connections.health)
        self._poller = Poller(state, caller, connections.health, on_fatal)
        self._settler = Settler(state, caller, on_fatal)
        self._keeper = Keeper(state, connections.heartbeats, caller, connections.health, on_fatal)
        self.events.start()
        for name, part in (("poller", self._poller), ("settler", self._settler), ("keeper", self._keeper)):
            thread = threading.Thread(target=self._guard, args=(part.run,), name=f"lease-broker-{name}", daemon=True)
            self._threads[name] = thread
            thread.start()

    @property
    def is_healthy(self) -> bool:
        """False if more than `max_stuck` handlers are stuck, or if a thread has ended before the stop."""
        has_threads = not self.state.takes_items or all(t.is_alive() for t in self._threads.values())
        return self.state.stuck <= self.options.allowed_stuck and has_threads

    def stop(self, grace: float, hurry: Latch) -> None:
        """Stops in order. `hurry` cancels the handlers at once."""
        state = self.state
        self.events.emit("stopping")
        begun = state.now()
        with state.lock:
            state.settle_until = begun + grace + CANCEL_GRACE + LAST_SETTLE_SECONDS
            state.stop()
        self._poller.stop()
        if self._join("poller", JOIN_SECONDS):
            self._poller.release_abandoned(forget=False)
        self._wait_for_handlers(begun + grace - state.now(), hurry)
        with state.lock:
            state.cancel_all()
        self._wait_for_handlers(CANCEL_GRACE)
        with state.lock:
            self.left_handlers = state.leave_handlers()
        self._settler.close()
        ends = self._join("settler", state.settle_until - state.now())
        self._keeper.close()
        if self._join("keeper", JOIN_SECONDS) and ends:
            self._poller.release_abandoned(forget=True)
        self._is_over = True
        self._runner.close()
        self.events.emit("stopped")
        self.events.close()

    def _join(self, name: str, limit: float) -> bool:
        """Waits for the end of a thread. Returns False if the thread goes on after `limit` seconds."""
        thread = self._threads[name]
        thread.join(max(limit, 0.1))
        if thread.is_alive():
            text = "the worker does not wait for its thread %s any longer: it may wait for the token"
            self.options.logger.warning(text, name)
        return not thread.is_alive()

    def _wait_for_handlers(self, limit: float, stop_early: Latch | None = None) -> None:
        """Waits until all handlers have returned."""
        until = self.state.now() + limit
        with self.state.lock:
            while self.state.runs and (rest := until - self.state.now()) > 0:
                if stop_early is not None and stop_early.is_set():
                    return
                self.state.all_ended.wait(min(rest, 0.2))

    def _guard(self, run: Callable[[], None]) -> None:
        """Runs a part of the worker. An error that it does not expect stops the worker, in order.

        The part goes on until then: leases are kept, and endings are settled.
        """
        while True:
            try:
                return run()
            except Exception as error:
                if self._is_over:
                    # The worker has not waited for this thread, and its connections are closed.
                    return
                self.options.logger.exception("a thread of the worker has failed")
                self.state.takes_items = False
                self._on_fatal(error)
                threading.Event().wait(_RESTART_SECONDS)
