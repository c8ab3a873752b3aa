"""The health of the calls to the brokers: since when none was answered, and the warnings about that."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import grpc

if TYPE_CHECKING:
    from lease_broker.calls import CallFailure

FIRST_WARNING, NEXT_WARNING = 2.0, 30.0
"""The seconds without an answer before the first warning, and between two warnings."""


class CallHealth:
    """Remembers since when no call was answered, and warns about that. Several callers share it.

    An error with a reason of the broker is an answer, unless the code is UNAVAILABLE: then the broker has no database.
    """

    def __init__(
        self,
        address: str | Sequence[str] = "",
        logger: logging.Logger | None = None,
        on_change: Callable[[bool], None] = lambda _answers: None,
    ) -> None:
        """`on_change` is called when a call is answered after none was (True), and when one is not after one was."""
        self._address = address if isinstance(address, str) else ", ".join(address)
        self._logger = logger
        self._lock = threading.Lock()
        self._failing_since: float | None = None
        self._cause = ""
        self._has_warned = False
        self._timer: threading.Timer | None = None
        self._on_change = on_change
        self._was_answered = False

    @property
    def answers(self) -> bool:
        """True if the last call was answered."""
        return self._failing_since is None

    def failing_for(self) -> float:
        """Returns the seconds for which no call was answered. 0: the last call was answered."""
        since = self._failing_since
        return 0.0 if since is None else time.monotonic() - since

    def start(self) -> None:
        """Expects the first answer from now on. The first attempt can take long to fail."""
        with self._lock:
            self._begin("no answer yet")

    def note(self, failure: CallFailure | None) -> None:
        """Notes the end of an attempt. None: it succeeded. A failure before a call to another broker says nothing."""
        if failure is not None and failure.others_answer:
            return
        answered = failure is None or (failure.reason is not None and failure.code is not grpc.StatusCode.UNAVAILABLE)
        if answered != self._was_answered:
            self._was_answered = answered
            self._on_change(answered)
        if failure is None or answered:
            if self._failing_since is not None:
                self._end()
            return
        with self._lock:
            reason = f" ({failure.reason})" if failure.reason else ""
            self._begin(f"{failure.code.name}{reason}: {failure.message}")

    def forget(self) -> None:
        """Ends the warnings until the next failure, because a call was given up."""
        with self._lock:
            self._failing_since, self._has_warned = None, False
            self._stop_timer()

    def close(self) -> None:
        """Ends the warnings."""
        with self._lock:
            self._logger = None
            self._stop_timer()

    def _begin(self, cause: str) -> None:
        self._cause = cause
        if self._failing_since is None:
            self._failing_since = time.monotonic()
            self._warn_after(FIRST_WARNING, self._failing_since)

    def _end(self) -> None:
        with self._lock:
            seconds, logger = self.failing_for(), self._logger
            has_warned, self._has_warned = self._has_warned, False
            self._failing_since = None
            self._stop_timer()
        if has_warned and logger is not None:
            # A warning too: a log that shows the problem also shows its end.
            logger.warning("the broker at %s answers again after %.0f s", self._address, seconds)

    def _warn_after(self, seconds: float, since: float) -> None:
        if self._logger is not None:
            self._timer = threading.Timer(seconds, self._warn, [since])
            self._timer.daemon = True
            self._timer.start()

    def _warn(self, since: float) -> None:
        with self._lock:
            # The timer may have waited for the lock while an answer came.
            if self._failing_since != since or self._logger is None:
                return
            self._has_warned = True
            seconds, cause, logger = self.failing_for(), self._cause, self._logger
            self._warn_after(NEXT_WARNING, since)
        logger.warning("calls to the broker at %s have failed for %.0f s: %s", self._address, seconds, cause)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
