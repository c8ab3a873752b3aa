"""How long the settler waits for further endings, so that handlers that end one after the other share a call."""

from __future__ import annotations

GATHER_SECONDS = 0.001
"""The wait. Each slot that has ended is idle for at most this long."""
_MIN_SLOTS = 8
_MIN_HANDLER_SECONDS = 10 * GATHER_SECONDS
"""Handlers that are shorter would lose more by the wait than the broker gains."""
_WEIGHT = 1 / 8
"""The weight of a new handler in the mean."""


class Gathering:
    """Knows how long the handlers of a worker take."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._mean: float | None = None

    def note(self, seconds: float) -> None:
        """Notes the time of a handler that has returned."""
        self._mean = seconds if self._mean is None else self._mean + (seconds - self._mean) * _WEIGHT

    def wait(self, running: int) -> float:
        """Returns the seconds to wait while this number of handlers runs."""
        is_long = self._mean is not None and self._mean >= _MIN_HANDLER_SECONDS
        most_run = 2 * running > self._slots
        return GATHER_SECONDS if is_long and most_run and self._slots >= _MIN_SLOTS else 0.0
