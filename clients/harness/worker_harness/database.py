"""The facts: rows of the queues' tables, and a history of their states that triggers record."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

READY, LEASED, DELAYED, COMPLETED, DEAD = range(5)
STATES = ("ready", "leased", "delayed", "completed", "dead")


@dataclass(frozen=True)
class Row:
    """An item's row."""

    key: str
    state: int
    attempt: int
    fence: int
    error: str | None
    result: str | None
    payload: str
    trace_parent: str | None
    checkpoint: bytes | None


@dataclass(frozen=True)
class Change:
    """A change of an item's state, as the database saw it. Times are in milliseconds since 1970."""

    key: str
    old_state: int
    state: int
    attempt: int
    fence: int
    due_time: int | None
    state_time: int
    error: str | None
    owner: str | None


class Database:
    """Reads the SQLite file that the brokers serve."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.watched: set[str] = set()
        """The queues whose changes are recorded."""

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Runs a statement in a transaction of its own."""
        connection = sqlite3.connect(self._path, timeout=30)
        try:
            with connection:
                return connection.execute(sql, parameters).fetchall()
        finally:
            connection.close()

    def watch(self, queue: str) -> None:
        """Records each change of state of the queue's items from now on."""
        self.watched.add(queue)
        self.query(
            "CREATE TABLE IF NOT EXISTS harness_history (number INTEGER PRIMARY KEY, queue, key, old_state, state,"
            " attempt, fence, due_time, state_time, error, owner)"
        )
        self.query(
            f"CREATE TRIGGER harness_{queue} AFTER UPDATE ON {queue}"
            " WHEN old.lease_state <> new.lease_state OR old.lease_fence <> new.lease_fence BEGIN"
            " INSERT INTO harness_history (queue, key, old_state, state, attempt, fence, due_time, state_time, error,"
            f" owner) VALUES ('{queue}', new.id, old.lease_state, new.lease_state, new.lease_attempt, new.lease_fence,"
            " new.lease_due_time, new.lease_state_time, new.lease_error, new.lease_owner); END"
        )
        self.query(
            f"CREATE TRIGGER harness_{queue}_deleted AFTER DELETE ON {queue} BEGIN"
            " INSERT INTO harness_history (queue, key, old_state, state, attempt, fence, state_time, owner)"
            f" VALUES ('{queue}', old.id, old.lease_state, {COMPLETED}, old.lease_attempt, old.lease_fence,"
            " CAST(unixepoch('subsec') * 1000 AS INTEGER), old.lease_owner); END"
        )

    def rows(self, queue: str) -> list[Row]:
        """Returns the queue's rows, ordered by key."""
        columns = "id, lease_state, lease_attempt, lease_fence, lease_error, result, payload, trace_parent"
        rows = self.query(f"SELECT {columns}, lease_checkpoint FROM {queue} ORDER BY id")
        return [Row(str(row[0]), *row[1:]) for row in rows]

    def states(self, queue: str) -> dict[str, int]:
        """Returns the number of the queue's rows in each state."""
        rows = self.query(f"SELECT lease_state, count(*) FROM {queue} GROUP BY lease_state")
        return {STATES[state]: count for state, count in rows}

    def history(self, queue: str) -> list[Change]:
        """Returns the changes of state of the queue's items, in the order in which they happened."""
        columns = "key, old_state, state, attempt, fence, due_time, state_time, error, owner"
        rows = self.query(f"SELECT {columns} FROM harness_history WHERE queue = ? ORDER BY number", queue)
        return [Change(str(row[0]), *row[1:]) for row in rows]

    def wait_for(self, queue: str, states: dict[str, int], seconds: float = 60) -> None:
        """Waits until the queue's rows have exactly these states."""
        until = time.monotonic() + seconds
        while (found := self.states(queue)) != states:
            if time.monotonic() > until:
                raise AssertionError(f"rows of {queue} after {seconds} s: {found}, expected {states}")
            time.sleep(0.05)
