"""Items, which handlers receive, and results, which they may return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lease_broker import v1
from lease_broker.errors import seconds
from lease_broker.values import ColumnValue, Row, duration, from_message, row_to_messages, to_datetime


@dataclass(frozen=True, eq=False)
class Item:
    """A leased row."""

    key: str
    """The identity of the row, as the broker writes it."""
    columns: dict[str, ColumnValue]
    """The values of the row's columns. NULL is None."""
    attempt: int
    """The number of this attempt, 1 for the first."""
    max_attempts: int
    """The number of attempts after which a failure makes the item dead. 0: no limit."""
    fencing_token: int
    """A number that grows with every lease of this row. Systems that you write to can refuse a smaller one."""
    trace_parent: str
    """The W3C trace context of the lease."""
    ready_time: datetime | None = None
    """The time at which the item became ready, by the database's clock. None: it is not known."""
    checkpoint: bytes | None = None
    """The checkpoint that an earlier lease stored last. None: there is none."""


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
    columns: Mapping[str, v1.Value] = lease.item.columns
    return Item(
        key=lease.item.key,
        columns={name: from_message(value) for name, value in columns.items()},
        attempt=lease.attempt,
        max_attempts=lease.max_attempts,
        fencing_token=lease.fencing_token,
        trace_parent=lease.trace_parent,
        ready_time=to_datetime(lease.ready_time) if lease.HasField("ready_time") else None,
        checkpoint=lease.checkpoint if lease.HasField("checkpoint") else None,
    )
