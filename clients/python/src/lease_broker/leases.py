"""A lease that the worker holds, and the context of a handler."""

from __future__ import annotations

import enum
import logging
import threading
import time
from collections.abc import Callable
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
    DONE = 2
    """Its handler has returned. The ending waits while an earlier group is being settled."""
    SETTLING = 3
    """The call that settles it is in its first attempt. A heartbeat that finds the lease lost means nothing now."""
    RESENDING = 4
    """The call that settles it is being sent again. Heartbeats keep the lease for that time."""
    ENDED = 5
    """It is settled, lost or dropped."""


class HeldLease:
    """A lease. Its fields are guarded by the worker's lock."""

    __slots__ = (
        "deadline",
        "duration",
        "id",
        "in_doubt",
        "item",
        "last_answer",
        "needs_beat",
        "new_checkpoint",
        "phase",
        "run",
    )

    def __init__(self, message: v1.Lease, sent_at: float, now: float) -> None:
        self.id = message.lease_id
        self.item: Item = read_item(message)
        self.duration = duration_seconds(message.time_left)
        self.needs_beat = now - sent_at > self.duration / 10
        """True if the claim has waited. The moment at which the lease began is then not known until a heartbeat."""
        self.last_answer = now if self.needs_beat else sent_at
        self.deadline = self.last_answer + self.duration
        """The moment of the monotonic clock until which the lease holds. Not later than the database's expiry, except
        until the first heartbeat after a claim that has waited. It can then be later by the time of the answer's way.
        """
        self.phase = Phase.WAITING
        self.run: Run | None = None
        """The run of the handler for it."""
        self.in_doubt = False
        """True if no heartbeat has been answered for half of the lease."""
        self.new_checkpoint: bytes | None = None
        """A checkpoint that no heartbeat has stored yet."""

    def extend(self, sent_at: float, time_left: float) -> None:
        """Notes the answer to a heartbeat that was sent at `sent_at`."""
        self.deadline = sent_at + time_left if self.needs_beat else max(self.deadline, sent_at + time_left)
        self.needs_beat = False
        self.last_answer = max(self.last_answer, sent_at)

    @property
    def lost_at(self) -> float:
        """The moment at which the worker treats the lease as lost if no heartbeat was answered: before its deadline."""
        return self.deadline - self.duration / 10

    @property
    def wants_heartbeat(self) -> bool:
        """True while a heartbeat is of use."""
        return self.phase in (Phase.WAITING, Phase.RUNNING, Phase.DONE, Phase.RESENDING)


class Run:
    """One run of a handler, with the leases that it works on: one, or those of a batch."""

    __slots__ = ("context", "is_stuck", "leases", "slot_replaced")

    def __init__(self, leases: list[HeldLease], context: Context) -> None:
        self.leases = leases
        self.context = context
        self.is_stuck = False
        self.slot_replaced = False


# One for all contexts: it is held for moments only, and a lock for each handler costs more.
_CONTEXT_LOCK = threading.Lock()


class CheckpointLimit:
    """The largest checkpoint that the queue accepts, as far as the worker knows. The broker refuses a larger one."""

    def __init__(self) -> None:
        self.max_bytes = 65_536


class Context:
    """The second argument of a handler: tells whether it is cancelled and how long it may work, stores checkpoints."""

    __slots__ = (
        "_cause",
        "_event",
        "_leases",
        "_limit",
        "_on_cancel",
        "cancelled_at",
        "in_doubt",
        "logger",
        "started_at",
    )

    def __init__(self, leases: list[HeldLease], logger: logging.Logger, limit: CheckpointLimit) -> None:
        self._leases = leases
        self._limit = limit
        self._event: threading.Event | None = None
        self._cause: Cause | None = None
        self._on_cancel: tuple[Callable[[], None], ...] = ()
        self.started_at = 0.0
        """The moment at which the handler began."""
        self.cancelled_at = float("inf")
        self.in_doubt = False
        """True if no heartbeat has been answered for half of the lease."""
        self.logger = logger

    @property
    def cancelled(self) -> threading.Event:
        """An event that is set when the handler must stop."""
        with _CONTEXT_LOCK:
            if self._event is None:
                self._event = threading.Event()
                if self._cause is not None:
                    self._event.set()
            return self._event

    @property
    def cause(self) -> Cause | None:
        """Why the handler must stop: "lease_lost", "time_limit" or "shutdown". None: it can go on."""
        return self._cause

    @property
    def trace_parent(self) -> str:
        """The W3C trace context of the lease; of the first one in a batch."""
        return self._leases[0].item.trace_parent

    def check(self) -> None:
        """Raises `Cancelled` if the handler must stop. Call it between two steps of long work."""
        if self._cause is not None:
            raise Cancelled(self._cause)

    def time_left(self) -> float:
        """Returns the seconds until the lease ends without a further heartbeat; in a batch, the first lease."""
        return min(lease.deadline for lease in self._leases) - time.monotonic()

    def checkpoint(self, data: bytes, item: Item | None = None) -> None:
        """Stores how far the work has come. The next attempt finds it in `Item.checkpoint`.

        The next heartbeat carries it, and so does the call that fails or releases the item. In a batch `item` names the
        item; without it the checkpoint is stored for all of them. Raises `ValueError` if it is larger than the queue
        accepts, as far as the worker knows.
        """
        if len(data) > self._limit.max_bytes:
            raise ValueError(f"the checkpoint has {len(data)} bytes; the queue accepts {self._limit.max_bytes}")
        for lease in self._leases:
            if item is None or lease.item is item:
                lease.new_checkpoint = bytes(data)

    def is_held(self, item: Item) -> bool:
        """Returns False if the lease of an item of the batch was lost."""
        return any(lease.item is item and lease.phase is not Phase.ENDED for lease in self._leases)

    def on_cancel(self, function: Callable[[], None]) -> None:
        """Calls `function` when the handler is cancelled, or immediately if it is cancelled already."""
        with _CONTEXT_LOCK:
            if self._cause is None:
                self._on_cancel += (function,)
                return
        function()

    def _cancel(self, cause: Cause) -> bool:
        """Cancels the handler. Returns False if it is cancelled already."""
        with _CONTEXT_LOCK:
            if self._cause is not None:
                return False
            self._cause = cause
            self.cancelled_at = time.monotonic()
            functions, self._on_cancel = self._on_cancel, ()
            if self._event is not None:
                self._event.set()
        for function in functions:
            function()
        return True
