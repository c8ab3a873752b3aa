"""A broker process on a SQLite file, and the counters of its admin port."""

from __future__ import annotations

import re
import signal
import subprocess
import urllib.request
from pathlib import Path

START_SECONDS = 30


class Broker:
    """A `lease-broker serve` process. It keeps its port when it is restarted."""

    def __init__(self, binary: str, folder: Path, name: str, configuration: str) -> None:
        self._binary = binary
        self._folder = folder
        self._name = name
        self._process: subprocess.Popen[str] | None = None
        self.address = "127.0.0.1:0"
        self._admin = ""
        (folder / f"{name}.toml").write_text(configuration)

    def start(self) -> None:
        """Starts the process and waits until it listens."""
        command = [self._binary, "serve", "--config", f"{self._name}.toml", "--listen", self.address]
        with (self._folder / f"{self._name}.log").open("a") as log:
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        text = ""
        for line in self._process.stdout:
            text += line
            if found := re.search(r"admin port: (http://\S+)", line):
                self._admin = found[1]
                break
        listens = re.search(r"listens on ([^ ,]+)", text)
        if listens is None or not self._admin:
            raise RuntimeError(f"the broker did not start, see {self._folder / self._name}.log: {text!r}")
        self.address = listens[1]

    @property
    def process_id(self) -> int:
        """The number of the process."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Kills the process with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._end()

    def terminate(self, timeout: float = 30) -> None:
        """Sends SIGTERM and waits until the process has drained and ended."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(timeout)
        self._end()

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def _end(self) -> None:
        assert self._process is not None
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    def cancel(self, queue: str, key: str, reason: str) -> None:
        """Takes the lease of an item away, as an operator does."""
        command = [self._binary, "cancel", queue, key, "--reason", reason, "--address", f"http://{self.address}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def calls(self, rpc: str) -> int:
        """Returns the number of calls of an rpc since the start, running ones included."""
        method = f'rpc_method="leasebroker.v1.LeaseService/{rpc}"'
        ended = self.metric("rpc_server_call_duration_seconds_count", method)
        return int(ended + self.metric("lease_broker_call_active", method))

    def metric(self, name: str, *labels: str) -> float:
        """Returns the sum of a metric over all series that have the labels, such as 'queue="work"'."""
        with urllib.request.urlopen(f"{self._admin}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        total = 0.0
        for line in text.splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name and all(label in series for label in labels):
                total += float(value)
        return total
