"""A broker for the tests. The environment variable LEASE_BROKER names its binary."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

CONFIGURATION = """
[store]
path = "queues.db"
[server]
listen = "127.0.0.1:0"
[admin]
listen = ""
[queues.work]
managed_columns = { payload = "text", amount = "integer", result = "text" }
writable = ["result"]
checkpoint = { max_bytes = 100 }
max_attempts = 3
# Longer than a test, so that a failed item does not come back.
backoff = { initial = "10m", factor = 2.0, max = "1h", jitter = 0.2 }
[queues.next]
managed_columns = { number = "integer not null" }
"""


class Broker:
    """A broker process on a database of its own."""

    def __init__(self, folder: Path, binary: str, more: str = "") -> None:
        """`more`: further sections of the configuration."""
        self.folder = folder
        self.binary = binary
        (folder / "queues.toml").write_text(CONFIGURATION + more)
        self.address = ""
        self.start()

    def start(self) -> None:
        """Starts the process, on the port of the last one if there was one."""
        port = ["--listen", self.address] if self.address else []
        command = [self.binary, "serve", "--config", "queues.toml", *port]
        self.process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        found = re.search(r"listens on ([^ ,]+)", line)
        assert found is not None, line
        self.address = found[1]

    def kill(self) -> None:
        """Kills the process."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def cancel(self, key: str, reason: str) -> None:
        """Takes the lease of an item of the queue `work` away, as an operator does."""
        command = [self.binary, "cancel", "work", key, "--reason", reason, "--address", f"http://{self.address}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """Reads the database."""
        return rows(self.folder / "queues.db", sql)

    def write(self, sql: str) -> None:
        """Changes the database, as another program would."""
        connection = sqlite3.connect(self.folder / "queues.db", timeout=10)
        with connection:
            connection.execute(sql)
        connection.close()


def rows(database: Path, sql: str) -> list[tuple[object, ...]]:
    """Reads a database."""
    connection = sqlite3.connect(database, timeout=10)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def find_binary() -> str:
    """Returns the path of the broker's binary. Without one the test is skipped."""
    binary = os.environ.get("LEASE_BROKER") or shutil.which("lease-broker")
    if binary is None:
        pytest.skip("the environment variable LEASE_BROKER names no broker")
    return os.path.abspath(binary)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker that has just been started."""
    broker = Broker(tmp_path, find_binary())
    yield broker
    broker.kill()
