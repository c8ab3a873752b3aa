"""A conformance program of a library as a process, and its journal of events."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

Event: TypeAlias = dict[str, Any]


class WorkerProcess:
    """A worker in a process of its own. README.md has the protocol."""

    def __init__(
        self, program: Path, folder: Path, name: str, options: dict[str, Any], hosts: Path | None = None
    ) -> None:
        """`hosts`: a file that the process has in the place of /etc/hosts."""
        command = [str(program)]
        if hosts is not None:
            command = ["unshare", "-rm", "sh", "-c", f"mount --bind {hosts} /etc/hosts && exec {program}"]
        self.name = name
        self.queue: str = options["queue"]
        self.events: list[Event] = []
        self._counts: Counter[tuple[str, str | None]] = Counter()
        """The number of events by name, and by name and key."""
        self._changed = threading.Condition()
        self._has_output = True
        """The process can still write events."""
        self._journal = (folder / f"{name}.jsonl").open("w")
        with (folder / f"{name}.stderr").open("w") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.ended = False
        self.killed = False
        self._send({"cmd": "start", "options": options})

    def _send(self, command: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._journal.write(line)
            event = json.loads(line)
            with self._changed:
                self.events.append(event)
                self._counts[event["ev"], None] += 1
                self._counts[event["ev"], event.get("key")] += "key" in event
                self._changed.notify_all()
        self._journal.close()
        with self._changed:
            self._has_output = False
            self._changed.notify_all()

    def named(self, name: str, key: str | None = None) -> list[Event]:
        """Returns the events with this name, all or those of one item."""
        with self._changed:
            return [e for e in self.events if e["ev"] == name and key in (None, e.get("key"))]

    def count(self, name: str, key: str | None = None) -> int:
        """Returns the number of events with this name."""
        with self._changed:
            return self._counts[name, key]

    def counts(self) -> Counter[str]:
        """Returns the number of events by name."""
        with self._changed:
            return Counter({name: count for (name, key), count in self._counts.items() if key is None})

    def beats(self) -> int:
        """Returns the number of leases that heartbeats extended."""
        return sum(event.get("count", 1) for event in self.named("heartbeat"))

    def wait(self, condition: Callable[[WorkerProcess], bool], seconds: float = 60) -> None:
        """Waits until the events meet a condition."""
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self) or not self._has_output, seconds):
                raise AssertionError(f"{self.name} after {seconds} s: {dict(self.counts())}")
        if not condition(self):
            raise AssertionError(f"{self.name} ended early: {dict(self.counts())}")

    def wait_for(self, name: str, number: int = 1, seconds: float = 60, key: str | None = None) -> Event:
        """Waits until an event has happened `number` times, and returns the last of them."""
        self.wait(lambda worker: worker.count(name, key) >= number, seconds)
        return self.named(name, key)[number - 1]

    def ask(self, command: str, seconds: float = 10) -> Event:
        """Sends `health` or `counters` and returns the answer."""
        number = self.count(command) + 1
        self._send({"cmd": command})
        return self.wait_for(command, number, seconds)

    def stop(self, grace_ms: int = 20_000) -> None:
        """Asks the worker to stop."""
        self._send({"cmd": "stop", "grace_ms": grace_ms})

    def signal(self, number: signal.Signals) -> float:
        """Sends a signal. Returns the moment in milliseconds of the monotonic clock."""
        moment = now_ms()
        self._process.send_signal(number)
        if number is signal.SIGKILL:
            self.killed = True
        return moment

    def wait_for_end(self, seconds: float, code: int = 0) -> None:
        """Waits until the process has ended, with this exit code."""
        try:
            found = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} runs {seconds} s after the stop: {dict(self.counts())}") from None
        self._reader.join()
        self.ended = True
        if not self.killed:
            assert found == code, f"{self.name} ended with exit code {found}, expected {code}"

    def finish(self, code: int = 0, grace_ms: int = 20_000) -> None:
        """Stops the worker and waits until it has ended."""
        self.stop(grace_ms)
        self.wait_for_end(grace_ms / 1000 + 10, code)

    def discard(self) -> None:
        """Ends the process if it still runs."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
        self._process.wait()
        self._reader.join(5)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                # The process can have ended with a command unread.
                with contextlib.suppress(OSError):
                    stream.close()


def now_ms() -> float:
    """Returns the time of the clock that the events carry."""
    return time.clock_gettime(time.CLOCK_MONOTONIC) * 1000
