"""The events of the worker as lines of JSON on standard output."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from lease_broker import Event


class Journal:
    """Writes lines. Each line is flushed before the call returns."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.ready = threading.Event()

    def write(self, name: str, **fields: Any) -> None:
        """Writes a line with the fields that have a value."""
        moment = time.clock_gettime(time.CLOCK_MONOTONIC) * 1000
        line = {"ev": name, "at_ms": round(moment, 1), **{k: v for k, v in fields.items() if v is not None}}
        with self._lock:
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()

    def on_event(self, event: Event) -> None:
        """Writes an event of the library."""
        details = dict(event.details)
        if event.name == "retry":
            details["retry"] = details.pop("attempt")
        details.pop("stack", None)
        if event.name == "started" and event.item is not None and event.item.checkpoint is not None:
            details["checkpoint"] = event.item.checkpoint.decode()
        self.write(event.name, key=event.key, attempt=event.attempt, fence=event.fencing_token, **details)
