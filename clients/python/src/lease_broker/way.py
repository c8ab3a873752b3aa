"""Notices that a proxy refuses a settlement on its way. Heartbeats keep the leases, so no deadline would end it."""

from __future__ import annotations

from collections.abc import Sequence

import grpc

from lease_broker.calls import CallFailure
from lease_broker.leases import HeldLease
from lease_broker.state import State

PATIENCE = 10.0
"""The seconds for which a settlement is sent again that the way to the broker refuses."""
_CODES = (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.CANCELLED)


class Way:
    """Judges the attempts of a settlement."""

    refuses = False
    """True if the settlement is not worth another attempt."""

    def __init__(self, state: State, leases: Sequence[HeldLease]) -> None:
        self._state = state
        self._leases = leases
        self._retried_at: float | None = None
        """The moment of the last retry. A heartbeat follows each."""
        self._refusing_since: float | None = None
        """The moment of the first refusal since the broker has answered heartbeats."""

    def of(self, lease: HeldLease) -> Way:
        """Returns the judge of a part. It has no patience of its own: the group was sent for long enough."""
        part = Way(self._state, [lease])
        # No heartbeat was sent since the last attempt of the group.
        part._retried_at = part._refusing_since = self._refusing_since
        return part

    def note(self, failure: CallFailure) -> bool:
        """Takes the failure of an attempt. Returns True if the settlement is not worth another one."""
        with self._state.lock:
            now = self._state.now()
            # An error of something between this program and the broker that does answer.
            is_of_the_way = failure.code in _CODES and failure.reason is None and failure.pushback is None
            if not is_of_the_way or not self._is_open():
                self._refusing_since = None
            elif self._refusing_since is None:
                self._refusing_since = now
            else:
                self.refuses = now - self._refusing_since >= PATIENCE
            self._retried_at = now
            return self.refuses

    def _is_open(self) -> bool:
        """True if the broker has answered a heartbeat that was sent after the last retry."""
        return self._retried_at is not None and any(lease.last_answer >= self._retried_at for lease in self._leases)
