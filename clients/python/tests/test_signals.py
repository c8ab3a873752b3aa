"""Signals, whose handlers run between any two lines of the main thread."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

import pytest

from lease_broker import Worker


class Interruption:
    """Calls a method of a worker in a thread, and requests a stop within it, as the handler of a signal does."""

    def __init__(self, method: str, line: int) -> None:
        """`line`: how many lines of Python run before the stop is requested."""
        self.worker = Worker("127.0.0.1:1", "work", print)
        self._lines = line
        self.happened = False
        self._thread = threading.Thread(target=self._call, args=(method,), daemon=True)
        self._thread.start()

    def ends(self, seconds: float) -> bool:
        """Returns True if the method returns."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _call(self, method: str) -> None:
        sys.settrace(self._trace)
        getattr(self.worker, method)()
        sys.settrace(None)

    def _trace(self, _frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self._lines -= 1
            if self._lines < 0:
                sys.settrace(None)
                self.happened = True
                self.worker.request_stop()
        return self._trace


@pytest.mark.parametrize("method", ["wait", "request_stop"])
def test_stop_can_be_requested_within_any_line_of(method: str) -> None:
    for line in range(100):
        interruption = Interruption(method, line)
        if not interruption.ends(0.5 if method == "wait" else 60) and not interruption.happened:
            # It waits: all lines before that were tried.
            interruption.worker.request_stop()
        assert interruption.ends(60), f"line {line}"
        assert interruption.worker.wait(0)
        if not interruption.happened:
            return
    pytest.fail("the method has too many lines")


def test_run_outside_the_main_thread_warns_that_signals_do_not_stop_it(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker("127.0.0.1:1", "work", print)
    worker.request_stop()
    thread = threading.Thread(target=worker.run)
    thread.start()
    thread.join(60)
    assert "signals do not stop the worker" in caplog.text
