"""A lease as its worker holds it, and the context of a handler."""

from __future__ import annotations

import enum
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lease_broker.errors import Cancelled, Cause
from lease_broker.item import Item, read_item
from lease_broker.values import duration_seconds

if TYPE_CHECKING:
    from lease_broker import v1


class Phase(enum.Enum):
    """How far a lease has come. It only moves forward."""

    WAITING = 0
    """Its handler has not begun."""
    RUNNING = 1
    """Its handler runs."""
    SETTLING = 2
    """The call that settles it is in its first attempt. Nothing is believed about it meanwhile."""
    RESENDING = 3
    """The call that settles it is being sent again. Heartbeats keep the lease for that time."""
    ENDED = 4
    """It is settled, lost, or given up."""


class HeldLease:
    """A lease. Its fields are guarded by the worker's lock."""

    __slots__ = ("deadline", "duration", "id", "item", "last_answer", "phase", "run")

    def __init__(self, message: v1.Lease, sent_at: float) -> None:
        self.id = message.lease_id
        self.item: Item = read_item(message)
        self.duration = duration_seconds(message.time_left)
        self.deadline = sent_at + self.duration
        """The moment of the monotonic clock until which the lease holds. It is never later than the database's."""
        self.last_answer = sent_at
        self.phase = Phase.WAITING
        self.run: Run | None = None
        """The handler that works on it, or will."""

    def extend(self, sent_at: float, time_left: float) -> None:
        """Notes the answer to a heartbeat that was sent at `sent_at`."""
        self.deadline = max(self.deadline, sent_at + time_left)
        self.last_answer = max(self.last_answer, sent_at)

    @property
    def wants_heartbeat(self) -> bool:
        """True while a heartbeat is of use."""
        return self.phase in (Phase.WAITING, Phase.RUNNING, Phase.RESENDING)


@dataclass(eq=False)
class Run:
    """A handler that runs or is about to, with the leases that it works on: one, or those of a batch."""

    leases: list[HeldLease]
    context: Context
    is_stuck: bool = False
    slot_replaced: bool = False


class Context:
    """What a handler knows of its run: whether it is cancelled, and how long it may still work."""

    def __init__(self, leases: list[HeldLease], logger: logging.Logger) -> None:
        self._leases = leases
        self._event = threading.Event()
        self._cause: Cause | None = None
        self._on_cancel: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self.started_at = time.monotonic()
        self.cancelled_at = float("inf")
        self.in_doubt = False
        """True if no heartbeat has been answered for half of the lease."""
        self.logger = logger

    @property
    def cancelled(self) -> threading.Event:
        """An event that is set when the handler shall stop."""
        return self._event

    @property
    def cause(self) -> Cause | None:
        """Why the handler shall stop: "lease_lost", "time_limit" or "shutdown". None: it shall go on."""
        return self._cause

    @property
    def trace_parent(self) -> str:
        """The W3C trace context of the lease; of the first one in a batch."""
        return self._leases[0].item.trace_parent

    def check(self) -> None:
        """Raises `Cancelled` if the handler shall stop. Call it between two steps of long work."""
        if self._cause is not None:
            raise Cancelled(self._cause)

    def time_left(self) -> float:
        """Returns the seconds until the lease ends without a further heartbeat; in a batch, the first lease."""
        return min(lease.deadline for lease in self._leases) - time.monotonic()

    def is_held(self, item: Item) -> bool:
        """Returns False if the lease of an item of the batch was lost."""
        return any(lease.item is item and lease.phase is not Phase.ENDED for lease in self._leases)

    def on_cancel(self, function: Callable[[], None]) -> None:
        """Calls `function` when the handler is cancelled, or at once if it is already."""
        with self._lock:
            if self._cause is None:
                self._on_cancel.append(function)
                return
        function()

    def _cancel(self, cause: Cause) -> bool:
        """Cancels the handler. Returns False if it is cancelled already."""
        with self._lock:
            if self._cause is not None:
                return False
            self._cause = cause
            self.cancelled_at = time.monotonic()
            functions, self._on_cancel = self._on_cancel, []
        self._event.set()
        for function in functions:
            function()
        return True
