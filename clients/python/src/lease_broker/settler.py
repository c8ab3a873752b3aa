"""The settler: sends the endings of items in groups. The same call claims the next items."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from lease_broker import v1
from lease_broker.calls import ATTEMPT_TIMEOUT, Answer, Caller, check_count, failure_of_next
from lease_broker.endings import Ending, Rpc
from lease_broker.errors import LeaseBrokerError
from lease_broker.events import EventName
from lease_broker.leases import RESENDING, SETTLING
from lease_broker.poller import MAX_BYTES
from lease_broker.state import State
from lease_broker.values import duration

# Handlers that end together share a call if the settler waits a moment.
_YIELD_SECONDS = 0.0001
_MIN_ATTEMPT_TIMEOUT = 1.0
# Errors of a whole call that the same call meets again.
_PERMANENT = ("INVALID_FIELD", "LIMIT_EXCEEDED")
# Errors after which no call of this worker succeeds.
_FATAL = ("UNAUTHENTICATED", "PERMISSION_DENIED")

# The order decides which of the calls of a group claims the next items.
_RPCS: dict[Rpc, tuple[type[Any], str, EventName]] = {
    "Complete": (v1.CompleteRequest, "completions", "completed"),
    "Fail": (v1.FailRequest, "failures", "failed"),
    "Release": (v1.ReleaseRequest, "releases", "released"),
}


class Settler:
    """Settles endings until it is closed and the last one is settled."""

    def __init__(self, state: State, caller: Caller, on_fatal: Callable[[LeaseBrokerError], None]) -> None:
        self._state = state
        self._caller = caller
        self._on_fatal = on_fatal
        self._closed = False

    def close(self) -> None:
        """Makes `run` return when everything is settled."""
        with self._state.lock:
            self._closed = True
            self._state.endings_ready.notify()

    def run(self) -> None:
        """Settles until `close`."""
        state = self._state
        while self._wait_for_endings():
            if state.runs:
                time.sleep(state.gathering.wait(len(state.runs)) or _YIELD_SECONDS)
            with state.lock:
                group = state.take_group()
                slots = state.reserve_slots() if group else 0
            try:
                if group:
                    self._settle(group, slots)
            finally:
                with state.lock:
                    state.unsettled = 0
                    state.return_slots(0)
                    state.all_ended.notify_all()

    def _wait_for_endings(self) -> bool:
        with self._state.lock:
            while not self._state.endings:
                if self._closed:
                    return False
                self._state.endings_ready.wait()
            return True

    def _settle(self, group: list[Ending], slots: int) -> None:
        """Settles a group with one call for each kind of ending. `slots`: the slots to claim items for."""
        parts = {rpc: part for rpc in _RPCS if (part := [ending for ending in group if ending.rpc == rpc])}
        first, *others = parts
        threads = [threading.Thread(target=self._send, args=(rpc, parts[rpc]), daemon=True) for rpc in others]
        for thread in threads:
            thread.start()
        # A Release claims nothing.
        claim = self._next_claim(slots) if slots > 0 and first != "Release" else None
        self._send(first, parts[first], claim, slots)
        for thread in threads:
            thread.join()

    def _next_claim(self, slots: int) -> v1.NextClaim:
        options = self._state.options
        claim = v1.NextClaim(
            worker_id=options.worker_id,
            max_items=slots * options.slot_size,
            request_id=str(uuid.uuid4()),
            max_bytes=MAX_BYTES,
        )
        if options.lease is not None:
            claim.lease_duration.CopyFrom(duration(options.lease))
        return claim

    def _send(self, rpc: Rpc, group: Sequence[Ending], claim: v1.NextClaim | None = None, slots: int = 0) -> None:
        """Sends a group of one kind until the last of its leases ends, with a claim for `slots` slots."""
        state = self._state

        def on_retry() -> None:
            # From now on heartbeats keep the leases, as it may take a while.
            with state.lock:
                for ending in group:
                    if ending.lease.phase is SETTLING:
                        ending.lease.phase = RESENDING
                state.next_beat = 0
                state.clock.notify()

        request_type, field, _ = _RPCS[rpc]
        request = request_type(queue=state.options.queue)
        entries = getattr(request, field)
        for ending in group:
            ending.add_to(entries)
        if claim is not None:
            request.next.CopyFrom(claim)
        leases: list[v1.Lease] = []
        sent_at = state.now()
        # A connection that has died is noticed while there is time for a retry.
        timeout = max(min(ending.lease.duration for ending in group) / 2, _MIN_ATTEMPT_TIMEOUT)
        try:
            answer = self._caller.call(
                rpc,
                request,
                until=lambda: min(max(ending.lease.deadline for ending in group), state.settle_until),
                attempt_timeout=min(timeout, ATTEMPT_TIMEOUT),
                on_retry=on_retry,
            )
            check_count(rpc, answer.message.results, group)
            self._note(group, answer)
            if claim is not None:
                leases, sent_at = self._read_next(claim, answer), answer.sent_at
        except LeaseBrokerError as error:
            if claim is not None:
                with state.lock:
                    state.abandoned_requests.append(claim.request_id)
            self._note_error(rpc, group, error)
        finally:
            if slots > 0:
                with state.lock:
                    state.accept(leases, slots, sent_at)

    def _read_next(self, claim: v1.NextClaim, answer: Answer) -> list[v1.Lease]:
        """Returns the leases of the claim. If it has failed, the next claim waits as after an error of its own."""
        state, message = self._state, answer.message
        state.note_too_large(message.next.too_large)
        if message.HasField("next_error"):
            failure = failure_of_next(message.next_error)
            with state.lock:
                if failure.applied == "unknown":
                    state.abandoned_requests.append(claim.request_id)
                try:
                    state.claim_at = state.now() + self._caller.pause_after_next(failure)
                except LeaseBrokerError as error:
                    self._on_fatal(error)
        return list(message.next.leases)

    def _note(self, group: Sequence[Ending], answer: Answer) -> None:
        """Notes the outcome of each ending."""
        state = self._state
        completed = []
        with state.lock:
            for ending, result in zip(group, answer.message.results, strict=True):
                lease = ending.lease
                name = outcome_event(ending, result.outcome, answer)
                if name == "completed":
                    completed.append(lease)
                elif name == "refused":
                    state.refuse(ending, result.refusal)
                    continue
                elif name == "failed":
                    state.events.emit(name, lease.item, error=ending.message.error_message)
                else:
                    state.events.emit(name, lease.item)
                state.drop(lease)
            state.events.emit_all("completed", completed)

    def _note_error(self, rpc: Rpc, group: Sequence[Ending], error: LeaseBrokerError) -> None:
        """Deals with a call that failed as a whole."""
        state = self._state
        if error.reason in _PERMANENT:
            if len(group) > 1:
                for ending in group:
                    self._send(rpc, [ending])
                return
            with state.lock:
                state.refuse(group[0], v1.Refusal(message=error.message))
            return
        with state.lock:
            for ending in group:
                state.events.emit("unknown", ending.lease.item, error=str(error))
                state.drop(ending.lease)
        state.options.logger.warning("%d items may not be settled: %s", len(group), error)
        if error.code in _FATAL and not error.temporary:
            self._on_fatal(error)


def outcome_event(ending: Ending, outcome: v1.Outcome, answer: Answer) -> EventName:
    """Returns the name of the event for an outcome."""
    if outcome == v1.OUTCOME_APPLIED:
        return _RPCS[ending.rpc][2]
    if outcome == v1.OUTCOME_REFUSED:
        return "refused"
    if outcome == v1.OUTCOME_GONE:
        # The row is gone. If an earlier attempt was sent while the lease was held, that attempt has removed the row.
        return "completed" if answer.attempts > 1 and answer.first_sent_at < ending.lease.deadline else "unknown"
    return "lost"
