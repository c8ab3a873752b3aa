"""The state of a worker, which its threads share: slots, leases, running handlers and endings that are not settled."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from lease_broker import endings
from lease_broker.endings import Ending
from lease_broker.errors import Cause
from lease_broker.events import Events
from lease_broker.leases import Context, HeldLease, Phase, Run
from lease_broker.options import Options

if TYPE_CHECKING:
    from lease_broker import v1


class State:
    """The state of a worker. `lock` guards it. Each thread waits on a condition of its own."""

    def __init__(self, options: Options, events: Events) -> None:
        self.options = options
        self.events = events
        self.lock = threading.RLock()
        self.slots_free = threading.Condition(self.lock)
        """The poller waits here: a slot may be free."""
        self.endings_ready = threading.Condition(self.lock)
        """The settler waits here: an item has ended."""
        self.clock = threading.Condition(self.lock)
        """The keeper waits here: a lease has arrived or ended."""
        self.all_ended = threading.Condition(self.lock)
        """`stop` waits here: a handler has returned, or an item was settled."""
        self.free_slots = options.concurrency
        self.held: dict[str, HeldLease] = {}
        self.runs: set[Run] = set()
        self.endings: deque[Ending] = deque()
        self.unsettled = 0
        """The number of endings that the settler has taken and not settled."""
        self.stuck = 0
        self.takes_items = True
        """False as soon as the worker stops."""
        self.next_beat = float("inf")
        self.start_run: Callable[[Run], None] = lambda _run: None

    def reserve_slots(self) -> int:
        """Takes the free slots for a claim. Returns their number, which is 0 if the worker takes no items now."""
        if not self.takes_items or self.stuck > self.options.allowed_stuck:
            return 0
        slots = min(self.free_slots, self.options.max_slots_per_call)
        self.free_slots -= slots
        return slots

    def return_slots(self, slots: int) -> None:
        """Gives back slots for which no item came."""
        self.free_slots += slots
        if self.free_slots > 0:
            self.slots_free.notify()

    def accept(self, messages: list[v1.Lease], slots: int, sent_at: float) -> None:
        """Starts handlers for the leases of a claim, for which `slots` slots were reserved."""
        size = self.options.slot_size
        # A repeated answer can bring a lease that the worker has already.
        leases = [HeldLease(message, sent_at) for message in messages if message.lease_id not in self.held]
        started: list[Run] = []
        for first in range(0, len(leases), size):
            group = leases[first : first + size]
            context = Context(group, self.options.logger)
            run = Run(group, context)
            for lease in group:
                lease.run = run
                self.held[lease.id] = lease
                self.events.emit("claimed", lease.item)
            self.runs.add(run)
            started.append(run)
        self.return_slots(slots - len(started))
        if leases:
            self.next_beat = min(self.next_beat, time.monotonic() + min(beat_period(lease) for lease in leases))
            self.clock.notify()
        for run in started:
            self.start_run(run)

    def begin(self, run: Run) -> list[HeldLease]:
        """Notes that the handler begins. Returns the leases that it works on, which are none if all have ended."""
        leases = [lease for lease in run.leases if lease.phase is Phase.WAITING]
        for lease in leases:
            lease.phase = Phase.RUNNING
            self.events.emit("started", lease.item)
        run.context.started_at = time.monotonic()
        return leases

    def end(self, run: Run, results: list[Ending]) -> None:
        """Notes that the handler has returned. Endings of leases that have ended meanwhile are thrown away."""
        self.runs.discard(run)
        for ending in results:
            self.settle(ending)
        if run.is_stuck:
            self.stuck -= 1
        if not run.slot_replaced:
            self.return_slots(1)
        self.all_ended.notify_all()

    def settle(self, ending: Ending) -> None:
        """Hands an ending to the settler, unless the lease has ended already."""
        if ending.lease.phase in (Phase.WAITING, Phase.RUNNING):
            ending.lease.phase = Phase.SETTLING
            self.endings.append(ending)
            self.endings_ready.notify()

    def drop(self, lease: HeldLease) -> None:
        """Forgets a lease that has ended."""
        lease.phase = Phase.ENDED
        self.held.pop(lease.id, None)
        self.all_ended.notify_all()

    def lose(self, lease: HeldLease, reason: str | None = None) -> None:
        """Drops a lease that was lost, and cancels its handler if it has no other lease."""
        self.events.emit("lost", lease.item, reason=reason)
        self.drop(lease)
        run = lease.run
        if run is not None and run in self.runs and all(other.phase is Phase.ENDED for other in run.leases):
            self.cancel(run, "lease_lost")

    def cancel(self, run: Run, cause: Cause) -> None:
        """Cancels a handler, unless it is cancelled already."""
        if run.context._cancel(cause):
            for lease in run.leases:
                self.events.emit("cancelled", lease.item, cause=cause)
            self.clock.notify()

    def give_back_waiting(self) -> None:
        """Releases the leases whose handlers have not begun."""
        for lease in list(self.held.values()):
            if lease.phase is Phase.WAITING:
                self.settle(endings.released(lease))


def beat_period(lease: HeldLease) -> float:
    """Returns the seconds between two heartbeats of a lease."""
    return max(lease.duration / 3, 0.25)
