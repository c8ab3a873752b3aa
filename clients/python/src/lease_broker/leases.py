"""A lease that the worker holds, and the context of a handler."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lease_broker.errors import Cancelled, Cause
from lease_broker.item import Item, read_item

if TYPE_CHECKING:
    from lease_broker import v1

# How far a lease has come. It only moves forward.
WAITING, RUNNING, DONE, SETTLING, RESENDING, ENDED = range(6)
"""WAITING: its handler has not begun. RUNNING: its handler runs. DONE: its handler has returned, and the ending waits
while an earlier group is being settled. SETTLING: the call that settles it is in its first attempt; a heartbeat that
finds the lease lost means nothing. RESENDING: that call is sent again, or waits because the row is locked, and
heartbeats keep the lease. ENDED: it is settled, lost or dropped."""


class HeldLease:
    """A lease. Its fields are guarded by the worker's lock."""

    # Without a dictionary an object costs half.
    __slots__ = (
        "deadline",
        "duration",
        "id",
        "in_doubt",
        "is_released",
        "item",
        "last_answer",
        "lost_at",
        "needs_beat",
        "new_checkpoint",
        "phase",
        "run",
    )

    def __init__(self, lease_id: str, message: v1.Lease, sent_at: float, now: float) -> None:
        self.phase = WAITING
        self.run: Context | None = None
        """The run of the handler for it."""
        self.in_doubt = False
        """True if no heartbeat has been answered for half of the lease."""
        self.is_released = False
        """True if its item was released, and not processed."""
        self.new_checkpoint: bytes | None = None
        """A checkpoint that no heartbeat has stored yet."""
        self.needs_beat = False
        """True if the claim has waited. The moment at which the lease began is then not known until a heartbeat."""
        self.id = lease_id
        self.item: Item = read_item(message)
        left = message.time_left
        self.duration = duration = left.seconds + left.nanos / 1_000_000_000
        if now - sent_at > duration / 10:
            self.needs_beat, sent_at = True, now
        self.last_answer = sent_at
        self.deadline = deadline = sent_at + duration
        """The moment of the monotonic clock until which the lease holds. Not later than the database's expiry, except
        until the first heartbeat after a claim that has waited. It can then be later by the time of the answer's way.
        """
        self.lost_at = deadline - duration / 10
        """The moment at which the worker treats the lease as lost if no heartbeat was answered: before its deadline."""

    def extend(self, sent_at: float, time_left: float) -> None:
        """Notes the answer to a heartbeat that was sent at `sent_at`."""
        self.deadline = sent_at + time_left if self.needs_beat else max(self.deadline, sent_at + time_left)
        # A claim that was sent again returns the rest of its leases. The heartbeat returns their whole duration.
        self.duration = max(self.duration, time_left)
        self.needs_beat = self.in_doubt = False
        self.last_answer = max(self.last_answer, sent_at)
        self.lost_at = self.deadline - self.duration / 10

    @property
    def wants_heartbeat(self) -> bool:
        """True while a heartbeat is of use."""
        return self.phase != SETTLING and self.phase != ENDED


_NEVER = float("inf")
# The largest limit that a queue can have, in bytes. The broker's limit of a call is not much higher.
_MAX_CHECKPOINT = 65_536

# One for all contexts: it is held for moments only, and a lock for each handler costs more.
_CONTEXT_LOCK = threading.Lock()


