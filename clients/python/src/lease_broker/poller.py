"""The poller: claims items for free slots with long polls."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable

from lease_broker import v1
from lease_broker.calls import Abort, Aborted, Caller
from lease_broker.errors import LeaseBrokerError
from lease_broker.health import CallHealth
from lease_broker.state import State
from lease_broker.values import duration, duration_seconds

MAX_BYTES = 1 << 30
"""The size of an answer in bytes that a worker accepts. The broker's own limit is lower."""

# A fleet that starts at the same moment does not send its claims at the same moment.
_MAX_START_DELAY = 0.25
# A broker that stops answers waiting claims early, without items. The next claim waits a little.
_PAUSE_AFTER_EARLY_ANSWER = 0.1
# The longest pause before the next claim that a broker can ask for. Limits of a queue can change.
_LONGEST_PAUSE = 60.0
_RELEASE_SECONDS = 2.0
# The pause while the observer of events is behind.
_LOOK_AGAIN = 0.2


class Poller:
    """Claims items while slots are free, all endings are settled, and the worker does not stop."""

    def __init__(
        self, state: State, caller: Caller, health: CallHealth, on_fatal: Callable[[LeaseBrokerError], None]
    ) -> None:
        self._state = state
        self._caller = caller
        self._health = health
        self._on_fatal = on_fatal
        self._abort = Abort()

    def stop(self) -> None:
        """Ends the running claim."""
        self._abort.cancel()

    def run(self) -> None:
        """Claims until the worker stops."""
        if self._abort.wait(random.uniform(0, _MAX_START_DELAY)):
            return
        while (slots := self._wait_for_slots()) > 0:
            try:
                self._claim(slots)
            except Aborted:
                break
            except LeaseBrokerError as error:
                self._on_fatal(error)
                break

    def release_abandoned(self, forget: bool) -> None:
        """Releases the leases of claims without an answer.

        A worker that stops calls it twice: the first request may reach a broker before another broker runs the claim.
        """
        with self._state.lock:
            requests = list(self._state.abandoned_requests)
        if not requests:
            return
        options = self._state.options
        request = v1.ReleaseClaimsRequest(queue=options.queue, worker_id=options.worker_id, request_ids=requests)
        try:
            self._caller.call("ReleaseClaims", request, until=time.monotonic() + _RELEASE_SECONDS)
        except LeaseBrokerError as error:
            if forget or not error.temporary:
                options.logger.warning("the leases of %d claims may last until they expire: %s", len(requests), error)
            forget = not error.temporary
        if forget:
            with self._state.lock:
                left = [request for request in self._state.abandoned_requests if request not in requests]
                self._state.abandoned_requests = left

    def _wait_for_slots(self) -> int:
        """Waits until a claim is useful. Returns the number of reserved slots. 0: the worker stops."""
        state = self._state
        with state.lock:
            while state.takes_items:
                if state.may_claim and (slots := state.reserve_slots()) > 0:
                    return slots
                pause = _LOOK_AGAIN if state.events.is_behind else state.claim_at - state.now()
                state.slots_free.wait(pause if pause > 0 else None)
            return 0

    def _claim(self, slots: int) -> None:
        state, options = self._state, self._state.options
        self.release_abandoned(forget=True)
        # Without an answer before, a claim that waits for items looks like a broker that does not answer.
        wait = options.wait if self._health.answers else 0.0
        request = v1.ClaimBatchRequest(
            queue=options.queue,
            worker_id=options.worker_id,
            max_items=slots * options.slot_size,
            wait_timeout=duration(wait),
            request_id=str(uuid.uuid4()),
            max_bytes=MAX_BYTES,
            groups=options.groups,
        )
        if options.lease is not None:
            request.lease_duration.CopyFrom(duration(options.lease))
        begun = time.monotonic()
        messages: list[v1.Lease] = []
        sent_at = begun
        stopping = False
        retry_after: float | None = None
        try:
            answer = self._caller.call(
                "ClaimBatch",
                request,
                attempt_timeout=wait + 5,
                abort=self._abort,
                on_retry=lambda: request.ClearField("wait_timeout"),
            )
            messages, sent_at = list(answer.message.leases), answer.sent_at
            stopping = answer.message.held_back == v1.HELD_BACK_STOPPING
            if answer.message.HasField("retry_after"):
                retry_after = duration_seconds(answer.message.retry_after)
        except BaseException as error:
            if getattr(error, "applied", None) != "no":
                with state.lock:
                    state.abandoned_requests.append(request.request_id)
            raise
        finally:
            with state.lock:
                state.accept(messages, slots, sent_at)
        if not messages and retry_after is not None:
            # A limit of the queue gives no item before.
            self._abort.wait(min(retry_after, _LONGEST_PAUSE))
        elif stopping or (
            not messages and (time.monotonic() - begun < wait / 2 or options.wait < _PAUSE_AFTER_EARLY_ANSWER)
        ):
            self._abort.wait(_PAUSE_AFTER_EARLY_ANSWER * random.uniform(0.5, 1.5))
