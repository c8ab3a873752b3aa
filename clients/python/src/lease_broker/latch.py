"""An event that the handler of a signal can set."""

from __future__ import annotations

import contextlib
import threading


class Latch:
    """An event that stays set.

    The handler of a signal runs in the main thread, between two lines. `threading.Event` takes a lock for moments, also
    while it waits. If the main thread has that lock, a handler that sets the event waits for ever.
    """

    def __init__(self) -> None:
        self._is_set = False
        # It is taken until the latch is set. Then each thread that waits takes it and gives it back for the next one.
        self._lock = threading.Lock()
        self._lock.acquire()

    def is_set(self) -> bool:
        """Returns True after `set`."""
        return self._is_set

    def set(self) -> None:
        """Ends all waits."""
        self._is_set = True
        # Another call has released it already.
        with contextlib.suppress(RuntimeError):
            self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for `set`. Returns False if `timeout` seconds pass first."""
        if self._lock.acquire(timeout=-1 if timeout is None else max(timeout, 0.0)):
            self.set()
        return self._is_set
