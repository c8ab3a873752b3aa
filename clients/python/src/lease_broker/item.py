"""Items, which handlers receive, and results, which they may return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lease_broker import v1
from lease_broker.errors import seconds
from lease_broker.values import ColumnValue, Row, duration, from_message, row_to_messages, to_datetime


class Item:
    """A leased row. Tests of a handler can make one: `Item("7", {"Customer": "Ada"})`."""

    __slots__ = (
        "_columns",
        "_message",
        "attempt",
        "checkpoint",
        "fencing_token",
        "key",
        "max_attempts",
        "ready_time",
        "trace_parent",
    )

    def __init__(
        self,
        key: str,
        columns: dict[str, ColumnValue] | v1.Item,
        attempt: int = 1,
        max_attempts: int = 0,
        fencing_token: int = 1,
        trace_parent: str = "",
        ready_time: datetime | None = None,
        checkpoint: bytes | None = None,
    ) -> None:
        self.key = key
        """The identity of the row, as the broker writes it."""
        self.attempt = attempt
        """The number of this attempt, 1 for the first."""
        self.max_attempts = max_attempts
        """The number of attempts after which a failure makes the item dead. 0: no limit."""
        self.fencing_token = fencing_token
        """A number that grows with every lease of this row. Systems that you write to can refuse a smaller one."""
        self.trace_parent = trace_parent
        """The W3C trace context of the lease."""
        self.ready_time = ready_time
        """The time at which the item became ready, by the database's clock. None: it is not known."""
        self.checkpoint = checkpoint
        """The checkpoint that an earlier lease stored last. None: there is none."""
        self._message: v1.Item | None = None
        self._columns: dict[str, ColumnValue] | None = None
        if isinstance(columns, v1.Item):
            self._message = columns
        else:
            self._columns = columns

    @property
    def columns(self) -> dict[str, ColumnValue]:
        """The values of the row's columns. NULL is None."""
        # They are translated here and not by the poller, whose lock stops all other threads.
        if self._columns is None:
            values: Mapping[str, v1.Value] = {} if self._message is None else self._message.columns
            self._columns = {name: from_message(value) for name, value in values.items()}
            self._message = None
        return self._columns

    def __repr__(self) -> str:
        return f"Item({self.key!r}, attempt={self.attempt}, fencing_token={self.fencing_token})"


@dataclass(frozen=True)
class FollowUp:
    """A row that is added to a queue in the transaction that completes the item."""

    queue: str
    columns: Row
    delay: timedelta | float | None = None
    """The time until the row is ready. None: it is ready immediately."""

    def to_message(self) -> v1.FollowUp:
        """Returns the message for this row."""
        return v1.FollowUp(queue=self.queue, item=new_item(self.columns, self.delay))


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
        message.delay.CopyFrom(duration(wait))
    return message


def read_item(lease: v1.Lease) -> Item:
    """Returns the row of a lease."""
    item = lease.item
    return Item(
        item.key,
        item,
        lease.attempt,
        lease.max_attempts,
        lease.fencing_token,
        lease.trace_parent,
        to_datetime(lease.ready_time) if lease.HasField("ready_time") else None,
        lease.checkpoint if lease.HasField("checkpoint") else None,
    )
