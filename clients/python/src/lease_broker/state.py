"""The state of a queue's worker: slots, leases, handlers, endings to settle. It neither waits nor sends."""

from __future__ import annotations

import operator
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from lease_broker import endings
from lease_broker.endings import Ending
from lease_broker.errors import Cause
from lease_broker.events import Events
from lease_broker.gathering import Gathering
from lease_broker.item import Item, named
from lease_broker.leases import DONE, ENDED, RESENDING, RUNNING, SETTLING, WAITING, Context, HeldLease
from lease_broker.options import Options

if TYPE_CHECKING:
    from lease_broker import v1

# Limits of one call: items, follow-ups of all items, and bytes, below the broker's 4 MiB.
MAX_ITEMS = 1_000
_MAX_FOLLOW_UPS = 1_000
MAX_BYTES = 3 * 1024 * 1024
# The bytes that a completion without additions takes beside its lease id, approximately.
_PLAIN_SIZE = 8
# Seconds after which the item of a handler that was cancelled for its time limit is failed.
_TIME_LIMIT_GRACE = 5.0
# Seconds for which checkpoints as long as a refused one are left out.
_CHECKPOINT_PAUSE = 60.0
# The handlers whose stacks are logged when the worker ends without them.
_MAX_STACKS = 10
_NEVER = float("inf")
_DURATION = operator.attrgetter("duration")