class Context:
    """The run of a handler: whether it was cancelled, and how long its lease holds."""

    # An object costs less if only attributes that the program adds are in its dictionary.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "_cancelled_at",
        "_cause",
        "_event",
        "_fail_at",
        "_is_stuck",
        "_leases",
        "_logger",
        "_on_cancel",
        "_refuse_checkpoint",
        "_started_at",
        "_task",
        "_thread",
        "_was_told",
    )

    def __init__(
        self,
        leases: Sequence[HeldLease] = (),
        logger: logging.Logger | None = None,
        refuse_checkpoint: Callable[[HeldLease, bytes, str], None] = lambda *_: None,
    ) -> None:
        """Without arguments: a context for the test of a handler."""
        self._cause: Cause | None = None
        self._event: threading.Event | None = None
        self._on_cancel: tuple[Callable[[], None], ...] = ()
        self._task: asyncio.Task[Any] | None = None
        """The task of the handler, if it has one."""
        self._was_told = False
        """True if the task was cancelled."""
        self._thread = 0
        """The thread in which the handler has begun."""
        self._is_stuck = False
        self._started_at = self._cancelled_at = self._fail_at = _NEVER
        self._leases = leases
        self._refuse_checkpoint = refuse_checkpoint
        self._logger = logger or logging.getLogger("lease_broker")

    @property
    def logger(self) -> logging.Logger:
        """The worker's log."""
        return self._logger

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
    def in_doubt(self) -> bool:
        """True if no heartbeat has been answered for half of the lease."""
        return any(lease.in_doubt for lease in self._leases)

    @property
    def trace_parent(self) -> str:
        """The W3C trace context of the lease; of the first one in a batch."""
        return self._leases[0].item.trace_parent if self._leases else ""

    def check(self) -> None:
        """Raises `Cancelled` if the handler must stop. Call it between two steps of long work."""
        if self._cause is not None:
            raise Cancelled(self._cause)

    def time_left(self) -> float:
        """Returns the seconds until the lease ends without a further heartbeat; in a batch, the first lease."""
        return min((lease.deadline for lease in self._leases), default=float("inf")) - time.monotonic()

    def checkpoint(self, data: bytes, item: Item | None = None) -> None:
        """Stores how far the work has come. The next attempt finds it in `Item.checkpoint`.

        The next heartbeat carries it, and so does the call that fails or releases the item. In a batch `item` names the
        item; without it the checkpoint is stored for all of them. If the queue has no checkpoints, or only shorter
        ones, the worker logs that and leaves the checkpoint out.
        """
        data = bytes(memoryview(data))  # `bytes(5)` would be five zeros.
        for lease in self._leases:
            # After the handler, it could replace the last one, for the next attempt.
            if (item is None or lease.item is item) and lease.phase in (WAITING, RUNNING):
                if len(data) > _MAX_CHECKPOINT:
                    self._refuse_checkpoint(lease, data, f"a queue stores at most {_MAX_CHECKPOINT} bytes")
                else:
                    lease.new_checkpoint = data

    def is_held(self, item: Item) -> bool:
        """Returns False if the lease of an item of the batch was lost."""
        return any(lease.item is item and lease.phase != ENDED for lease in self._leases)

    def on_cancel(self, function: Callable[[], None]) -> None:
        """Calls `function` when the handler is cancelled, in a thread of its own, or now if it is cancelled already."""
        with _CONTEXT_LOCK:
            if self._cause is None:
                self._on_cancel += (function,)
                return
        self._call((function,))

    def _set_task(self, task: asyncio.Task[Any]) -> None:
        self._task = task
        # `_cancel` sets the cause before it looks for a task. So one of both sees what the other has set.
        if self._cause is not None:
            with _CONTEXT_LOCK:
                self._cancel_task()

    def _cancel_task(self) -> None:
        """Cancels the task once: a second time would interrupt the handler's cleanup."""
        task = self._task
        if task is not None and not self._was_told:
            self._was_told = True
            # A closed loop has no tasks.
            with contextlib.suppress(RuntimeError):
                task.get_loop().call_soon_threadsafe(task.cancel, self._cause)

    def _cancel(self, cause: Cause, now: float) -> bool:
        """Cancels the handler. Returns False if it is cancelled already."""
        with _CONTEXT_LOCK:
            if self._cause is not None:
                return False
            self._cause = cause
            self._cancelled_at = now
            functions, self._on_cancel = self._on_cancel, ()
            if self._event is not None:
                self._event.set()
            self._cancel_task()
        if functions:
            # The functions are the user's. They may block, and no thread of the worker waits for them.
            threading.Thread(target=self._call, args=(functions,), name="lease-broker-on-cancel", daemon=True).start()
        return True

    def _call(self, functions: tuple[Callable[[], None], ...]) -> None:
        for function in functions:
            try:
                function()
            except BaseException:
                self.logger.exception("a function given to on_cancel has raised an error")
