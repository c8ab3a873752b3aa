"""Events of a worker: its observer receives them, and the worker counts them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from lease_broker.item import Item

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


class Events:
    """Counts events and hands them to the observer. An observer that raises is logged once and then ignored."""

    def __init__(self, queue: str, observer: Observer | None, logger: logging.Logger) -> None:
        self._queue = queue
        self._observer = observer
        self._logger = logger
        self._lock = threading.Lock()
        self._counters: dict[EventName, int] = dict.fromkeys(get_args(EventName), 0)

    def emit(self, name: EventName, item: Item | None = None, **details: Any) -> None:
        """Reports an event."""
        with self._lock:
            self._counters[name] += 1
        if self._observer is None:
            return
        key, attempt, fence = (item.key, item.attempt, item.fencing_token) if item else (None, None, None)
        try:
            self._observer(Event(name, self._queue, key, attempt, fence, details, item))
        except Exception:
            self._observer = None
            self._logger.exception("the observer of events raised an error and is ignored from now on")

    def emit_all(self, name: EventName, items: Sequence[Item]) -> None:
        """Reports an event without details of each item."""
        if self._observer is not None:
            for item in items:
                self.emit(name, item)
            return
        with self._lock:
            self._counters[name] += len(items)

    def counters(self) -> dict[str, int]:
        """Returns how often each event has happened."""
        with self._lock:
            return {name: count for name, count in self._counters.items() if count}
