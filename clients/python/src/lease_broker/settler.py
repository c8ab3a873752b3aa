"""The settler: sends the endings of items in groups. The same call claims the next items."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lease_broker import v1
from lease_broker.calls import ATTEMPT_TIMEOUT, Answer, Caller, check_count, failure_of_next
from lease_broker.endings import Ending, Rpc
from lease_broker.errors import LeaseBrokerError
from lease_broker.events import EventName
from lease_broker.leases import ENDED, RESENDING, SETTLING
from lease_broker.poller import MAX_BYTES
from lease_broker.state import State
from lease_broker.values import duration
from lease_broker.way import Way

# Handlers that end together share a call if the settler waits a moment.
_YIELD_SECONDS = 0.0001
_MIN_ATTEMPT_TIMEOUT = 1.0
# Errors after which no call of this worker succeeds.
_FATAL = ("UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND")

_APPLIED = v1.OUTCOME_APPLIED
_REFUSED = v1.OUTCOME_REFUSED

# The order decides which of the calls of a group claims the next items.
_RPCS: dict[Rpc, tuple[type[Any], str, EventName]] = {
    "Complete": (v1.CompleteRequest, "completions", "completed"),
    "Fail": (v1.FailRequest, "failures", "failed"),
    "Release": (v1.ReleaseRequest, "releases", "released"),
}


@dataclass(slots=True)
class Settlement:
    """A call that settles endings of one kind, and claims items for `slots` slots."""

    rpc: Rpc
    group: list[Ending]
    slots: int
    request: Any

    @property
    def attempt_timeout(self) -> float:
        """The seconds of an attempt. A connection that has died is noticed while there is time for a retry."""
        shortest = min(ending.lease.duration for ending in self.group)
        return min(max(shortest / 2, _MIN_ATTEMPT_TIMEOUT), ATTEMPT_TIMEOUT)

    def ends_at(self, state: State) -> float:
        """Returns the moment after which the call is not sent again."""
        return min(max(ending.lease.deadline for ending in self.group), state.settle_until)


class Settler:
    """Settles endings until it is closed and the last one is settled."""

    def __init__(self, state: State, caller: Caller, on_fatal: Callable[[Exception], None]) -> None:
        self._state = state
        self._caller = caller
        self._on_fatal = on_fatal
        self._closed = False

    def close(self) -> None:
        """Makes `run` return when everything is settled."""
        with self._state.lock:
            self._closed = True
            self._state.wake_settler()

    def run(self) -> None:
        """Settles until `close`."""
        state = self._state
        while self._wait_for_endings():
            if state.runs:
                time.sleep(state.gathering.wait(len(state.runs)) or _YIELD_SECONDS)
            with state.lock:
                calls = self.take()
            try:
                self._send_all(calls)
            finally:
                with state.lock:
                    self.finish()

    def _send_all(self, calls: list[Settlement]) -> None:
        """Sends calls at the same time, and waits for their answers."""
        here, threads = calls[:1], []
        for call in calls[1:]:
            thread = threading.Thread(target=self._send, args=(call,), daemon=True)
            try:
                thread.start()
            except RuntimeError:
                # The system starts no more threads.
                here.append(call)
            else:
                threads.append(thread)
        for call in here:
            self._send(call)
        for thread in threads:
            thread.join()

    def _wait_for_endings(self) -> bool:
        state = self._state
        with state.lock:
            while True:
                rest = state.requeue_locked()
                if state.endings:
                    return True
                if self._closed and rest is None:
                    return False
                state.settler_waits = True
                state.endings_ready.wait(rest)

    def take(self) -> list[Settlement]:
        """Takes endings from the state. Returns one call for each kind of ending. The first one claims items."""
        state = self._state
        group = state.take_group()
        parts: dict[Rpc, list[Ending]] = {rpc: [] for rpc in _RPCS}
        for ending in group:
            parts[ending.rpc].append(ending)
        # A Release claims nothing.
        slots = state.reserve_slots() if parts["Complete"] or parts["Fail"] else 0
        calls = []
        for rpc, part in parts.items():
            if part:
                calls.append(self._settlement(rpc, part, slots))
                slots = 0
        return calls

    def finish(self) -> None:
        """Notes that all calls of `take` have ended."""
        self._state.unsettled = 0
        self._state.return_slots(0)
        self._state.all_ended.notify_all()

    def _settlement(self, rpc: Rpc, group: list[Ending], slots: int) -> Settlement:
        options = self._state.options
        request_type, field, _ = _RPCS[rpc]
        request = request_type(queue=options.queue)
        entries = getattr(request, field)
        for ending in group:
            if ending.message is None:
                entries.add(lease_id=ending.lease.id)
            else:
                entries.append(ending.message)
        if slots > 0:
            claim = request.next
            claim.worker_id = options.worker_id
            claim.max_items = slots * options.slot_size
            claim.request_id = str(uuid.uuid4())
            claim.max_bytes = MAX_BYTES
            claim.groups.extend(options.groups)
            if options.lease is not None:
                claim.lease_duration.CopyFrom(duration(options.lease))
        return Settlement(rpc, group, slots, request)

    def _send(self, call: Settlement, way: Way | None = None) -> None:
        """Sends a call. An error that it does not expect stops the worker, and its leases are not kept."""
        try:
            self._send_until_the_end(call, way or Way(self._state, [ending.lease for ending in call.group]))
        except Exception as error:
            self._state.options.logger.exception("a settlement has failed")
            self.note_error(call, LeaseBrokerError(call.rpc, "UNKNOWN", None, repr(error)))
            self._on_fatal(error)

    def _send_until_the_end(self, call: Settlement, way: Way) -> None:
        """Sends a call until the last of its leases ends."""
        state, group = self._state, call.group
        try:
            answer = self._caller.call(
                call.rpc,
                call.request,
                until=lambda: call.ends_at(state),
                attempt_timeout=call.attempt_timeout,
                on_retry=lambda: self.note_resent(call),
                gives_up=way.note,
            )
            check_count(call.rpc, answer.message.results, group)
        except LeaseBrokerError as error:
            if call.slots > 0 and (error.field or "").startswith("next"):
                # The claim is refused and not the endings. The poller's next claim meets the error itself.
                with state.lock:
                    self._abandon(call, error)
                self._send(self._settlement(call.rpc, group, 0))
            elif way.refuses or is_refusal(error):
                self._send_alone(call, error, way)
            else:
                self.note_error(call, error)
        else:
            self.note_answer(call, answer)

    def _send_alone(self, call: Settlement, error: LeaseBrokerError, way: Way) -> None:
        """Settles the endings of a refused call one by one, so that only the refused one fails."""
        state, group = self._state, call.group
        if error.reason is None:
            text = "a settlement is refused on the way to the broker: %d items are settled one by one, or fail: %s"
            state.options.logger.warning(text, len(group), error)
        with state.lock:
            self._abandon(call, error)
            if len(group) == 1:
                state.refuse(group[0], v1.Refusal(message=error.message))
                return
        for ending in group:
            self._send(self._settlement(call.rpc, [ending], 0), way.of(ending.lease))

    def note_resent(self, call: Settlement) -> None:
        """Notes that a call is sent again. From now on heartbeats keep the leases, as it may take a while."""
        state = self._state
        with state.lock:
            for ending in call.group:
                if ending.lease.phase == SETTLING:
                    ending.lease.phase = RESENDING
            state.next_beat = 0
            state.clock.notify()

    def note_answer(self, call: Settlement, answer: Answer) -> None:
        """Notes the outcome of each ending, and starts handlers for the next items."""
        state, message = self._state, answer.message
        completed, locked = [], []
        applied = _RPCS[call.rpc][2]
        with state.lock:
            for ending, result in zip(call.group, message.results, strict=True):
                lease, outcome = ending.lease, result.outcome
                if outcome == _REFUSED and result.refusal.reason == v1.REFUSAL_REASON_LOCKED:
                    locked.append(ending)
                    continue
                name = applied if outcome == _APPLIED else outcome_event(ending, outcome, answer)
                if name == "completed":
                    completed.append(lease)
                elif name == "refused":
                    state.refuse(ending, result.refusal)
                    continue
                elif name == "failed":
                    state.events.emit(name, lease.item, error=ending.message.error_message)
                else:
                    state.events.emit(name, lease.item)
                    if name in ("lost", "unknown"):
                        reason = "the row is gone" if name == "unknown" else "the broker has ended its lease"
                        state.note_lost(lease, reason)
                state.drop(lease)
            state.events.emit_all("completed", completed)
            if call.slots > 0:
                if message.HasField("next_error"):
                    self._note_failed_claim(call, message.next_error)
                state.accept(message.next.leases, call.slots, answer.sent_at)
        if locked:
            self._postpone(Settlement(call.rpc, locked, 0, None))

    def _postpone(self, call: Settlement) -> None:
        """Sends endings whose rows are locked again after a pause, unless their leases end before."""
        state, group = self._state, call.group
        self.note_resent(call)
        tries = 1 + max(ending.tries for ending in group)
        try:
            left = call.ends_at(state) - state.now()
            pause = self._caller.pause_after_lock(call.rpc, tries, left, call.attempt_timeout)
        except LeaseBrokerError as error:
            self.note_error(call, error)
            return
        with state.lock:
            for ending in group:
                ending.tries = tries
                state.locked.append((state.now() + pause, ending))

    def _note_failed_claim(self, call: Settlement, error: v1.CallError) -> None:
        """The next claim waits as after an error of its own."""
        failure = failure_of_next(error)
        if failure.applied == "unknown":
            self._state.abandoned_requests.append(call.request.next.request_id)
        try:
            self._state.claim_at = self._state.now() + self._caller.pause_after_next(failure)
        except LeaseBrokerError as fatal:
            self._on_fatal(fatal)

    def note_error(self, call: Settlement, error: LeaseBrokerError) -> None:
        """Deals with a call that failed as a whole."""
        state = self._state
        with state.lock:
            self._abandon(call, error)
            for ending in call.group:
                if ending.lease.phase != ENDED:
                    state.events.emit("unknown", ending.lease.item, error=str(error))
                    state.note_lost(ending.lease, str(error))
                    state.drop(ending.lease)
        if error.code in _FATAL and not error.temporary:
            self._on_fatal(error)

    def _abandon(self, call: Settlement, error: LeaseBrokerError) -> None:
        """Gives back the slots of a claim that has failed."""
        if call.slots > 0:
            if error.applied != "no":
                self._state.abandoned_requests.append(call.request.next.request_id)
            self._state.return_slots(call.slots)
            call.slots = 0


def is_refusal(error: LeaseBrokerError) -> bool:
    """Returns True for an error of a whole call that is about its content, from the broker or from a proxy."""
    return not error.temporary and error.code in ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED")


def outcome_event(ending: Ending, outcome: v1.Outcome, answer: Answer) -> EventName:
    """Returns the name of the event for an outcome that is not APPLIED."""
    if outcome == v1.OUTCOME_REFUSED:
        return "refused"
    if outcome == v1.OUTCOME_GONE:
        # The row is gone. If an earlier attempt was sent while the lease was held, that attempt has removed the row.
        return "completed" if answer.attempts > 1 and answer.first_sent_at < ending.lease.deadline else "unknown"
    return "lost"
