"""What a handler receives and what it may return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from lease_broker import v1
from lease_broker.errors import seconds
from lease_broker.values import ColumnValue, Row, duration, from_message, row_to_messages


@dataclass(frozen=True, eq=False)
class Item:
    """A leased row."""

    key: str
    """The identity of the row, as the broker writes it."""
    columns: dict[str, ColumnValue]
    """The values of the row's columns. NULL is None."""
    attempt: int
    """The number of this attempt, 1 for the first."""
    fencing_token: int
    """A number that grows with every lease of this row. Systems that you write to can refuse a smaller one."""
    trace_parent: str
    """The W3C trace context of the lease."""


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
    """What a handler adds to the completion of its item."""

    follow_ups: Sequence[FollowUp] = field(default=())


def new_item(columns: Row, delay: timedelta | float | None) -> v1.NewItem:
    """Returns the message for a row to add."""
    message = v1.NewItem(columns=row_to_messages(columns))
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
        fencing_token=lease.fencing_token,
        trace_parent=lease.trace_parent,
    )
