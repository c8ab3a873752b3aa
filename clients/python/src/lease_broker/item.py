"""Items, which handlers receive, and results, which they may return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from lease_broker import v1
from lease_broker.errors import seconds
from lease_broker.values import Columns, Row, columns_from_messages, duration, row_to_messages, to_datetime


class Item:
    """A leased row. Tests of a handler can make one: `Item("7", {"Customer": "Ada"})`."""

    __slots__ = ("_columns", "_lease")

    def __init__(
        self,
        key: str,
        columns: Row | None = None,
        *,
        attempt: int = 1,
        fencing_token: int = 1,
        lease: v1.Lease | None = None,
    ) -> None:
        self._columns = None if columns is None else Columns(columns)
        # Its fields are translated when the handler asks, because the poller would do it under the worker's lock.
        self._lease = lease or v1.Lease(item=v1.Item(key=key), attempt=attempt, fencing_token=fencing_token)

    @property
    def key(self) -> str:
        """The identity of the row, as the broker writes it."""
        return self._lease.item.key

    @property
    def attempt(self) -> int:
        """The number of this attempt, 1 for the first."""
        return self._lease.attempt

    @property
    def fencing_token(self) -> int:
        """A number that grows with every lease of this row: systems that you write to can refuse a smaller one."""
        return self._lease.fencing_token

    @property
    def columns(self) -> Row:
        """The values of the row's columns. NULL is None.

        An unknown name raises an `UnknownColumnError`. A value whose kind only a newer API has raises a `ValueError`.
        """
        if self._columns is None:
            self._columns = columns_from_messages(self._lease.item.columns)
        return self._columns

    @property
    def max_attempts(self) -> int:
        """The number of attempts after which a failure makes the item dead. 0: no limit."""
        return self._lease.max_attempts

    @property
    def trace_parent(self) -> str:
        """The W3C trace context of the lease."""
        return self._lease.trace_parent

    @property
    def ready_time(self) -> datetime | None:
        """The time at which the item became ready, by the database's clock. None: it is not known."""
        return to_datetime(self._lease.ready_time) if self._lease.HasField("ready_time") else None

    @property
    def checkpoint(self) -> bytes | None:
        """The checkpoint that an earlier lease stored last. None: there is none."""
        return self._lease.checkpoint if self._lease.HasField("checkpoint") else None

    def __reduce__(self) -> tuple[Any, ...]:
        # `pickle` does not find the classes of messages.
        return _unpickled, (self._lease.SerializeToString(), self._columns)

    def __repr__(self) -> str:
        return f"Item({self.key!r}, attempt={self.attempt}, fencing_token={self.fencing_token})"


def _unpickled(lease: bytes, columns: Columns | None) -> Item:
    item = read_item(v1.Lease.FromString(lease))
    item._columns = columns
    return item


@dataclass(frozen=True)
class FollowUp:
    """A row that is added to a queue in the transaction that completes the item."""

    queue: str
    columns: Row
    delay: timedelta | float | None = None
    """The time until the row is ready. None: it is ready immediately."""
    trace_parent: str = ""
    """The W3C trace context that the leases of the row continue. Empty: that of the completed lease."""

    def to_message(self) -> v1.FollowUp:
        """Returns the message for this row."""
        return v1.FollowUp(queue=self.queue, item=new_item(self.columns, self.delay, self.trace_parent))


@dataclass(frozen=True)
class Result:
    """Follow-ups and column values that are committed together with the completion of an item."""

    follow_ups: Sequence[FollowUp] = ()
    """Rows to add to queues."""
    columns: Row = field(default_factory=dict)
    """Values to write into the item's own row. Only columns that the queue's setting `writable` lists."""


def new_item(columns: Row, delay: timedelta | float | None, trace_parent: str = "") -> v1.NewItem:
    """Returns the message for a row to add. `trace_parent`: the W3C trace context that its leases continue."""
    message = v1.NewItem(columns=row_to_messages(columns), trace_parent=trace_parent)
    wait = seconds(delay)
    if wait is not None:
        message.delay.CopyFrom(duration(wait, "delay"))
    return message


_MAX_NAMED = 10


def named(items: Sequence[Item]) -> str:
    """Returns the keys and attempts of items for the log: those of the first ten, and the number of the others."""
    texts = [f"{item.key} (attempt {item.attempt})" for item in items[:_MAX_NAMED]]
    left = len(items) - _MAX_NAMED
    more = f" and {left} other{'s' if left > 1 else ''}" if left > 0 else ""
    return f"item{'s' if len(items) > 1 else ''} {', '.join(texts)}{more}"


def read_item(lease: v1.Lease) -> Item:
    """Returns the row of a lease."""
    item = Item.__new__(Item)
    item._lease = lease
    item._columns = None
    return item
