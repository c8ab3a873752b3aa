"""Events of a worker: its observer receives them, and the worker counts them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, get_args

from lease_broker.item import Item

if TYPE_CHECKING:
    from lease_broker.leases import HeldLease

EventName = Literal[
    "claimed",
    "started",
    "completed",
    "failed",
    "released",
    "lost",
    "refused",
    "unknown",
    "heartbeat",
    "heartbeat_missed",
    "cancelled",
    "stuck",
    "retry",
    "connected",
    "disconnected",
    "stopping",
    "stopped",
]


@dataclass(frozen=True)
class Event:
    """A step of a worker.

    `item`, `key`, `attempt` and `fencing_token` are set if the event is about an item. `details` has the fields of
    this kind of event: `error` of "failed" and "unknown", `reason` of "lost" and "refused", `cause` and `reason` of
    "cancelled", `cause` and `stack` of "stuck", `count` of "heartbeat" (the leases that it extended), and `rpc`,
    `code`, `reason`, `attempt` and `wait` (seconds) of "retry".
    """

    name: EventName
    queue: str
    key: str | None = None
    attempt: int | None = None
    fencing_token: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    item: Item | None = None


Observer = Callable[[Event], None]

_MAX_WAITING = 10_000
_CLOSE_SECONDS = 5.0


class Events:
    """Counts events and hands them to the observer, in order and in a thread of its own: the observer may block.

    An observer that raises is logged once and then ignored.
    """

    def __init__(self, queue: str, observer: Observer | None, logger: logging.Logger) -> None:
        self._queue = queue
        self._observer = observer
        self._logger = logger
        self._lock = threading.Lock()
        self._counters: dict[EventName, int] = dict.fromkeys(get_args(EventName), 0)
        self._waiting: SimpleQueue[Event | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins to call the observer."""
        if self._observer is not None:
            self._thread = threading.Thread(target=self._run, name="lease-broker-events", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Waits until the observer has received all events, for at most 5 s."""
        self._waiting.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_SECONDS)

    @property
    def is_behind(self) -> bool:
        """True if so many events wait for the observer that no further items should be claimed."""
        return self._observer is not None and self._waiting.qsize() > _MAX_WAITING

    def emit(self, name: EventName, item: Item | None = None, **details: Any) -> None:
        """Reports an event."""
        with self._lock:
            self._counters[name] += 1
        if self._observer is not None:
            key, attempt, fence = (item.key, item.attempt, item.fencing_token) if item else (None, None, None)
            self._waiting.put(Event(name, self._queue, key, attempt, fence, details, item))

    def emit_all(self, name: EventName, leases: Sequence[HeldLease]) -> None:
        """Reports an event without details for the item of each lease.

        Is called with the worker's lock, which guards the counters of these events if there is no observer.
        """
        if self._observer is None:
            self._counters[name] += len(leases)
            return
        for lease in leases:
            self.emit(name, lease.item)

    def counters(self) -> dict[str, int]:
        """Returns how often each event has happened."""
        with self._lock:
            return {name: count for name, count in self._counters.items() if count}

    def _run(self) -> None:
        while (event := self._waiting.get()) is not None:
            if self._observer is None:
                continue
            try:
                self._observer(event)
            except BaseException:
                # Also SystemExit. If this thread ended, the worker would wait for it for ever.
                self._observer = None
                self._logger.exception("the observer of events raised an error and is ignored from now on")
