"""The poller: claims items for free slots with long polls."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable

from lease_broker import v1
from lease_broker.calls import Abort, Aborted, Caller
from lease_broker.errors import LeaseBrokerError
from lease_broker.state import State
from lease_broker.values import duration

# A fleet that starts at once does not ask at once.
_MAX_START_DELAY = 0.25
# A broker that stops answers waiting claims early, with no items. The next claim waits a little.
_PAUSE_AFTER_EARLY_ANSWER = 0.1


class Poller:
    """Claims items while slots are free, nothing has to be settled, and the worker does not stop."""

    def __init__(self, state: State, caller: Caller, on_fatal: Callable[[LeaseBrokerError], None]) -> None:
        self._state = state
        self._caller = caller
        self._on_fatal = on_fatal
        self._abort = Abort()
        self.abandoned_request: str | None = None
        """The id of a claim that was under way when the worker stopped. The broker may have leased items for it."""

    def stop(self) -> None:
        """Ends the claim that is under way."""
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

    def _wait_for_slots(self) -> int:
        """Waits until a claim is useful. Returns the number of reserved slots; 0: the worker stops."""
        state = self._state
        with state.lock:
            while state.takes_items:
                # What ends now is settled first: the same call claims the next items.
                if not state.endings and state.unsettled == 0 and (slots := state.reserve_slots()) > 0:
                    return slots
                state.slots_free.wait()
            return 0

    def _claim(self, slots: int) -> None:
        options = self._state.options
        request = v1.ClaimBatchRequest(
            queue=options.queue,
            worker_id=options.worker_id,
            max_items=slots * options.slot_size,
            wait_timeout=duration(options.wait),
            request_id=str(uuid.uuid4()),
        )
        if options.lease is not None:
            request.lease_duration.CopyFrom(duration(options.lease))
        begun = time.monotonic()
        self.abandoned_request = request.request_id
        messages: list[v1.Lease] = []
        sent_at = begun
        try:
            answer = self._caller.call("ClaimBatch", request, attempt_timeout=options.wait + 5, abort=self._abort)
            messages, sent_at = list(answer.message.leases), answer.sent_at
            self.abandoned_request = None
        finally:
            with self._state.lock:
                self._state.accept(messages, slots, sent_at)
        if not messages and time.monotonic() - begun < options.wait / 2:
            self._abort.wait(_PAUSE_AFTER_EARLY_ANSWER * random.uniform(0.5, 1.5))
