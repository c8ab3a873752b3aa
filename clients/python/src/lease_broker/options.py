"""The options of a queue of a worker."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypedDict

from lease_broker.errors import check_seconds, seconds
from lease_broker.events import Observer
from lease_broker.handlers import Middleware

_MAX_ITEMS_PER_CALL = 1_000
_MAX_GROUPS = 100
# The seconds for which a claim can wait.
_MAX_WAIT = 60
_OPTIONAL = ("batch", "lease", "time_limit", "max_stuck")
_DURATIONS = ("lease", "time_limit", "wait", "stuck_after")


def default_worker_id() -> str:
    """Returns a name made of the host, the process and random digits."""
    host = socket.gethostname()[:90]
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"


class QueueOptions(TypedDict, total=False):
    """The options of a queue. All can be absent. Durations are seconds or timedeltas."""

    concurrency: int
    """The number of handlers that run at once. Default: 1."""
    batch: int | None
    """The number of items that one handler gets, up to 1,000. Default: None, the handler gets one item."""
    lease: timedelta | float | None
    """The duration of the leases. Default: the queue's."""
    heartbeat: bool
    """Default: True. Without heartbeats a handler is cancelled after half of its lease."""
    time_limit: timedelta | float | None
    """The longest run of a handler. Default: no limit."""
    wait: timedelta | float
    """The time that a claim waits for items, up to 60 s. Default: 20 s."""
    groups: Sequence[str]
    """The groups whose items are claimed, up to 100, each in the form of `Item.key`. Default: any item is claimed."""
    stuck_after: timedelta | float
    """The time after its cancellation at which a handler that still runs is reported. Default: 30 s."""
    max_stuck: int | None
    """The number of stuck handlers whose slots are replaced. Default: `concurrency`."""
    middleware: Sequence[Middleware]
    """Decorators of the handler, the first one outermost."""
    on_event: Observer | None
    """Is called with each event, in a thread of its own."""


@dataclass(frozen=True)
class Options:
    """The checked options of a queue. Durations are in seconds. `QueueOptions` documents each of them."""

    queue: str
    concurrency: int = 1
    batch: int | None = None
    worker_id: str = field(default_factory=default_worker_id)
    lease: float | None = None
    heartbeat: bool = True
    time_limit: float | None = None
    wait: float = 20.0
    groups: Sequence[str] = ()
    stuck_after: float = 30.0
    max_stuck: int | None = None
    middleware: Sequence[Middleware] = ()
    on_event: Observer | None = None
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("lease_broker"))

    @classmethod
    def of(cls, queue: str, worker_id: str, logger: logging.Logger, options: QueueOptions) -> Options:
        """Returns checked options. Raises `ValueError` for an option out of its range."""
        given: dict[str, Any] = {**options}
        values: dict[str, Any] = {
            name: seconds(value) if name in _DURATIONS else value for name, value in given.items()
        }
        return cls(queue, worker_id=worker_id, logger=logger, **values)

    def __post_init__(self) -> None:
        """Raises `ValueError` for an option out of its range."""
        if not isinstance(self.queue, str) or not self.queue:
            raise ValueError(f"queue is {self.queue!r}; pass its name")
        if not self.worker_id:
            raise ValueError("worker_id is empty")
        for name in ("concurrency", "batch", "max_stuck"):
            value = getattr(self, name)
            if not (value is None and name in _OPTIONAL) and (not isinstance(value, int) or value < 1):
                raise ValueError(f"{name} is {value}; it must be a whole number and at least 1")
        if self.batch is not None and self.batch > _MAX_ITEMS_PER_CALL:
            raise ValueError(f"batch is {self.batch}; a call returns at most {_MAX_ITEMS_PER_CALL} items")
        for name in _DURATIONS:
            value = getattr(self, name)
            if value is not None or name not in _OPTIONAL:
                check_seconds(name, value)
            if value == 0 and name != "wait":
                raise ValueError(f"{name} is {value}; it must be greater than 0")
        if self.wait > _MAX_WAIT:
            raise ValueError(f"wait is {self.wait}; it must be at most {_MAX_WAIT}")
        if isinstance(self.groups, str) or not all(isinstance(group, str) for group in self.groups):
            raise ValueError(f"groups is {self.groups!r}; it must be a list of texts")
        if len(self.groups) > _MAX_GROUPS:
            raise ValueError(f"groups has {len(self.groups)} entries; it must have at most {_MAX_GROUPS}")

    @property
    def slot_size(self) -> int:
        """The number of items that one handler gets."""
        return self.batch or 1

    @property
    def max_slots_per_call(self) -> int:
        """The number of handlers that one claim can find items for."""
        return max(_MAX_ITEMS_PER_CALL // self.slot_size, 1)

    @property
    def allowed_stuck(self) -> int:
        """The number of stuck handlers whose slots are replaced."""
        return self.concurrency if self.max_stuck is None else self.max_stuck
