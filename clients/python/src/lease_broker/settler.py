"""The settler: tells the broker how items have ended, in groups, and claims the next items with the same call."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any

from lease_broker import endings, v1
from lease_broker.calls import Answer, Caller
from lease_broker.endings import Completed, Ending, Failed, Released
from lease_broker.errors import LeaseBrokerError
from lease_broker.leases import Phase
from lease_broker.state import State
from lease_broker.values import duration

# Limits of one call: items, follow-ups of all items, and bytes, below the broker's 4 MiB.
_MAX_ITEMS = 1_000
_MAX_FOLLOW_UPS = 1_000
_MAX_BYTES = 3 * 1024 * 1024
# Handlers that end together share a call if the settler waits a moment. A longer wait gains nothing.
_GATHER_SECONDS = 0.0001


class Settler:
    """Settles endings until it is closed and none is left."""

    def __init__(self, state: State, caller: Caller) -> None:
        self._state = state
        self._caller = caller
        self._closed = False

    def close(self) -> None:
        """Makes `run` return when everything is settled."""
        with self._state.lock:
            self._closed = True
            self._state.endings_ready.notify()

    def run(self) -> None:
        """Settles until `close`."""
        while self._wait_for_endings():
            time.sleep(_GATHER_SECONDS)
            with self._state.lock:
                group = take_group(self._state)
                self._state.unsettled = len(group)
                slots = self._state.reserve_slots()
            try:
                slots = self._settle(group, slots)
            finally:
                with self._state.lock:
                    self._state.unsettled = 0
                    self._state.return_slots(slots)
                    self._state.slots_free.notify()
                    self._state.all_ended.notify_all()

    def _wait_for_endings(self) -> bool:
        with self._state.lock:
            while not self._state.endings:
                if self._closed:
                    return False
                self._state.endings_ready.wait()
            return True

    def _settle(self, group: list[Ending], slots: int) -> int:
        """Settles a group. Returns the slots for which no claim was sent."""
        completions = [ending for ending in group if isinstance(ending, Completed)]
        failures = [ending for ending in group if isinstance(ending, Failed)]
        releases = [ending for ending in group if isinstance(ending, Released)]
        queue = self._state.options.queue
        others = [
            threading.Thread(target=self._send, args=(rpc, request, part, 0), daemon=True)
            for rpc, request, part in (
                ("Fail", v1.FailRequest(queue=queue, failures=[failure.message for failure in failures]), failures),
                (
                    "Release",
                    v1.ReleaseRequest(queue=queue, releases=[release.message for release in releases]),
                    releases,
                ),
            )
            if part
        ]
        if not completions:
            # The calls follow one another, and nothing is claimed.
            for thread in others:
                thread.run()
            return slots
        request = v1.CompleteRequest(queue=queue, completions=[completion.message for completion in completions])
        if slots > 0:
            request.next.CopyFrom(self._next_claim(slots))
        for thread in others:
            thread.start()
        self._send("Complete", request, completions, slots)
        for thread in others:
            thread.join()
        return 0

    def _next_claim(self, slots: int) -> v1.NextClaim:
        options = self._state.options
        claim = v1.NextClaim(
            worker_id=options.worker_id, max_items=slots * options.slot_size, request_id=str(uuid.uuid4())
        )
        if options.lease is not None:
            claim.lease_duration.CopyFrom(duration(options.lease))
        return claim

    def _send(self, rpc: str, request: Any, group: Sequence[Ending], slots: int) -> None:
        """Sends a group of one kind until the last of its leases ends."""

        def on_retry() -> None:
            # From now on heartbeats keep the leases, as it may take a while.
            with self._state.lock:
                for ending in group:
                    if ending.lease.phase is Phase.SETTLING:
                        ending.lease.phase = Phase.RESENDING
                self._state.next_beat = 0
                self._state.clock.notify()

        leases: list[v1.Lease] = []
        sent_at = time.monotonic()
        try:
            deadline = max(ending.lease.deadline for ending in group)
            answer = self._caller.call(rpc, request, until=deadline, on_retry=on_retry)
            leases, sent_at = list(getattr(answer.message, "next_leases", ())), answer.sent_at
            self._note(group, answer)
        except LeaseBrokerError as error:
            with self._state.lock:
                for ending in group:
                    self._state.events.emit("unknown", ending.lease.item, text=str(error))
                    self._state.drop(ending.lease)
            self._state.options.logger.warning("%d items may not be settled: %s", len(group), error)
        finally:
            if slots > 0 or leases:
                with self._state.lock:
                    self._state.accept(leases, slots, sent_at)

    def _note(self, group: Sequence[Ending], answer: Answer) -> None:
        """Notes the outcome of each ending."""
        state = self._state
        with state.lock:
            for ending, result in zip(group, answer.message.results, strict=True):
                name = outcome_event(ending, result.outcome, answer.attempts > 1)
                if name == "failed" and isinstance(ending, Failed):
                    state.events.emit(name, ending.lease.item, text=ending.message.error_message)
                elif name == "refused":
                    self._refuse(ending, result.problem)
                    continue
                else:
                    state.events.emit(name, ending.lease.item)
                state.drop(ending.lease)

    def _refuse(self, ending: Ending, problem: str) -> None:
        """Fails an item whose ending the broker refused. The same ending can never succeed."""
        self._state.events.emit("refused", ending.lease.item, text=problem)
        if isinstance(ending, Completed):
            ending.lease.phase = Phase.RUNNING
            self._state.settle(endings.failed(ending.lease, f"refused: {problem}"))
        else:
            self._state.drop(ending.lease)


def outcome_event(ending: Ending, outcome: v1.Outcome, was_sent_again: bool) -> Any:
    """Returns the name of the event for an outcome."""
    if outcome == v1.OUTCOME_APPLIED:
        match ending:
            case Completed():
                return "completed"
            case Failed():
                return "failed"
            case Released():
                return "released"
    if outcome == v1.OUTCOME_REFUSED:
        return "refused"
    if outcome == v1.OUTCOME_GONE:
        # The row is gone. If the request was sent more than once, the first one has removed it.
        return "completed" if was_sent_again else "unknown"
    return "lost"


def take_group(state: State) -> list[Ending]:
    """Takes the endings that one call can carry, in the order in which the handlers ended."""
    group: list[Ending] = []
    follow_ups = size = 0
    while state.endings and len(group) < _MAX_ITEMS:
        ending = state.endings[0]
        follow_ups += len(ending.message.follow_ups) if isinstance(ending, Completed) else 0
        size += ending.message.ByteSize()
        if group and (follow_ups > _MAX_FOLLOW_UPS or size > _MAX_BYTES):
            break
        group.append(state.endings.popleft())
    return group
