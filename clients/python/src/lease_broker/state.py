"""The state that the threads of a worker share: slots, leases, running handlers, endings that are not settled."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from lease_broker import endings
from lease_broker.endings import Ending
from lease_broker.errors import Cause
from lease_broker.events import Events
from lease_broker.gathering import Gathering
from lease_broker.leases import CheckpointLimit, Context, HeldLease, Phase, Run
from lease_broker.options import Options

if TYPE_CHECKING:
    from lease_broker import v1


class State:
    """The state of a worker. `lock` guards it. Each thread waits on its own condition."""

    def __init__(self, options: Options, events: Events) -> None:
        self.options = options
        self.events = events
        self.lock = threading.RLock()
        self.slots_free = threading.Condition(self.lock)
        """The poller waits for it: a slot may be free."""
        self.endings_ready = threading.Condition(self.lock)
        """The settler waits for it: an item has ended."""
        self.clock = threading.Condition(self.lock)
        """The keeper waits for it: a lease has arrived, or a time limit has changed."""
        self.all_ended = threading.Condition(self.lock)
        """`stop` waits for it: a handler has returned, or an item was settled."""
        self.free_slots = options.concurrency
        self.held: dict[str, HeldLease] = {}
        self.runs: set[Run] = set()
        self.gathering = Gathering(options.concurrency)
        self.endings: deque[Ending] = deque()
        self.unsettled = 0
        """The number of endings that the settler has taken and not settled."""
        self.stuck = 0
        self.takes_items = True
        """False as soon as the worker stops."""
        self.settle_until = float("inf")
        """The moment after which no settlement is sent again, because the worker stops."""
        self.next_beat = float("inf")
        self.lease_seconds = options.lease or 60.0
        """The duration of the latest lease."""
        self.checkpoint_limit = CheckpointLimit()
        self.abandoned_requests: list[str] = []
        """The ids of claims without an answer. The broker may have leased items for them."""
        self.claim_at = 0.0
        """The moment before which nothing is claimed, because a claim has failed."""
        self._too_large: set[str] = set()
        self.start_runs: Callable[[list[Run]], None] = lambda _runs: None

    def reserve_slots(self) -> int:
        """Takes the free slots for a claim. Returns their number, which is 0 if the worker takes no items now."""
        if not self.takes_items or self.stuck > self.options.allowed_stuck or time.monotonic() < self.claim_at:
            return 0
        slots = min(self.free_slots, self.options.max_slots_per_call)
        self.free_slots -= slots
        return slots

    def return_slots(self, slots: int) -> None:
        """Makes slots free again for which no item came."""
        self.free_slots += slots
        # While endings are to be settled the poller has nothing to do, and waking it costs more than a short handler.
        if self.may_claim:
            self.slots_free.notify()

    @property
    def may_claim(self) -> bool:
        """True if a claim is useful. The call that settles endings claims the next items itself."""
        return self.free_slots > 0 and self.unsettled == 0 and not self.endings

    def accept(self, messages: list[v1.Lease], slots: int, sent_at: float) -> None:
        """Starts handlers for the leases of a claim, for which `slots` slots were reserved.

        If the worker stops, releases the leases.
        """
        size = self.options.slot_size
        # A repeated answer can bring a lease that the worker has already.
        now = time.monotonic()
        leases = [HeldLease(message, sent_at, now) for message in messages if message.lease_id not in self.held]
        started: list[Run] = []
        for first in range(0, len(leases), size):
            group = leases[first : first + size]
            context = Context(group, self.options.logger, self.checkpoint_limit)
            run = Run(group, context)
            for lease in group:
                lease.run = run
                self.held[lease.id] = lease
            self.runs.add(run)
            started.append(run)
        self.return_slots(slots - len(started))
        if leases:
            self.events.emit_all("claimed", [lease.item for lease in leases])
            self.lease_seconds = leases[0].duration
            next_beat = now + min(0.0 if lease.needs_beat else beat_period(lease) for lease in leases)
            if next_beat < self.next_beat or not self.options.heartbeat:
                self.next_beat = next_beat
                self.clock.notify()
        if not self.takes_items:
            self.release_waiting()
        self.start_runs(started)

    def begin(self, run: Run) -> list[HeldLease]:
        """Notes that the handler begins. Returns the leases that it works on: an empty list if all have ended."""
        now = time.monotonic()
        leases = []
        for lease in run.leases:
            if lease.phase is not Phase.WAITING:
                continue
            if now >= lease.lost_at:
                # The process has slept since the claim.
                self.lose(lease, "the lease has ended before the handler was started")
                continue
            lease.phase = Phase.RUNNING
            leases.append(lease)
        self.events.emit_all("started", [lease.item for lease in leases])
        run.context.started_at = now
        if self.options.time_limit is not None:
            self.clock.notify()
        return leases

    def end(self, run: Run, results: list[Ending], wake: bool = True) -> None:
        """Notes that the handler has returned. Ignores the endings of leases that have ended meanwhile.

        Without `wake` the caller notifies the settler later.
        """
        self.runs.discard(run)
        if run.context.started_at:
            self.gathering.note(time.monotonic() - run.context.started_at)
        for ending in results:
            self.settle(ending, wake)
        if run.is_stuck:
            self.stuck -= 1
        if not run.slot_replaced:
            self.return_slots(1)
        if not self.takes_items:
            self.all_ended.notify_all()

    def settle(self, ending: Ending, wake: bool = True) -> None:
        """Passes an ending to the settler, unless the lease has ended already."""
        if ending.lease.phase in (Phase.WAITING, Phase.RUNNING):
            if time.monotonic() >= ending.lease.deadline:
                # The process has slept, and the handler was faster than the keeper.
                self.lose(ending.lease, "the lease has ended before the handler returned")
                return
            ending.lease.phase = Phase.DONE
            self.endings.append(ending)
            if wake:
                self.endings_ready.notify()

    def drop(self, lease: HeldLease) -> None:
        """Forgets a lease that has ended."""
        lease.phase = Phase.ENDED
        # The run refers to the lease. Without the circle both are freed now and not by the garbage collector.
        lease.run = None
        self.held.pop(lease.id, None)

    def lose(self, lease: HeldLease, reason: str | None = None) -> None:
        """Drops a lease that was lost, and cancels its handler if it has no other lease."""
        self.events.emit("lost", lease.item, reason=reason)
        run = lease.run
        self.drop(lease)
        if run is not None and run in self.runs and all(other.phase is Phase.ENDED for other in run.leases):
            self.cancel(run, "lease_lost", reason)

    def cancel(self, run: Run, cause: Cause, reason: str | None = None) -> None:
        """Cancels a handler, unless it is cancelled already."""
        if run.context._cancel(cause):
            for lease in run.leases:
                self.events.emit("cancelled", lease.item, cause=cause, reason=reason)
            self.clock.notify()

    def note_too_large(self, items: Iterable[v1.TooLargeItem]) -> None:
        """Logs items that the broker cannot send because of their size, each once."""
        for item in items:
            if item.key not in self._too_large:
                self._too_large.add(item.key)
                self.options.logger.error("item %s is too large to be sent: %d bytes", item.key, item.size_bytes)

    def refuse_checkpoint(self, lease: HeldLease, checkpoint: bytes, problem: str) -> None:
        """Forgets a checkpoint that the broker has refused. Later ones of its size are refused by the context."""
        self.checkpoint_limit.max_bytes = min(self.checkpoint_limit.max_bytes, max(len(checkpoint) - 1, 0))
        if lease.new_checkpoint == checkpoint:
            lease.new_checkpoint = None
        self.options.logger.error("the checkpoint of item %s was not stored: %s", lease.item.key, problem)

    def release_waiting(self) -> None:
        """Releases the leases whose handlers have not begun."""
        for lease in list(self.held.values()):
            if lease.phase is Phase.WAITING:
                self.settle(endings.released(lease))


def beat_period(lease: HeldLease) -> float:
    """Returns the seconds between two heartbeats of a lease."""
    return max(lease.duration / 3, 0.25)