class State:
    """The state of a worker of one queue. `lock` guards it. Each thread waits on its own condition."""

    def __init__(self, options: Options, events: Events, clock: Callable[[], float] = time.monotonic) -> None:
        self.options = options
        self.events = events
        self.now = clock
        self.lock = threading.RLock()
        self.slots_free = threading.Condition(self.lock)
        """The poller waits for it: a slot may be free."""
        self.endings_ready = threading.Condition(self.lock)
        """The settler waits for it: an item has ended."""
        self.settler_waits = False
        """True while the settler waits and was not notified."""
        self.clock = threading.Condition(self.lock)
        """The keeper waits for it: a lease has arrived, or a time limit has changed."""
        self.all_ended = threading.Condition(self.lock)
        """`stop` waits for it: a handler has returned, or an item was settled."""
        self.reserved = 0
        """The slots for which a claim is not answered yet."""
        self.held: dict[str, HeldLease] = {}
        self.runs: set[Context] = set()
        self.gathering = Gathering(options.concurrency)
        self.endings: deque[Ending] = deque()
        self.locked: list[tuple[float, Ending]] = []
        """Endings whose rows are locked, with the moments from which they are sent again."""
        self.unsettled = 0
        """The number of endings that the settler has taken and not settled."""
        self.stuck = 0
        self.takes_items = True
        """False as soon as the worker stops."""
        self.settle_until = _NEVER
        """The moment after which no settlement is sent again, because the worker stops."""
        self.next_beat = _NEVER
        self.lease_seconds = options.lease or 30.0
        """The duration of the latest lease."""
        self.abandoned_requests: list[str] = []
        """The ids of claims without an answer. The broker may have leased items for them."""
        self.claim_at = 0.0
        """The moment before which nothing is claimed, because a claim has failed."""
        self._lost: dict[tuple[str, str], list[Item]] = {}
        """Items that were lost and are not logged yet, by the effect and the reason."""
        self._refused_size, self._refused_until = 0, 0.0
        """Checkpoints of this length in bytes or longer are left out until this moment, because one was refused."""
        self.start_runs: Callable[[list[Context]], None] = lambda _runs: None
        self.watch_runner: Callable[[], None] = lambda: None

    def reserve_slots(self) -> int:
        """Takes the free slots for a claim. Returns their number, which is 0 if the worker takes no items now."""
        if not self.takes_items or self.stuck > self.options.allowed_stuck or self.now() < self.claim_at:
            return 0
        if self.events.is_behind:
            return 0
        # Otherwise a worker whose endings all meet a lock would claim without an end.
        if sum(lease.phase == RESENDING for lease in self.held.values()) >= self.options.concurrency:
            return 0
        slots = min(self.free_slots, self.options.max_slots_per_call)
        self.reserved += slots
        return slots

    def return_slots(self, slots: int) -> None:
        """Ends the reservation of slots: their claim was answered."""
        self.reserved -= slots
        # While endings are to be settled the poller has nothing to do, and waking it costs more than a short handler.
        if self.may_claim:
            self.slots_free.notify()

    @property
    def free_slots(self) -> int:
        """The slots that neither a handler nor a claim has. A stuck handler that may be replaced has none."""
        return self.options.concurrency + min(self.stuck, self.options.allowed_stuck) - len(self.runs) - self.reserved

    @property
    def may_claim(self) -> bool:
        """True if a claim is useful. The call that settles endings claims the next items itself."""
        return self.free_slots > 0 and self.unsettled == 0 and not self.endings

    def accept(self, messages: Iterable[v1.Lease], slots: int, sent_at: float) -> None:
        """Starts handlers for the leases of a claim, for which `slots` slots were reserved.

        If the worker stops, releases the leases.
        """
        size, now, held, logger = self.options.slot_size, self.now(), self.held, self.options.logger
        # A repeated answer can bring a lease that the worker has already.
        leases = [
            HeldLease(lease_id, message, sent_at, now)
            for message in messages
            if (lease_id := message.lease_id) not in held
        ]
        runs = []
        for first in range(0, len(leases), size):
            group = leases[first : first + size]
            run = Context(group, logger, self.refuse_checkpoint)
            for lease in group:
                lease.run = run
                held[lease.id] = lease
            runs.append(run)
        self.events.emit_all("claimed", leases)
        if not self.takes_items:
            self.return_slots(slots)
            self.release_waiting()
            return
        self.runs.update(runs)
        self.return_slots(slots)
        if leases:
            self.lease_seconds = leases[0].duration
            shortest = min(leases, key=_DURATION)
            next_beat = now + (0.0 if shortest.needs_beat else beat_period(shortest))
            if next_beat < self.next_beat or not self.options.heartbeat:
                self.next_beat = next_beat
                self.clock.notify()
            self.start_runs(runs)

    def begin(self, runs: Iterable[Context], are_tasks: bool = False) -> list[tuple[Context, list[HeldLease]]]:
        """Notes that handlers begin. Returns each run with the leases that it works on: none if all have ended.

        The time of a task counts from its first step, for which `begin_task` is called: another one may block the loop.
        """
        now = self.now()
        begun, started = [], []
        for run in runs:
            run._started_at = _NEVER if are_tasks else now
            leases = []
            for lease in run._leases:
                if lease.phase != WAITING:
                    continue
                # `lost_at` is the earlier of both moments that the call can return.
                if now >= lease.lost_at and now >= self.lost_at(lease):
                    # The process has slept since the claim.
                    self.lose(lease, self.ended_reason)
                    continue
                lease.phase = RUNNING
                leases.append(lease)
            begun.append((run, leases))
            started += leases
        self.events.emit_all("started", started)
        if self.options.time_limit is not None:
            self.clock.notify()
        return begun

    def begin_task(self, run: Context) -> None:
        """Notes the first step of a task. Is called without the lock."""
        run._started_at = self.now()
        if self.options.time_limit is not None:
            with self.lock:
                self.clock.notify()

    def end(self, ended: Iterable[tuple[Context, list[Ending]]]) -> None:
        """Notes that handlers have returned. Ignores the endings of leases that have ended meanwhile."""
        now = self.now()
        for run, results in ended:
            self.runs.discard(run)
            if run._started_at <= now:
                self.gathering.note(now - run._started_at)
            for ending in results:
                self.settle(ending, now)
            if run._is_stuck:
                self.stuck -= 1
        self.return_slots(0)
        if not self.takes_items:
            self.all_ended.notify_all()

    def settle(self, ending: Ending, now: float) -> None:
        """Passes an ending to the settler, unless the lease has ended already."""
        lease = ending.lease
        if lease.phase == RUNNING or lease.phase == WAITING:
            lease.is_released = ending.rpc == "Release"
            if now >= lease.deadline:
                # The process has slept, and the handler was faster than the keeper.
                self.lose(lease, self.ended_reason)
                return
            lease.phase = DONE
            if ending.rpc != "Complete" and self.sendable(ending.message.checkpoint) is None:
                ending.message.ClearField("checkpoint")
            self.endings.append(ending)
            if self.settler_waits:
                self.wake_settler()

    def wake_settler(self) -> None:
        """Wakes the settler, if it waits. A notification costs as much as a short handler."""
        self.settler_waits = False
        self.endings_ready.notify()

    def requeue_locked(self) -> float | None:
        """Queues endings again whose pause after a lock is over. Returns the seconds until the next one, or None."""
        now = self.now()
        self.endings.extend(ending for at, ending in self.locked if at <= now)
        self.locked = [(at, ending) for at, ending in self.locked if at > now]
        return min((at - now for at, _ in self.locked), default=None)

    def take_group(self) -> list[Ending]:
        """Takes the endings that one call can carry, in the order in which the handlers ended."""
        group: list[Ending] = []
        waiting = self.endings
        follow_ups = size = 0
        while waiting and len(group) < MAX_ITEMS:
            ending = waiting[0]
            lease = ending.lease
            if lease.phase != ENDED:
                if ending.message is None:
                    size += len(lease.id) + _PLAIN_SIZE
                else:
                    follow_ups += ending.follow_ups
                    size += ending.message.ByteSize()
                # One whose row was locked may wait for the lock again, and others would wait with it.
                differs = group and (lease.phase == RESENDING) != (group[0].lease.phase == RESENDING)
                if group and (differs or follow_ups > _MAX_FOLLOW_UPS or size > MAX_BYTES):
                    break
                lease.phase = max(lease.phase, SETTLING)
                group.append(ending)
            # Otherwise the lease was lost while the ending waited.
            waiting.popleft()
        self.unsettled = len(group)
        return group

    def drop(self, lease: HeldLease) -> None:
        """Forgets a lease that has ended."""
        lease.phase = ENDED
        # The run refers to the lease. Without the circle both are freed now and not by the garbage collector.
        lease.run = None
        self.held.pop(lease.id, None)

    def lose(self, lease: HeldLease, reason: str | None = None) -> None:
        """Drops a lease that was lost, and cancels its handler if it has no other lease."""
        self.events.emit("lost", lease.item, reason=reason)
        self.note_lost(lease, reason or "the broker has ended it")
        run = lease.run
        self.drop(lease)
        if run is not None and run in self.runs and all(other.phase == ENDED for other in run._leases):
            self.cancel(run, "lease_lost", reason)

    def note_lost(self, lease: HeldLease, reason: str) -> None:
        """Notes for the log that a lease has ended before the ending of its item was applied."""
        done, lost = "processed, but another worker may process it again", "the lease has ended before the handler"
        is_processed = lease.run not in self.runs and not lease.is_released
        self._lost.setdefault((done if is_processed else lost, reason), []).append(lease.item)

    def log_lost(self) -> None:
        """Logs the items of `note_lost`. Is called without the lock. A broker that dies loses all of them at once."""
        with self.lock:
            groups, self._lost = self._lost, {}
        for (effect, reason), items in groups.items():
            self.options.logger.warning("queue %s: %s: %s: %s", self.options.queue, named(items), effect, reason)

    def cancel(self, run: Context, cause: Cause, reason: str | None = None) -> None:
        """Cancels a handler, unless it is cancelled already."""
        now = self.now()
        if run._cancel(cause, now):
            for lease in run._leases:
                self.events.emit("cancelled", lease.item, cause=cause, reason=reason)
            if cause == "time_limit" and self.options.heartbeat:
                run._fail_at = now + min(_TIME_LIMIT_GRACE, self.options.stuck_after)
            self.clock.notify()

    def lost_at(self, lease: HeldLease) -> float:
        """Returns the moment at which the worker gives a lease up.

        With heartbeats that is early enough for the handler to stop before another worker starts. Without them a
        handler has the whole lease.
        """
        return lease.lost_at if self.options.heartbeat else lease.deadline

    @property
    def ended_reason(self) -> str:
        """The reason of a lease that the worker gives up by its own clock."""
        return "no heartbeat was answered in time" if self.options.heartbeat else "the lease has ended"

    def watch(self, now: float) -> float:
        """Acts on the times of all leases and handlers. Returns the moment to look again."""
        wake = _NEVER
        self.watch_runner()
        for lease in list(self.held.values()):
            wake = min(wake, self._watch_lease(lease, now))
        for run in list(self.runs):
            wake = min(wake, self._watch_run(run, now))
        return wake

    def _watch_lease(self, lease: HeldLease, now: float) -> float:
        if lease.phase == SETTLING or lease.phase == RESENDING:
            return _NEVER
        lost_at = self.lost_at(lease)
        if now >= lost_at:
            self.lose(lease, self.ended_reason)
            return _NEVER
        doubt_at = lease.last_answer + lease.duration / 2
        if now < doubt_at:
            return min(doubt_at, lost_at)
        if lease.phase == WAITING:
            self.settle(endings.released(lease), now)
        elif lease.run is not None and not self.options.heartbeat:
            if lease.phase == RUNNING:
                self.cancel(lease.run, "time_limit")
        elif not lease.in_doubt:
            lease.in_doubt = True
            self.events.emit("heartbeat_missed", lease.item)
        return lost_at

    def _watch_run(self, run: Context, now: float) -> float:
        limit = self.options.time_limit
        if all(lease.phase == WAITING for lease in run._leases) or run._is_stuck:
            return _NEVER
        if run._cause is None:
            if limit is None:
                return _NEVER
            if now < run._started_at + limit:
                return run._started_at + limit
            self.cancel(run, "time_limit")
        if now >= run._fail_at:
            run._fail_at = _NEVER
            failures = [
                endings.failed(lease, endings.time_limit_text(limit))
                for lease in run._leases
                if lease.phase in (WAITING, RUNNING)
            ]
            endings.log_failures(self.options.logger, self.options.queue, failures)
            for failure in failures:
                self.settle(failure, now)
        stuck_at = run._cancelled_at + self.options.stuck_after
        if now < stuck_at:
            return min(run._fail_at, stuck_at)
        self._give_up(run)
        return _NEVER

    def _give_up(self, run: Context) -> None:
        """Drops the leases of a handler that does not stop, and makes room for another handler."""
        run._is_stuck = True
        self.stuck += 1
        stack = stack_of(run)
        text = "queue %s: the handler of %s still runs %g s after its cancellation (%s):\n%s"
        items, after = named([lease.item for lease in run._leases]), self.options.stuck_after
        self.options.logger.error(text, self.options.queue, items, after, run._cause, stack)
        for lease in run._leases:
            if lease.phase in (WAITING, RUNNING):
                self.drop(lease)
            self.events.emit("stuck", lease.item, cause=run._cause, stack=stack)
        self.return_slots(0)

    def refuse(self, ending: Ending, refusal: v1.Refusal) -> None:
        """Ends an item in another way, because the broker refuses the ending. The same ending can never succeed."""
        lease, message = ending.lease, ending.message
        problem = f"{refusal.field}: {refusal.message}" if refusal.field else refusal.message
        self.events.emit("refused", lease.item, reason=problem)
        # The broker stores the reason too, but only the last one of each item.
        verb = ending.rpc.lower()
        text = "queue %s: ending refused: %s %s: %s"
        self.options.logger.warning(text, self.options.queue, verb, named([lease.item]), problem)
        lease.phase = RUNNING
        if ending.rpc == "Complete":
            self.settle(endings.failed(lease, f"Refused: {problem}"), self.now())
            return
        delay = "retry_delay" if ending.rpc == "Fail" else "delay"
        if message.HasField("checkpoint") and refusal.field != delay:
            # `settle` leaves it out.
            self.refuse_checkpoint(lease, message.checkpoint, refusal.message)
        elif message.HasField(delay):
            message.ClearField(delay)
        else:
            self.drop(lease)
            return
        self.settle(ending, self.now())

    def sendable(self, checkpoint: bytes | None) -> bytes | None:
        """Returns a checkpoint, or None if it is left out of the calls that are sent now."""
        return None if checkpoint is None or self._is_refused(len(checkpoint)) else checkpoint

    def _is_refused(self, size: int) -> bool:
        return size >= self._refused_size and self.now() < self._refused_until

    def refuse_checkpoint(self, lease: HeldLease, checkpoint: bytes, problem: str) -> None:
        """Leaves a checkpoint that was refused, and longer ones, out of the next calls, and logs why.

        It is sent again later, because the configuration of the queue can change. Is called with or without the lock.
        """
        size = len(checkpoint)
        with self.lock:
            if self._is_refused(size):
                return
            self._refused_size, self._refused_until = size, self.now() + _CHECKPOINT_PAUSE
        text = "queue %s: the checkpoint of item %s is not stored, nor are others of %d bytes or more for %d s: %s"
        self.options.logger.error(text, self.options.queue, lease.item.key, size, _CHECKPOINT_PAUSE, problem)

    def release_waiting(self) -> None:
        """Releases the leases whose handlers have not begun."""
        for lease in list(self.held.values()):
            if lease.phase == WAITING:
                self.settle(endings.released(lease), self.now())

    def stop(self) -> None:
        """Takes no further items."""
        self.takes_items = False
        self.slots_free.notify_all()
        self.release_waiting()

    def cancel_all(self) -> None:
        """Cancels all handlers, because the worker stops."""
        for run in list(self.runs):
            self.cancel(run, "shutdown")

    def leave_handlers(self) -> bool:
        """Drops the leases of handlers that have not returned. They expire. Returns True if there are such handlers."""
        runs = list(self.runs)
        for run in runs:
            for lease in run._leases:
                if lease.phase in (WAITING, RUNNING):
                    self.drop(lease)
        if runs:
            items = named([lease.item for run in runs for lease in run._leases])
            text = "queue %s: the worker ends without the handlers of %s, which do not stop:\n%s"
            stacks = "\n".join(stack_of(run) for run in runs[:_MAX_STACKS])
            self.options.logger.error(text, self.options.queue, items, stacks)
        return bool(runs)


def beat_period(lease: HeldLease) -> float:
    """Returns the seconds between two heartbeats of a lease."""
    return max(lease.duration / 3, 0.25)


def stack_of(run: Context) -> str:
    """Returns the stack of a handler, to show where it hangs."""
    lines: list[str] = []
    work: Any = None if run._task is None else run._task.get_coro()
    # A coroutine that runs blocks the thread of its loop. Another one waits for the coroutine of `cr_await`.
    while not getattr(work, "cr_running", False) and (frame := getattr(work, "cr_frame", None)) is not None:
        lines += traceback.format_stack(frame, 1)
        work = work.cr_await
    return "".join(lines).rstrip() or stack_of_thread(run._thread)


def stack_of_thread(thread: int) -> str:
    """Returns the stack of a thread."""
    frame = sys._current_frames().get(thread)
    return "" if frame is None else "".join(traceback.format_stack(frame)).rstrip()
